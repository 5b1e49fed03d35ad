"""The gunicorn worker of the web process, with a time limit for receiving a request.

Without the limit, clients that never complete a request could occupy all threads. The worker also
responds to malformed requests with the error envelope, because no view handles them.
"""

import contextlib
import json
import socket
import threading
import time
from http import HTTPStatus
from typing import Any, Final

from django.conf import settings
from gunicorn import util  # type: ignore[import-untyped]  # no stubs exist
from gunicorn.glogging import Logger as GunicornLogger  # type: ignore[import-untyped]  # as above
from gunicorn.http import errors as http  # type: ignore[import-untyped]  # no stubs exist
from gunicorn.workers.gthread import (  # type: ignore[import-untyped]  # no stubs exist
    ThreadWorker,
)
from typing_extensions import override

from gpuplatform.api.exceptions import envelope
from gpuplatform.api.trace_id import accepted_or_new, tracing
from gpuplatform.errors import RequestError
from gpuplatform.observability.log_format import FORMATTERS

HEAD_SECONDS: Final = 10.0
"""Time limit for the head of a request. Gunicorn uses up to five seconds for the first byte."""
BODY_SECONDS: Final = 60.0
CHECK_SECONDS: Final = 1.0

MALFORMED: Final = (
    (http.LimitRequestLine, "The request line is too long."),
    (http.LimitRequestHeaders, "The request has too many headers, or a header is too long."),
    (http.ExpectationFailed, "The Expect header is not supported."),
    ((http.ConfigurationProblem, http.InvalidResponseHeader, http.InvalidResponseHeaderName), ""),
    (http.ParseException, "The request is not valid HTTP/1.1."),
)
"""Exceptions of gunicorn with the message for the client, subclasses first. If the message is
empty, the client did not cause the error."""


class Logger(GunicornLogger):  # type: ignore[misc]  # gunicorn has no types
    """The logger of gunicorn, in the log format of the platform."""

    @override
    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(FORMATTERS[settings.LOG_FORMAT]())


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """A worker that stops reading slow requests, but can still send a response."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadlines: dict[int, tuple[float, Any]] = {}
        self._lock = threading.Lock()

    @override
    def run(self) -> None:
        threading.Thread(target=self._watch, name="slow-clients", daemon=True).start()
        super().run()

    @override
    def handle(self, conn: Any) -> Any:
        self._limit(conn, HEAD_SECONDS)
        try:
            return super().handle(conn)
        finally:
            with self._lock:
                self._deadlines.pop(id(conn), None)

    @override
    def handle_request(self, req: Any, conn: Any) -> Any:
        self._limit(conn, BODY_SECONDS)
        return super().handle_request(req, conn)

    @override
    def handle_error(self, req: Any, client: Any, addr: Any, exc: Any) -> None:
        """Respond to a malformed request with the error envelope."""
        message = next((text for kind, text in MALFORMED if isinstance(exc, kind)), "")
        if not message:
            super().handle_error(req, client, addr, exc)
            return
        trace_id = accepted_or_new("")
        self.log.warning("malformed request: %s", exc, extra={"traceID": trace_id})
        with contextlib.suppress(OSError):  # The client has disconnected.
            util.write_nonblock(client, _response(message, trace_id))

    def _limit(self, conn: Any, seconds: float) -> None:
        with self._lock:
            self._deadlines[id(conn)] = (time.monotonic() + seconds, conn)

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(CHECK_SECONDS):
            with self._lock:
                late = [
                    conn for until, conn in self._deadlines.values() if until < time.monotonic()
                ]
                for conn in late:
                    with contextlib.suppress(OSError):  # The client has disconnected.
                        conn.sock.shutdown(socket.SHUT_RD)


def _response(message: str, trace_id: str) -> bytes:
    error = RequestError(message)
    status = HTTPStatus(error.http_status)
    with tracing(trace_id):
        body = json.dumps(envelope(error), separators=(",", ":")).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Request-ID: {trace_id}",
    )
    return "\r\n".join((*head, "", "")).encode() + body
