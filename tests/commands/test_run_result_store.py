"""`run_result_store`, killed repeatedly under load."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from typing_extensions import override

from gpuplatform.dev.embedded.processes import wait_until
from serverless.models import Invocation
from serverless.queue.errors import QueueError
from serverless.queue.gateway import Queue
from serverless.queue.names import INVOCATIONS, RESULTS
from tests.factories.serverless import Worker, accept, function_row
from tests.fakes.installed import broker, cluster
from tests.fakes.queue_server import QueueServer, queue, queue_server

__all__ = ["broker", "cluster", "queue", "queue_server"]

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.usefixtures("cluster"),
]

MANAGE = Path(__file__).parents[2] / "manage.py"
INVOCATIONS_SENT = 60


class Processes:
    """Starts the command on the databases of this test."""

    def __init__(self, server: QueueServer) -> None:
        base = os.environ["DATABASE_URL"].rpartition("/")[0]
        self._environment = {
            **os.environ,
            "DATABASE_URL": f"{base}/{connection.settings_dict['NAME']}",
            "NATS_URL": server.url,
            "GPUPLATFORM_NATS_SEED": server.account.seed,
            "GPUPLATFORM_LOG_LEVEL": "ERROR",
        }
        self._all: list[subprocess.Popen[bytes]] = []

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """Start a process."""
        process = subprocess.Popen(
            [sys.executable, str(MANAGE), "run_result_store"],
            env={**self._environment, **environment},
            stderr=subprocess.PIPE,
        )
        self._all.append(process)
        return process

    def end(self) -> None:
        """Kill the running process."""
        for process in self._all:
            process.kill()
            process.communicate()


@pytest.fixture
def processes(queue_server: QueueServer) -> Iterator[Processes]:
    """Starts the command."""
    made = Processes(queue_server)
    yield made
    made.end()


class Serving(threading.Thread):
    """A worker that echoes until it is stopped, and waits during an outage of the queue."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self._worker = worker
        self.stop = threading.Event()
        self.served: list[int] = []

    @override
    def run(self) -> None:
        while not self.stop.is_set():
            try:
                for received in self._worker.take(1, seconds=0.2):
                    self._worker.report(self._worker.started(received))
                    self._worker.report(self._worker.finished(received))
                    self._worker.acknowledge(received)
                    self.served.append(self._worker.read(received).key)
            except QueueError:
                self.stop.wait(0.1)


def succeeded() -> int:
    """Return the number of completed invocations."""
    return Invocation.objects.filter(state="Succeeded").count()


def more_than(before: int) -> None:
    """Wait until more invocations are completed."""
    assert wait_until(lambda: succeeded() > before, 40), states()


def test_repeated_kills_lose_nothing(
    processes: Processes, queue: Queue, queue_server: QueueServer
) -> None:
    function = function_row()
    worker = Serving(Worker(queue, function))
    worker.start()
    try:
        for kill in ("store", "queue", "store"):
            process = processes.start()
            before = succeeded()
            for _ in range(INVOCATIONS_SENT // 3):
                accept(function)
            more_than(before)
            if kill == "queue":
                queue_server.kill()
                before = succeeded()
                accept(function)
                queue_server.start()
                more_than(before)
            process.kill()
            process.wait(10)
        processes.start()
        assert wait_until(lambda: succeeded() == INVOCATIONS_SENT + 1, 60), states()
        assert wait_until(lambda: left(queue, INVOCATIONS) + left(queue, RESULTS) == 0, 60)
    finally:
        worker.stop.set()
        worker.join(10)

    assert set(worker.served) == set(Invocation.objects.values_list("pk", flat=True))


def states() -> list[str]:
    """Return the states of all invocations, for a failure message."""
    return list(Invocation.objects.order_by("id").values_list("state", flat=True))


def left(queue: Queue, stream: str) -> int:
    """Return the number of messages in the stream."""
    return int(queue.call(lambda js: js.stream_info(stream)).state.messages)


def test_stops_immediately_on_signal(processes: Processes, queue: Queue) -> None:
    function = function_row()
    process = processes.start()
    accept(function)
    published = Invocation.objects.filter(published_at__isnull=False)
    assert wait_until(published.exists, 30)

    process.send_signal(signal.SIGTERM)

    assert process.wait(15) == 0


def test_missing_queue_is_reported(processes: Processes) -> None:
    process = processes.start(NATS_URL="", GPUPLATFORM_DATA="/nonexistent")

    _, output = process.communicate(timeout=30)

    assert process.returncode == 1
    assert b"NATS_URL is not set" in output
