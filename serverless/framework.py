"""Serves a Python callable as a function: `serve(handler)`. Needs only typing-extensions.

    from serverless.framework import Request, serve

    def handler(request: Request) -> dict:
        return {"length": len(request.body)}

    serve(handler)

It listens on the unix socket that the worker's environment names, or with `port=` on loopback.
Each invocation is handled in a separate thread; the worker never sends more at the same time than
the function's `concurrency`. An invocation may be delivered twice; `invocation_id` and `attempt`
identify the delivery.

A function in another language does the same with any HTTP server: 200 on the health path, and an
answer to each POST on the invoke path. Its socket must be writable for all users of the pod.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeAlias

from typing_extensions import override

logger = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 1024 * 1024
DEFAULT_SOCKET_PATH: Final = "/run/serverless/framework.sock"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """One invocation."""

    body: bytes
    content_type: str
    headers: Mapping[str, str]
    """The headers that the caller passed, with names in lower case."""
    invocation_id: str
    attempt: int
    """Ordinal number of the delivery, from 1."""
    timeout_seconds: int
    """A later answer is lost."""

    def json(self) -> Any:
        """Return the body, decoded as JSON.

        Raises:
            ValueError: it is not valid JSON.
        """
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; handlers may also return bytes, text, or an object that is encoded as JSON."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/octet-stream"
    headers: Mapping[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[[Request], Any]


def serve(handler: Handler, *, port: int | None = None) -> None:
    """Answer invocations with the result of `handler` until SIGTERM; calls in progress finish.

    If the handler raises, the answer has status 500 and the invocation is retried. Call it from
    the main thread.
    """
    environment = os.environ
    paths = _Paths(
        environment.get("SERVERLESS_INVOKE_PATH", "/invoke"),
        environment.get("SERVERLESS_HEALTH_PATH", "/healthz"),
    )
    server: _TcpServer | _UnixServer
    if port is not None:
        server = _TcpServer(port, handler, paths)
    else:
        path = Path(environment.get("SERVERLESS_SOCKET_PATH", DEFAULT_SOCKET_PATH))
        server = _UnixServer(path, handler, paths)

    def stop(_number: int, _frame: FrameType | None) -> None:
        # `shutdown` waits for the loop, which runs in this thread.
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    with server:
        server.serve_forever(poll_interval=0.2)


@dataclass(frozen=True, slots=True)
class _Paths:
    invoke: str
    health: str


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Waits for its threads when it is closed."""

    allow_reuse_address = True
    request_queue_size = 128
    daemon_threads = False

    handler: Handler
    paths: _Paths

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Answer with status 500 when a handler raised: nothing has been sent then."""
        error = sys.exc_info()[1]
        logger.error("the handler failed", exc_info=error)
        body = json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}).encode() + b"\n"
        head = f"HTTP/1.1 500 Internal Server Error\r\nContent-Type: {JSON}\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        with contextlib.suppress(OSError):
            request.sendall(head.encode() + body)


class _TcpServer(_Server):
    def __init__(self, port: int, handler: Handler, paths: _Paths) -> None:
        self.handler, self.paths = handler, paths
        super().__init__(("127.0.0.1", port), _Call)


class _UnixServer(_Server):
    address_family = socket.AF_UNIX
    allow_reuse_address = False

    def __init__(self, path: Path, handler: Handler, paths: _Paths) -> None:
        self.handler, self.paths = handler, paths
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # Of an earlier container of the pod.
        super().__init__(str(path), _Call)  # type: ignore[arg-type]  # typeshed knows TCP only
        path.chmod(0o666)  # The containers of the pod run as different users.

    @override
    def get_request(self) -> tuple[socket.socket, Any]:
        """Return a placeholder as the peer's address, which a unix socket does not have."""
        connection, _ = self.socket.accept()
        return connection, ("worker", 0)


class _Call(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        if self.path == self.server.paths.health:
            self._send(Response(b'{"ok": true}\n', 200, JSON))
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        if self.path != self.server.paths.invoke:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._refuse(HTTPStatus.LENGTH_REQUIRED)
        elif int(length) > MAX_BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self._send(_response(self.server.handler(self._request(int(length)))))

    def do_PUT(self) -> None:
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing for each request; handlers log what they need."""

    def _request(self, length: int) -> Request:
        headers = {name.lower(): text for name, text in self.headers.items()}
        return Request(
            body=self.rfile.read(length),
            content_type=headers.get("content-type", ""),
            invocation_id=headers.get("x-invocation-id", ""),
            attempt=int(headers.get("x-invocation-attempt", "1")),
            timeout_seconds=int(headers.get("x-invocation-timeout-seconds", "0")),
            headers=headers,
        )

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        body = json.dumps({"error": status.phrase}).encode() + b"\n"
        self._send(Response(body, status, JSON))

    def _send(self, response: Response) -> None:
        # The sidecar closes the connection when the timeout is exceeded.
        with contextlib.suppress(ConnectionError):
            self.send_response(response.status)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
            for name, text in response.headers.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(response.body)


def _response(returned: object) -> Response:
    match returned:
        case Response():
            return returned
        case bytes():
            return Response(returned)
        case str():
            return Response(returned.encode(), content_type="text/plain; charset=utf-8")
        case _:
            return Response(json.dumps(returned).encode(), content_type=JSON)
