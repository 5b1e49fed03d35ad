"""SIGTERM: every process completes work in progress within a time limit."""

import http.client
import os
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.db import connection

from gpuplatform.celery import app
from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.processes import wait_until
from gpuplatform.reconciliation.models import ProcessHeartbeat
from tests.commands.processes.alone import DRAIN_SECONDS, SLACK_SECONDS, Process

pytestmark = [pytest.mark.processes, pytest.mark.long]
START_SECONDS = 60


class Worker:
    """A worker with a task that waits."""

    QUEUE = "test-slow"

    def __init__(self, directory: Path) -> None:
        self._report = directory / "report"
        self.process = Process(
            directory / "log",
            *("-m", "celery", "--quiet", "--app", "tests.commands.processes.slow", "worker"),
            *("--queues", self.QUEUE, "--concurrency", "1", "--without-gossip"),
            "--without-mingle",
            GPUPLATFORM_ROLE="worker",
        )

    def do(self, seconds: float) -> None:
        """Start a task of this duration."""
        app.send_task("tests.wait", args=(str(self._report), seconds), queue=self.QUEUE)
        assert wait_until(lambda: self.has_reported("begun"), START_SECONDS), (
            self.process.log.read_text()
        )

    def has_reported(self, word: str) -> bool:
        return self._report.exists() and word in self._report.read_text()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path)
    yield worker
    worker.process.kill()
    with redis.Redis.from_url(settings.CELERY_BROKER_URL) as client:
        client.delete(Worker.QUEUE, "unacked", "unacked_index")


def test_a_worker_completes_short_tasks(worker: Worker) -> None:
    worker.do(0.5)

    worker.process.stop()

    assert worker.has_reported("ended")
    assert worker.process.exit_code == 0


def test_a_worker_returns_long_tasks_to_the_queue(worker: Worker) -> None:
    worker.do(60)

    seconds = worker.process.stop()

    assert seconds >= DRAIN_SECONDS * 0.9
    assert not worker.has_reported("ended")
    with redis.Redis.from_url(settings.CELERY_BROKER_URL) as client:
        waiting = int(client.llen(Worker.QUEUE)) + int(client.hlen("unacked"))
    assert waiting == 1


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_beat_serves_the_state_and_ends_immediately(tmp_path: Path) -> None:
    base, _slash, _name = os.environ["DATABASE_URL"].rpartition("/")
    port = free_port()
    beat = Process(
        tmp_path / "log",
        *("-m", "celery", "--app", "gpuplatform.celery", "beat", "--pidfile="),
        DATABASE_URL=f"{base}/{connection.settings_dict['NAME']}",
        GPUPLATFORM_METRICS_PORT=str(port),
    )
    try:
        lives = ProcessHeartbeat.objects.filter(part="beat")
        assert wait_until(lives.exists, START_SECONDS), beat.log.read_text()
        assert "\ngpuplatform_database_up 1.0\n" in _metrics(port)

        assert beat.stop() < SLACK_SECONDS
        assert beat.exit_code == 0
    finally:
        beat.kill()


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


class Web:
    """A web process with one worker."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.process = Process(
            directory / "log",
            *("-m", "gunicorn", "--config", "python:gpuplatform.processes.webserver"),
            *("--bind", f"{LOOPBACK}:{self.port}", "--workers", "1"),
        )

    def status(self, path: str) -> int | None:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=30)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    web = Web(tmp_path)
    assert wait_until(lambda: web.status("/livez") == 200, START_SECONDS)
    yield web
    web.process.kill()


def test_web_ends_with_a_client_that_never_sends_its_request(web: Web) -> None:
    silent = http.client.HTTPConnection(LOOPBACK, web.port, timeout=30)
    silent.connect()
    silent.sock.sendall(b"POST /api/v1/operator/stockpools HTTP/1.1\r\nHost: localhost\r\n")

    seconds = web.process.stop()

    silent.close()
    assert seconds < DRAIN_SECONDS + SLACK_SECONDS
    assert web.process.exit_code == 0


def test_web_completes_started_requests(web: Web) -> None:
    body = b'{"name": "a"}'
    head = (
        b"POST /api/v1/operator/stockpools HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    with socket.create_connection((LOOPBACK, web.port), timeout=30) as caller:
        caller.sendall(head)
        assert caller.recv(100).startswith(b"HTTP/1.1 100 ")
        web.process.ask_to_end()
        caller.sendall(body)
        answer = caller.recv(4096)

    web.process.wait()
    assert answer.startswith(b"HTTP/1.1 ")
    assert b"x-request-id" in answer.lower()
    assert web.process.exit_code == 0
