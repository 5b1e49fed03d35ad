"""A receiver of webhooks, which responds as a test tells it."""

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.client import parse_headers
from io import BytesIO
from typing import BinaryIO

from typing_extensions import override

from gpuplatform.dev.embedded.ports import LOOPBACK

Respond = Callable[[socket.socket], None]


@dataclass(frozen=True, slots=True)
class Received:
    """A request that a receiver received."""

    line: str
    headers: Message
    body: bytes


@dataclass
class Receiver:
    """A running receiver. `respond` writes the response to each request."""

    port: int
    respond: Respond
    received: list[Received] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        """The URL of the receiver."""
        return f"http://{LOOPBACK}:{self.port}/hook?n=1"


def status(code: int, *headers: str) -> Respond:
    """Return a responder with this status."""
    lines = "".join(f"{line}\r\n" for line in ("Content-Length: 0", *headers))
    return raw(f"HTTP/1.1 {code} Any\r\n{lines}\r\n".encode())


def raw(data: bytes) -> Respond:
    """Return a responder that sends these bytes."""
    return lambda connection: connection.sendall(data)


def dripping(stop: threading.Event) -> Respond:
    """Return a responder that sends a header without an end, one byte at a time."""

    def respond(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not stop.wait(0.02):
            connection.sendall(b"a")

    return respond


def silent(stop: threading.Event) -> Respond:
    """Return a responder that sends nothing."""

    def respond(_: socket.socket) -> None:
        stop.wait(10)

    return respond


@contextmanager
def receiver(respond: Respond, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Run a receiver on loopback."""

    class Handler(socketserver.BaseRequestHandler):
        @override
        def handle(self) -> None:
            running.connections += 1
            connection: socket.socket = self.request
            try:
                if tls is not None:
                    connection = tls.wrap_socket(connection, server_side=True)
                with connection, connection.makefile("rb") as stream:
                    request = _read(stream)
                    if request is not None:
                        running.received.append(request)
                        running.respond(connection)
            except OSError:
                pass  # The sender closed the connection.

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server((LOOPBACK, 0), Handler) as server:
        running = Receiver(server.server_address[1], respond)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield running
        server.shutdown()
        thread.join()


def _read(stream: BinaryIO) -> Received | None:
    line = stream.readline().decode().strip()
    if not line:
        return None
    headers = parse_headers(BytesIO(b"".join(iter(stream.readline, b"\r\n")) + b"\r\n"))
    body = stream.read(int(headers.get("Content-Length", 0)))
    return Received(line, headers, body)
