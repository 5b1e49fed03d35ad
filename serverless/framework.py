"""Serves a Python callable as a function: `serve(handler)`. Requires only typing-extensions.

    from serverless.framework import Request, serve

    def handler(request: Request) -> dict:
        return {"length": len(request.body)}

    serve(handler)

The server listens on the Unix socket that the environment of the worker specifies. It handles each
invocation in a separate thread. A worker runs at most `concurrency` invocations at the same time.
An invocation can be delivered more than once; `invocation_id` and `attempt` identify the delivery.

A function in another language can use any HTTP server that responds with 200 on the health path
and responds to each POST on the invoke path. All users of the pod must be able to write to its
socket.
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
    """Ordinal number of the delivery, starting at 1."""
    timeout_seconds: int
    """Time in seconds after which the response is discarded."""

    def json(self) -> Any:
        """Return the body, decoded as JSON.

        Raises:
            ValueError: If the body is not valid JSON.
        """
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Response:
    """A response. Handlers can also return bytes, text, or an object that is encoded as JSON."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/octet-stream"
    headers: Mapping[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[[Request], Any]


def serve(handler: Handler) -> None:
    """Respond to invocations with the result of `handler` until SIGTERM, then finish open calls.

    If the handler raises an exception, the response has the status 500 and the invocation is
    retried. Call this function from the main thread.
    """
    server = _Server(Path(os.environ.get("SERVERLESS_SOCKET_PATH", DEFAULT_SOCKET_PATH)), handler)

    def stop(_number: int, _frame: FrameType | None) -> None:
        # `shutdown` waits for the serving loop, which runs in this thread.
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    with server:
        server.serve_forever(poll_interval=0.2)


class _Server(socketserver.ThreadingUnixStreamServer):
    """A server that waits for its threads when it is closed."""

    request_queue_size = 128

    def __init__(self, path: Path, handler: Handler) -> None:
        self.handler = handler
        self.invoke_path = os.environ.get("SERVERLESS_INVOKE_PATH", "/invoke")
        self.health_path = os.environ.get("SERVERLESS_HEALTH_PATH", "/healthz")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # An earlier container of the pod may have created it.
        super().__init__(str(path), _Call)
        path.chmod(0o666)  # The containers of the pod run as different users.

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Respond with the status 500 if the handler raised, before any response was sent."""
        error = sys.exc_info()[1]
        logger.error("the handler failed", exc_info=error)
        body = json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}).encode() + b"\n"
        head = f"HTTP/1.1 500 Internal Server Error\r\nContent-Type: {JSON}\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        with contextlib.suppress(OSError):
            request.sendall(head.encode() + body)

    @override
    def get_request(self) -> tuple[socket.socket, Any]:
        """Return the connection, and a placeholder for the address that a Unix socket lacks."""
        connection, _ = self.socket.accept()
        return connection, ("worker", 0)


class _Call(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        if self.path == self.server.health_path:
            self._send(Response(b'{"ok": true}\n', 200, JSON))
        else:
            self._reject(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        if self.path != self.server.invoke_path:
            self._reject(HTTPStatus.NOT_FOUND)
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._reject(HTTPStatus.LENGTH_REQUIRED)
        elif int(length) > MAX_BODY_BYTES:
            self._reject(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self._send(_response(self.server.handler(self._request(int(length)))))

    def do_PUT(self) -> None:
        self._reject(HTTPStatus.METHOD_NOT_ALLOWED)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests. Handlers write their own logs."""

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

    def _reject(self, status: HTTPStatus) -> None:
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
