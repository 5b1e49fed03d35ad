import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from typing_extensions import override

from gpuplatform.dev.embedded import demo
from gpuplatform.dev.embedded.demo import DEMO_REQUESTS
from gpuplatform.dev.embedded.ports import LOOPBACK, free_port

UNIT = next(demo for demo in DEMO_REQUESTS if demo.needs_stock)


class FakeApi(ThreadingHTTPServer):
    """Accepts every request, with one status."""

    def __init__(self, status: int) -> None:
        super().__init__((LOOPBACK, 0), _Answer)
        self.status = status
        self.bodies: list[Any] = []
        self.data: list[list[dict[str, str]]] = []
        """The successive responses of lists; later ones are empty."""

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: FakeApi

    def do_GET(self) -> None:
        data = self.server.data.pop(0) if self.server.data else []
        self._say(200, {"data": data})

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.bodies.append(json.loads(self.rfile.read(length)))
        self._say(self.server.status, {"data": {}, "error": {"message": "no"}})

    def _say(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


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


def test_everything_is_sent_with_its_fixed_operation_id(api: FakeApi) -> None:
    api.data = [[], [{"name": "stock-1"}]]

    output = send("--url", api.url)

    assert api.bodies == [demo.body for demo in DEMO_REQUESTS]
    assert output.splitlines() == [f"POST {demo.name}: 202" for demo in DEMO_REQUESTS]


def test_a_unit_that_was_accepted_before_needs_no_stock(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "READY_SECONDS", -1)
    api.data = [[{"operationID": UNIT.body["operationID"]}]]

    assert len(send("--url", api.url).splitlines()) == len(DEMO_REQUESTS)


def test_stock_that_is_not_ready_in_time_is_named(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "READY_SECONDS", -1)

    with pytest.raises(CommandError, match="No stock of h100-1g was ready"):
        send("--url", api.url)


@pytest.mark.parametrize("api", [400], indirect=True)
def test_a_rejected_request_is_named(api: FakeApi) -> None:
    with pytest.raises(CommandError, match="gpu-specs h100-1g was rejected with 400"):
        send("--url", api.url)


def test_an_unreachable_platform_is_named() -> None:
    with pytest.raises(CommandError, match="cannot be reached"):
        send("--url", f"http://{LOOPBACK}:{free_port()}")


def test_a_dry_run_sends_nothing() -> None:
    output = send("--dry-run")

    assert output.splitlines() == [f"POST {demo.name}" for demo in DEMO_REQUESTS]
