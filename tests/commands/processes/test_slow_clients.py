"""Clients that never complete a request do not block others; invalid requests get JSON errors."""

import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.api.parsers import MAX_BODY_BYTES
from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.processes import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.long]
ROOT = Path(__file__).parents[3]
THREADS = 2
CLIENTS = 200
HEAD_SECONDS = 40
"""Ten seconds, with a margin for a machine that runs other tests."""
HALF_A_HEAD = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nX-Never"
HALF_A_BODY = (
    b"POST /admin/login/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 500000\r\n\r\n{"
)
NEVER_READ = b"GET /api/v1/schema HTTP/1.1\r\nHost: localhost\r\n\r\n"


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


def seconds_of(port: int) -> float:
    begun = time.monotonic()
    assert status(port) == 200
    return time.monotonic() - begun


@pytest.mark.parametrize(
    "sent",
    [b"", HALF_A_HEAD, HALF_A_BODY, NEVER_READ],
    ids=["silent", "slow-head", "slow-body", "slow-read"],
)
def test_slow_clients_occupy_no_thread(web: int, sent: bytes) -> None:
    with contextlib.ExitStack() as slow:
        for _ in range(CLIENTS):
            client = slow.enter_context(socket.create_connection((LOOPBACK, web), timeout=30))
            client.sendall(sent)

        times = [seconds_of(web) for _ in range(20)]

    # A thread that waited for a client would delay all of them.
    assert statistics.median(times) < 1, times


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD], ids=["silent", "slow-head"])
def test_a_request_without_a_complete_head_is_closed(web: int, sent: bytes) -> None:
    with socket.create_connection((LOOPBACK, web), timeout=HEAD_SECONDS) as client:
        client.sendall(sent)
        with contextlib.suppress(ConnectionError):
            received = client.recv(4096)
            assert received.startswith(b"HTTP/1.1 400 ") == bool(sent)


def exchange(port: int, sent: bytes) -> tuple[http.client.HTTPResponse, bytes]:
    with socket.create_connection((LOOPBACK, port), timeout=30) as client:
        client.sendall(sent)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        return answer, answer.read()


def test_no_header_changes_the_path(web: int) -> None:
    answer, _ = exchange(
        web, b"GET /x/livez HTTP/1.1\r\nHost: localhost\r\nSCRIPT_NAME: /x\r\n\r\n"
    )

    assert answer.status == 404


def test_the_absolute_form_of_a_path_is_accepted(web: int) -> None:
    answer, _ = exchange(web, b"GET http://localhost/livez HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert answer.status == 200


@pytest.mark.parametrize(
    "framing",
    [f"Content-Length: {3 * MAX_BODY_BYTES}", "Transfer-Encoding: chunked"],
    ids=["length", "chunked"],
)
def test_a_body_that_is_too_large_is_refused_and_the_connection_ends(
    web: int, framing: str
) -> None:
    size = 3 * MAX_BODY_BYTES
    body = b"x" * size
    if "chunked" in framing:
        body = b"%x\r\n" % size + body  # The last chunk never comes.
    head = (
        "PUT /api/v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{framing}\r\n\r\n"
    )

    answer, text = exchange(web, head.encode() + body)

    assert answer.status == 405
    assert answer.headers["Connection"] == "close"
    assert json.loads(text)["error"]["code"] == "method_not_allowed"


def test_a_chunked_body_is_received(web: int) -> None:
    answer, text = exchange(
        web,
        b"POST /api/v1/operator/gpu-specs HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'4\r\n{"na\r\n6\r\nme": 1\r\n0\r\n\r\n',
    )

    assert answer.status == 400
    assert "Connection" not in answer.headers
    assert json.loads(text)["error"]["code"] == "invalid_request"


def test_a_connection_serves_several_requests(web: int) -> None:
    connection = http.client.HTTPConnection(LOOPBACK, web, timeout=30)
    with contextlib.closing(connection):
        connection.connect()
        first = connection.sock
        for method in ("GET", "HEAD", "GET"):
            connection.request(method, "/api/v1/schema")
            assert connection.getresponse().read() == b"" or method == "GET"
        connection.request("GET", "/static/adminkit/theme.css")
        style = connection.getresponse()
        assert len(style.read()) == int(style.headers["Content-Length"])

        assert connection.sock is first


@pytest.mark.parametrize(
    ("sent", "part"),
    [
        ("GET /api/v1/health HTTP/9.9", "HTTP/1.1"),
        ("\x16\x03\x01", "HTTP/1.1"),
        ("POST / HTTP/1.1\r\nContent-Length: -5", "HTTP/1.1"),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: br", "HTTP/1.1"),
        (f"GET /{'a' * 5000} HTTP/1.1", "request line"),
        (f"GET / HTTP/1.1\r\nX: {'a' * 9000}", "header"),
    ],
    ids=["version", "tls", "length", "coding", "address", "header"],
)
def test_a_malformed_request_is_answered_with_the_envelope(web: int, sent: str, part: str) -> None:
    answer, text = exchange(web, f"{sent}\r\n\r\n".encode("latin-1"))
    error = json.loads(text)["error"]

    assert answer.status == 400
    assert answer.headers["Content-Type"] == "application/json"
    assert error["code"] == "invalid_request"
    assert part in error["message"]
    assert error["traceID"] == answer.headers["X-Request-ID"]
