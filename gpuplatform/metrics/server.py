"""Serves `/metrics` on a port of its own, by one thread that sleeps until it is asked.

A process that forks opens the port first; each copy then serves on it, and any of them answers for
all. So no thread is there when the copies are made.
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
"""Answers without asking anybody: that this process still runs."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CLIENT_SECONDS: Final = 5
"""A client that sends or takes nothing for so long is cut off: there is one thread for all."""


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

    def serve(self, render: Callable[[], bytes]) -> None:
        """Answer from a thread of this process for as long as it lives."""
        threading.Thread(target=self._serve, args=(render,), name="metrics", daemon=True).start()

    def _serve(self, render: Callable[[], bytes]) -> None:
        server = _Server(self._socket, render)
        while True:
            # Waits without a time limit, unlike `serve_forever`, which wakes twice a second.
            server.handle_request()


class _Server(HTTPServer):
    """On a socket that is open already."""

    def __init__(self, listening: socket.socket, render: Callable[[], bytes]) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.render = render

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.warning("/metrics could not be answered", exc_info=sys.exception())


class _Handler(BaseHTTPRequestHandler):
    """One address, read only."""

    timeout = CLIENT_SECONDS
    server: _Server

    def do_GET(self) -> None:
        """Answer with the metrics, that the process lives, or that there is nothing else."""
        path = self.path.partition("?")[0]
        is_metrics, is_known = path == PATH, path in {PATH, LIVE_PATH}
        other = b"ok\n" if is_known else b"The metrics are at /metrics.\n"
        body = self.server.render() if is_metrics else other
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Type", CONTENT_TYPE if is_metrics else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are no news."""
