"""Clients that begin a request and never end it hold up nobody else."""

import contextlib
import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.embedded.ports import LOOPBACK, free_port
from gpuplatform.embedded.processes import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.long]
ROOT = Path(__file__).parents[3]
THREADS = 2
HEAD_SECONDS = 40
"""Two rounds of ten seconds, on a machine that runs other tests."""
HALF_A_HEAD = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nX-Never"


def status(port: int) -> int | None:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[int]:
    """The port of a web process with few threads."""
    port = free_port()
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "--config", "python:gpuplatform.webserver"),
                *("--bind", f"{LOOPBACK}:{port}", "--workers", "1"),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GPUPLATFORM_WEB_THREADS": str(THREADS)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    assert wait_until(lambda: status(port) == 200, 60), (tmp_path / "log").read_text()
    yield port
    process.kill()
    process.wait()


def test_half_sent_heads_hold_up_nobody_for_long(web: int) -> None:
    with contextlib.ExitStack() as slow:
        for _ in range(2 * THREADS):
            client = slow.enter_context(socket.create_connection((LOOPBACK, web), timeout=30))
            client.sendall(HALF_A_HEAD)

        assert wait_until(lambda: status(web) == 200, HEAD_SECONDS)
