"""/livez of a worker depends on its main loop, and not on the broker."""

import http.client
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.processes import wait_until
from tests.commands.processes.alone import Process
from tests.commands.processes.stalling import STALLED_SECONDS

pytestmark = [pytest.mark.processes, pytest.mark.long]
START_SECONDS = 60


class Worker:
    """A worker with one child and a metrics port."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self.port = free_port()
        self.process = Process(
            directory / "log",
            *("-m", "celery", "--quiet", "--app", "tests.commands.processes.stalling", "worker"),
            *("--queues", "test-livez", "--concurrency", "1", "--without-gossip"),
            "--without-mingle",
            GPUPLATFORM_ROLE="worker",
            GPUPLATFORM_METRICS_PORT=str(self.port),
            **environment,
        )

    def livez(self) -> int | None:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=5)
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def becomes(self, status: int, seconds: float = START_SECONDS) -> bool:
        return wait_until(lambda: self.livez() == status, seconds)


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    """Workers that end with the test."""
    started: list[Worker] = []
    yield started
    for worker in started:
        worker.process.kill()


def test_a_worker_whose_main_loop_is_stuck_is_not_alive(
    workers: list[Worker], tmp_path: Path
) -> None:
    worker = Worker(tmp_path)
    workers.append(worker)
    assert worker.becomes(200), worker.process.log.read_text()

    os.kill(worker.process.pid, signal.SIGSTOP)
    try:
        assert worker.becomes(503)
    finally:
        os.kill(worker.process.pid, signal.SIGCONT)

    assert worker.becomes(200)


def test_a_worker_that_waits_for_its_broker_is_alive(
    workers: list[Worker], tmp_path: Path
) -> None:
    worker = Worker(tmp_path, REDIS_URL=f"redis://{LOOPBACK}:{free_port()}/0")
    workers.append(worker)
    assert worker.becomes(200), worker.process.log.read_text()

    assert not worker.becomes(503, seconds=2 * STALLED_SECONDS)
