"""Serves `/metrics` and `/livez` on a port of the process, from one thread that sleeps.

A process that forks opens the port first and starts no thread; each child then serves on the same
port, and any child answers for all of them. Nothing is opened without `GPUPLATFORM_METRICS_PORT`.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

from django.conf import settings
from typing_extensions import override

from gpuplatform.metrics import recorder

logger = logging.getLogger(__name__)

PATH: Final = "/metrics"
LIVE_PATH: Final = "/livez"
"""Answers without a call to any other process: 200, or 503 when the main loop is stuck."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CLIENT_SECONDS: Final = 5
"""A client that sends or receives nothing for this long is disconnected: one thread serves all."""


def _always() -> bool:
    return True


class MetricsPort:
    """An open port; `serve` answers on it."""

    def __init__(self, host: str, port: int) -> None:
        """Open the port.

        Raises:
            SystemExit: It is in use, or the address does not belong to this machine.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise SystemExit(
                f"/metrics cannot listen on {host}:{port} (GPUPLATFORM_METRICS_PORT):"
                f" {error.strerror}."
            ) from error
        self._socket.listen(16)

    @property
    def number(self) -> int:
        """The number of the port, also where the system chose it."""
        return int(self._socket.getsockname()[1])

    def serve(self, render: Callable[[], bytes], is_alive: Callable[[], bool] = _always) -> None:
        """Answer from a thread of this process until the process ends."""
        server = _Server(self._socket, render, is_alive)
        threading.Thread(target=server.run, name="metrics", daemon=True).start()


class _Opened:
    """The port that this process opened before it forked."""

    port: MetricsPort | None = None


def open_before_fork(name: str) -> MetricsPort | None:
    """Open the port of a process that forks, and count from now on; None without a port.

    Each child calls `serve_in_child`.
    """
    if not settings.METRICS_PORT:
        return None
    _Opened.port = MetricsPort(settings.METRICS_HOST, settings.METRICS_PORT)
    parent = settings.GPUPLATFORM_DATA / "run" / "metrics" if settings.GPUPLATFORM_DEV else None
    recorder.turn_on(parent, name)
    recorder.render()  # Loads the library once, for all children.
    return _Opened.port


def serve_in_child(is_alive: Callable[[], bool] = _always) -> None:
    """Serve the sums over all children on the port that the parent opened, if it did."""
    if _Opened.port is not None:
        _Opened.port.serve(recorder.render, is_alive)


def serve(create_render: Callable[[], Callable[[], bytes]]) -> None:
    """Serve what `create_render` returns, for a process that does not fork.

    `create_render` is called only where a port is set, so that nothing is loaded elsewhere.
    """
    if settings.METRICS_PORT:
        MetricsPort(settings.METRICS_HOST, settings.METRICS_PORT).serve(create_render())


class _Server(HTTPServer):
    """A server on a socket that is open already."""

    def __init__(
        self, listening: socket.socket, render: Callable[[], bytes], is_alive: Callable[[], bool]
    ) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.render = render
        self.is_alive = is_alive

    def run(self) -> None:
        while True:
            # Waits without a time limit, unlike `serve_forever`, which wakes twice a second.
            self.handle_request()

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.warning("a request to the metrics port failed", exc_info=sys.exception())


class _Handler(BaseHTTPRequestHandler):
    """Two addresses, read only."""

    timeout = CLIENT_SECONDS
    server: _Server

    def do_GET(self) -> None:
        """Answer with the metrics, the liveness, or 404."""
        path = self.path.partition("?")[0]
        if path == PATH:
            self._answer(200, self.server.render(), CONTENT_TYPE)
        elif path != LIVE_PATH:
            self._answer(404, b"The metrics are at /metrics.\n")
        elif self.server.is_alive():
            self._answer(200, b"ok\n")
        else:
            self._answer(503, b"The main loop does not run.\n")

    def _answer(self, status: int, body: bytes, content_type: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: scrapes are frequent and all alike."""
