"""An HTTP server on the loopback interface whose responses, with faults, are scripted by a test.

The script is called for each request, in the thread of the request, with an `Exchange` to respond.
A script that returns without a response closes the connection.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kubernetes.client import Configuration
from typing_extensions import override

from gpuplatform.kube.client import Cluster

TEST_PATIENCE_SECONDS = 20
"""The timeout of waiting tests."""


class Exchange:
    """One request, and the methods to respond."""

    def __init__(self, handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
        self._handler = handler
        self._closing = closing
        parts = urlsplit(handler.path)
        self.method = handler.command
        self.target = handler.path
        self.path = parts.path
        self.query = dict(parse_qsl(parts.query))
        self.headers = dict(handler.headers.items())
        length = int(handler.headers.get("Content-Length", "0"))
        self.body = handler.rfile.read(length)
        self.is_keep_alive = False

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"

    def json(
        self, document: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Respond with a JSON body and keep the connection."""
        self.raw(json.dumps(document).encode(), status, headers)

    def raw(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.head(status, {"Content-Length": str(len(body)), **(headers or {})})
        self.write(body)
        self.is_keep_alive = True

    def head(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self._handler.send_response(status)
        for key, value in (headers or {}).items():
            self._handler.send_header(key, value)
        self._handler.end_headers()

    def stream(self) -> None:
        """Begin a chunked response, as for a watch."""
        self.head(200, {"Transfer-Encoding": "chunked", "Content-Type": "application/json"})

    def line(self, document: Any) -> None:
        """Send one line of a stream as one chunk."""
        self.chunk(json.dumps(document).encode() + b"\n")

    def chunk(self, data: bytes) -> None:
        self.write(b"%x\r\n%s\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self.write(b"0\r\n\r\n")
        self.is_keep_alive = True

    def write(self, data: bytes) -> None:
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def hold(self) -> None:
        """Keep the connection open without data, until the test ends or the client disconnects."""
        connection = self._handler.connection
        connection.settimeout(0.05)
        while not self._closing.is_set():
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue
            except OSError:
                return


Script = Callable[[Exchange], None]


class ScriptedServer:
    """Runs the script and records the requests in their order."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Exchange] = []
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._clusters: list[Cluster] = []
        self._server = _Server(self._handler_class())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def wait_for(self, holds: Callable[[list[Exchange]], bool]) -> None:
        """Wait until `holds` is true for the recorded requests."""
        with self._changed:
            met = self._changed.wait_for(lambda: holds(self.requests), TEST_PATIENCE_SECONDS)
        assert met, [f"{seen.method} {seen.path} {seen.query}" for seen in self.requests]

    def cluster(self) -> Cluster:
        """Return a new client of this server, closed with it."""
        cluster = cluster_at(self.url)
        self._clusters.append(cluster)
        return cluster

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._closing.set()
            for cluster in self._clusters:
                cluster.close()
            self._server.shutdown()
            self._server.server_close()
            thread.join(TEST_PATIENCE_SECONDS)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        exchange = Exchange(handler, self._closing)
        with self._changed:
            self.requests.append(exchange)
            self._changed.notify_all()
        with suppress(OSError):
            self.script(exchange)
        handler.close_connection = not exchange.is_keep_alive

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one write for the headers and the body: no delayed acknowledgement

            def _answer(self) -> None:
                scripted.answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

            @override
            def finish(self) -> None:
                # Data for a disconnected client cannot be flushed.
                with suppress(OSError):
                    super().finish()
                self.rfile.close()

            @override
            def log_message(self, *args: Any) -> None: ...

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect during a response."""


@contextmanager
def scripted(script: Script) -> Iterator[ScriptedServer]:
    """Run a server of this script for one test."""
    server = ScriptedServer(script)
    with server.running():
        yield server


def unused_address() -> str:
    """Return an unused address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def cluster_at(url: str, token: str = "") -> Cluster:
    """Return a cluster at an address, without a kubeconfig."""
    return Cluster(lambda: _configuration(url, token))


def _configuration(url: str, token: str = "") -> Configuration:
    configuration = Configuration()
    configuration.host = url
    if token:
        configuration.api_key["BearerToken"] = f"Bearer {token}"
    return configuration
