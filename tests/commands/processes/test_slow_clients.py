"""Clients that never complete a request do not block others; invalid requests get JSON errors."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.processes import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.long]
ROOT = Path(__file__).parents[3]
THREADS = 2
HEAD_SECONDS = 40
"""Two rounds of ten seconds, with a margin for a machine that runs other tests."""
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


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a web process with few threads."""
    port, tmp_path = free_port(), tmp_path_factory.mktemp("web")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-m",
                    "gunicorn",
                    "--config",
                    "python:gpuplatform.processes.webserver",
                ),
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


def test_incomplete_headers_do_not_block_others_for_long(web: int) -> None:
    with contextlib.ExitStack() as slow:
        for _ in range(2 * THREADS):
            client = slow.enter_context(socket.create_connection((LOOPBACK, web), timeout=30))
            client.sendall(HALF_A_HEAD)

        assert wait_until(lambda: status(web) == 200, HEAD_SECONDS)


def test_no_header_changes_the_path(web: int) -> None:
    with socket.create_connection((LOOPBACK, web), timeout=30) as client:
        client.sendall(b"GET /x/livez HTTP/1.1\r\nHost: localhost\r\nSCRIPT_NAME: /x\r\n\r\n")
        answer = http.client.HTTPResponse(client)
        answer.begin()

    assert answer.status == 404


@pytest.mark.parametrize(
    ("sent", "part"),
    [
        ("get /api/v1/health HTTP/1.1", "HTTP/1.1"),
        ("GET /api/v1/health HTTP/9.9", "HTTP/1.1"),
        ("\x16\x03\x01", "HTTP/1.1"),
        ("POST / HTTP/1.1\r\nContent-Length: -5", "HTTP/1.1"),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: br", "HTTP/1.1"),
        (f"GET /{'a' * 5000} HTTP/1.1", "request line"),
        (f"GET / HTTP/1.1\r\nX: {'a' * 9000}", "header"),
        ("POST / HTTP/1.1\r\nExpect: a-miracle", "Expect"),
    ],
    ids=["method", "version", "tls", "length", "coding", "address", "header", "expectation"],
)
def test_a_malformed_request_is_answered_with_the_envelope(web: int, sent: str, part: str) -> None:
    with socket.create_connection((LOOPBACK, web), timeout=30) as client:
        client.sendall(f"{sent}\r\n\r\n".encode("latin-1"))
        answer = http.client.HTTPResponse(client)
        answer.begin()
        error = json.loads(answer.read())["error"]

    assert answer.status == 400
    assert answer.headers["Content-Type"] == "application/json"
    assert error["code"] == "invalid_request"
    assert part in error["message"]
    assert error["traceID"] == answer.headers["X-Request-ID"]
