"""Serves `/metrics`, `/livez` and, in `web`, `/readyz` on a port of the process.

The port has its own threads, so that probes are independent of the threads of requests.

A process that forks opens the port before the fork and starts no thread. Then each child serves
the same port, and each response contains the metrics of all children. No port is opened unless
`GPUPLATFORM_METRICS_PORT` is set.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, Final

from django.conf import settings
from typing_extensions import override

from gpuplatform.metrics import recorder

logger = logging.getLogger(__name__)

PATH: Final = "/metrics"
LIVE_PATH: Final = "/livez"
"""The path of the liveness probe: 200, or 503 if the main loop is stuck. It calls no other
process."""
READY_PATH: Final = "/readyz"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CLIENT_SECONDS: Final = 5
"""Timeout in seconds for a client."""

Readiness = Callable[[], tuple[bool, bytes]]
"""Returns whether the process can serve requests, and a JSON document that explains it."""


def _always() -> bool:
    return True


class _Handler(BaseHTTPRequestHandler):
    """The handler of requests for the paths."""

    timeout = CLIENT_SECONDS
    server: "MetricsPort"

    def do_GET(self) -> None:
        """Respond with the metrics, the liveness or 404."""
        path = self.path.partition("?")[0]
        if path == PATH:
            self._respond(200, self.server.render(), CONTENT_TYPE)
        elif path == READY_PATH and self.server.readiness is not None:
            ok, document = self.server.readiness()
            self._respond(200 if ok else 503, document, "application/json")
        elif path != LIVE_PATH:
            self._respond(404, b"The metrics are at /metrics.\n")
        elif self.server.is_alive():
            self._respond(200, b"ok\n")
        else:
            self._respond(503, b"The main loop is stuck.\n")

    def _respond(self, status: int, body: bytes, content_type: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests, because scrapes are frequent."""


class MetricsPort(ThreadingTCPServer):
    """An open port. It responds to requests after `serve` is called."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 16
    render: Callable[[], bytes]
    is_alive: Callable[[], bool]
    readiness: Readiness | None = None

    def __init__(self, host: str, port: int) -> None:
        """Open the port.

        Raises:
            SystemExit: If the port is in use, or if the address is not local.
        """
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise SystemExit(
                f"/metrics cannot listen on {host}:{port} (GPUPLATFORM_METRICS_PORT):"
                f" {error.strerror}."
            ) from error

    @property
    def number(self) -> int:
        """The number of the port, even if the system selected it."""
        return int(self.server_address[1])

    def serve(
        self,
        render: Callable[[], bytes],
        is_alive: Callable[[], bool] = _always,
        readiness: Readiness | None = None,
    ) -> None:
        """Respond to requests in threads until the process ends."""
        self.render, self.is_alive, self.readiness = render, is_alive, readiness
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def _run(self) -> None:
        while True:
            # In contrast to `serve_forever`, this call waits without polling.
            self.handle_request()

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.warning("a request to the metrics port failed", exc_info=sys.exception())


class _Opened:
    """The port that this process opened before the fork."""

    port: MetricsPort | None = None


def open_before_fork(name: str) -> MetricsPort | None:
    """Open the port of a process that forks, and start to record metrics.

    Each child must call `serve_in_child`. Return `None` if no port is configured.
    """
    if not settings.METRICS_PORT:
        return None
    _Opened.port = MetricsPort(settings.METRICS_HOST, settings.METRICS_PORT)
    parent = settings.GPUPLATFORM_DATA / "run" / "metrics" if settings.GPUPLATFORM_DEV else None
    recorder.turn_on(parent, name)
    recorder.render()  # Imports the client library once for all children.
    return _Opened.port


def serve_in_child(
    is_alive: Callable[[], bool] = _always, readiness: Readiness | None = None
) -> None:
    """Serve the metrics of all children on the port that the parent opened, if any."""
    if _Opened.port is not None:
        _Opened.port.serve(recorder.render, is_alive, readiness)


def serve(create_render: Callable[[], Callable[[], bytes]]) -> None:
    """Serve the metrics of a process that does not fork, if a port is configured.

    `create_render` returns the function that renders the metrics. It is called only if a port is
    configured, so that the client library is not imported otherwise.
    """
    if settings.METRICS_PORT:
        MetricsPort(settings.METRICS_HOST, settings.METRICS_PORT).serve(create_render())
