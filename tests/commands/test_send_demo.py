import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from typing_extensions import override

from gpuplatform.embedded.demo import POOLS
from gpuplatform.embedded.ports import LOOPBACK, free_port


class FakeApi(ThreadingHTTPServer):
    """Takes every request, with one status."""

    def __init__(self, status: int) -> None:
        super().__init__((LOOPBACK, 0), _Answer)
        self.status = status
        self.bodies: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: FakeApi

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.bodies.append(json.loads(self.rfile.read(length)))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b'{"error": {"message": "no"}}')

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def api(request: pytest.FixtureRequest) -> Iterator[FakeApi]:
    with FakeApi(getattr(request, "param", 202)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send(*arguments: str) -> str:
    out = io.StringIO()
    call_command("send_demo", *arguments, stdout=out)
    return out.getvalue()


def test_every_pool_is_sent_with_its_fixed_operation_id(api: FakeApi) -> None:
    said = send("--url", api.url)

    assert api.bodies == list(POOLS)
    assert said.splitlines() == [f"POST stockpools {pool['name']}: 202" for pool in POOLS]


@pytest.mark.parametrize("api", [400], indirect=True)
def test_a_refusal_is_named(api: FakeApi) -> None:
    with pytest.raises(CommandError, match="demo-ready was refused with 400"):
        send("--url", api.url)


def test_nobody_there_is_named() -> None:
    with pytest.raises(CommandError, match="cannot be reached"):
        send("--url", f"http://{LOOPBACK}:{free_port()}")


def test_a_dry_run_sends_nothing() -> None:
    said = send("--dry-run")

    assert said.splitlines() == [f"POST stockpools {pool['name']}" for pool in POOLS]
