"""A separate NATS server that can be killed and restarted with its data."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from gpuplatform.dev.embedded.nats import Nats
from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.dev.embedded.processes import wait_until
from gpuplatform.process_local import ProcessLocal
from serverless.queue import gateway
from serverless.queue.gateway import Queue


class QueueServer:
    """One server on loopback; a restart keeps its port."""

    def __init__(self, directory: Path) -> None:
        self._server = Nats.prepare(directory, free_port())
        self._process: subprocess.Popen[bytes] | None = None
        self.url = self._server.url
        self.account = self._server.account

    def start(self) -> None:
        """Start it and wait until JetStream is available."""
        self._process = subprocess.Popen(self._server.command().argv)
        assert wait_until(self._server.is_ready, 10), "the NATS server does not start"

    def kill(self) -> None:
        """Kill it and wait for its end."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)
        self._process = None

    def stop(self) -> None:
        """Stop it if it runs."""
        if self._process is not None:
            self.kill()


@pytest.fixture
def queue_server(tmp_path: Path, settings: Settings) -> Iterator[QueueServer]:
    """A running server that the settings refer to."""
    server = QueueServer(tmp_path / "nats")
    server.start()
    settings.NATS_URL = server.url
    settings.NATS_SEED = server.account.seed
    yield server
    server.stop()


@pytest.fixture
def queue(queue_server: QueueServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """The queue of this process, with its streams."""
    made = Queue(queue_server.url, queue_server.account)
    monkeypatch.setattr(gateway, "_QUEUE", ProcessLocal(lambda: made))
    made.ensure()
    yield made
    made.close()
