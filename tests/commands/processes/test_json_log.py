"""With GPUPLATFORM_LOG_FORMAT=json every line of a process is one JSON object."""

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.processes import wait_until
from tests.commands.processes.alone import Process

pytestmark = [pytest.mark.processes, pytest.mark.long]
START_SECONDS = 60
JSON = {"GPUPLATFORM_LOG_FORMAT": "json"}


def lines_of(process: Process) -> list[Any]:
    """Return the parsed lines; at its end Celery also writes outside of the log."""
    return [json.loads(line) for line in process.log.read_text().splitlines()]


def test_web_logs_its_start_and_its_requests(tmp_path: Path) -> None:
    port = free_port()
    process = Process(
        tmp_path / "log",
        *("-m", "gunicorn", "--config", "python:gpuplatform.processes.webserver"),
        *("--bind", f"{LOOPBACK}:{port}", "--workers", "1"),
        **JSON,
    )

    def answers() -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
        try:
            connection.request("GET", "/no/such/page", headers={"X-Request-ID": "mine-1"})
            return connection.getresponse().status == 404
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    try:
        assert wait_until(answers, START_SECONDS), process.log.read_text()
        lines = lines_of(process)
    finally:
        process.kill()

    assert any(line["logger"] == "gunicorn.error" for line in lines)
    assert any(line["logger"] == "gpuplatform.requests" for line in lines)


def test_a_worker_logs_an_outage_of_its_broker(tmp_path: Path) -> None:
    process = Process(
        tmp_path / "log",
        *("-m", "celery", "--quiet", "--app", "gpuplatform.celery", "worker"),
        *("--queues", "test-json", "--concurrency", "1", "--without-gossip", "--without-mingle"),
        GPUPLATFORM_ROLE="worker",
        PYTHONWARNINGS="ignore:You're running the worker with superuser privileges",
        REDIS_URL=f"redis://{LOOPBACK}:{free_port()}/0",
        **JSON,
    )
    try:
        assert wait_until(lambda: "Cannot connect" in process.log.read_text(), START_SECONDS), (
            process.log.read_text()
        )
        lines = lines_of(process)
    finally:
        process.kill()

    assert {line["level"] for line in lines} <= {"ERROR", "WARNING"}
