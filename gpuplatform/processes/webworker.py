"""The web process's worker: gunicorn's threads, and a limit to how long a request may arrive.

What is no request is answered here, in the envelope. Without the limit a few clients that begin a
request and never end it keep every thread for ever.
"""

import contextlib
import json
import socket
import threading
import time
from http import HTTPStatus
from typing import Any, Final

from django.conf import settings
from gunicorn import util  # type: ignore[import-untyped]  # there are no stubs
from gunicorn.glogging import Logger as GunicornLogger  # type: ignore[import-untyped]  # as above
from gunicorn.http import errors as http  # type: ignore[import-untyped]  # there are no stubs
from gunicorn.workers.gthread import (  # type: ignore[import-untyped]  # there are no stubs
    ThreadWorker,
)
from typing_extensions import override

from gpuplatform.api.exceptions import envelope
from gpuplatform.api.trace_id import accepted_or_new, tracing
from gpuplatform.errors import RequestError
from gpuplatform.observability.log_format import FORMATTERS

HEAD_SECONDS: Final = 10.0
"""Gunicorn waits up to five of them for the first byte, and hands the connection back then."""
BODY_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 1.0

NOT_UNDERSTOOD: Final = (
    (http.LimitRequestLine, "The address is too long."),
    (http.LimitRequestHeaders, "There are too many headers, or one is too long."),
    (http.ExpectationFailed, "The header Expect cannot be met."),
    ((http.ConfigurationProblem, http.InvalidResponseHeader, http.InvalidResponseHeaderName), ""),
    (http.ParseException, "The request is not HTTP/1.1 as it has to be."),
)
"""What of a request cannot be read, the most special first; without words: a fault of ours."""


class Logger(GunicornLogger):  # type: ignore[misc]  # gunicorn has no types
    """Writes gunicorn's own lines in the format of the platform's."""

    @override
    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(FORMATTERS[settings.LOG_FORMAT]())


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Ends the reading of what arrives too slowly; an answer can still be sent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._until: dict[int, tuple[float, Any]] = {}
        self._changing = threading.Lock()

    @override
    def run(self) -> None:
        threading.Thread(target=self._look, name="slow-clients", daemon=True).start()
        super().run()

    @override
    def handle(self, conn: Any) -> Any:
        self._limit(conn, HEAD_SECONDS)
        try:
            return super().handle(conn)
        finally:
            with self._changing:
                self._until.pop(id(conn), None)

    @override
    def handle_request(self, req: Any, conn: Any) -> Any:
        self._limit(conn, BODY_SECONDS)
        return super().handle_request(req, conn)

    @override
    def handle_error(self, req: Any, client: Any, addr: Any, exc: Any) -> None:
        """Answer what no view ever sees in the envelope, too."""
        words = next((words for kind, words in NOT_UNDERSTOOD if isinstance(exc, kind)), "")
        if not words:
            super().handle_error(req, client, addr, exc)
            return
        trace_id = accepted_or_new("")
        self.log.warning("no request (%s), answered as %s", exc, trace_id)
        with contextlib.suppress(OSError):  # It hung up meanwhile.
            util.write_nonblock(client, _answer(words, trace_id))

    def _limit(self, conn: Any, seconds: float) -> None:
        with self._changing:
            self._until[id(conn)] = (time.monotonic() + seconds, conn)

    def _look(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_SECONDS):
            with self._changing:
                late = [conn for until, conn in self._until.values() if until < time.monotonic()]
                for conn in late:
                    with contextlib.suppress(OSError):  # It hung up meanwhile.
                        conn.sock.shutdown(socket.SHUT_RD)


def _answer(words: str, trace_id: str) -> bytes:
    error = RequestError(words)
    status = HTTPStatus(error.http_status)
    with tracing(trace_id):
        body = json.dumps(envelope(error)).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Request-ID: {trace_id}",
    )
    return "\r\n".join((*head, "", "")).encode() + body
