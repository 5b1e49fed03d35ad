"""Serves `/metrics` and `/livez` on a dedicated port, from one thread that waits for requests.

A process that forks opens the port first, so it has no thread when it forks. Each copy serves on
the port and answers for all copies.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

from typing_extensions import override

logger = logging.getLogger(__name__)

PATH: Final = "/metrics"
LIVE_PATH: Final = "/livez"
"""200 while the process is alive, else 503; the answer asks neither database nor cluster."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CLIENT_SECONDS: Final = 5
"""Time limit of a request: one thread serves all clients."""


class MetricsPort:
    """A port that is open; `serve` answers on it."""

    def __init__(self, host: str, port: int) -> None:
        """Open it.

        Raises:
            SystemExit: it is taken, or the address is not one of this machine.
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
        """The port's number, where any free one was asked for."""
        return int(self._socket.getsockname()[1])

    def serve(
        self, render: Callable[[], bytes], is_alive: Callable[[], bool] = lambda: True
    ) -> None:
        """Answer from a thread of this process for as long as it lives.

        `is_alive` decides the answer at `/livez`; without it, that the process answers is enough.
        """
        threading.Thread(
            target=self._serve, args=(render, is_alive), name="metrics", daemon=True
        ).start()

    def _serve(self, render: Callable[[], bytes], is_alive: Callable[[], bool]) -> None:
        server = _Server(self._socket, render, is_alive)
        while True:
            # Waits without a time limit, unlike `serve_forever`, which wakes twice a second.
            server.handle_request()


class _Server(HTTPServer):
    """On a socket that is open already."""

    def __init__(
        self,
        listening: socket.socket,
        render: Callable[[], bytes],
        is_alive: Callable[[], bool],
    ) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.render = render
        self.is_alive = is_alive

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.warning("/metrics could not be answered", exc_info=sys.exception())


class _Handler(BaseHTTPRequestHandler):
    """One address, read only."""

    timeout = CLIENT_SECONDS
    server: _Server

    def do_GET(self) -> None:
        """Answer with the metrics, with the state of the process, or with 404."""
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
        """Do not log scrapes."""
