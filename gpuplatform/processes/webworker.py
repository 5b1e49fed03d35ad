"""The gunicorn worker of the web process: an event loop for connections, threads for requests.

The worker closes connections whose clients are too slow, and responds to malformed requests with
the error envelope, because no view handles them.
"""

import asyncio
import json
import os
import time
from http import HTTPStatus
from typing import Any, Final

from django.conf import settings
from gunicorn.asgi.protocol import ASGIProtocol  # type: ignore[import-untyped]  # no stubs exist
from gunicorn.glogging import Logger as GunicornLogger  # type: ignore[import-untyped]  # as above
from gunicorn.workers.gasgi import ASGIWorker  # type: ignore[import-untyped]  # as above
from typing_extensions import override

from gpuplatform.api.exceptions import envelope
from gpuplatform.api.trace_id import accepted_or_new, tracing
from gpuplatform.errors import InvariantBroken, PlatformError, RequestError
from gpuplatform.observability.log_format import FORMATTERS
from gpuplatform.processes.webclients import Clients, Wait
from gpuplatform.processes.webfront import CONNECTION, Front

TICK_SECONDS: Final = 0.5
"""Pause between two checks of the deadlines, and the delay of a stop."""
STALLED_SECONDS: Final = 20.0
"""Duration without a check after which the event loop counts as stuck."""
CLOSE_SECONDS: Final = 5.0
"""Time limit for a client to read the end of a response whose connection is closed."""

MALFORMED: Final = {
    HTTPStatus.REQUEST_URI_TOO_LONG: "The request line is too long.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
        "The request has too many headers, or a header is too long."
    ),
}
"""Message by the status of gunicorn for a malformed request; other requests are not HTTP/1.1."""
_NOT_HTTP: Final = "The request is not valid HTTP/1.1."
_INCOMPLETE: Final = "The request was not complete in time. Send it again."


class Logger(GunicornLogger):  # type: ignore[misc]  # gunicorn has no types
    """The logger of gunicorn, in the log format of the platform."""

    @override
    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(FORMATTERS[settings.LOG_FORMAT]())


class Connection(ASGIProtocol):  # type: ignore[misc]  # gunicorn has no types
    """A connection with time limits, whose errors are JSON."""

    _has_begun = False

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.worker.clients.join(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.worker.clients.leave(self)
        super().connection_lost(exc)

    def end_wait(self, wait: Wait) -> None:
        """Close the connection, whose client made the server wait too long."""
        if self.transport is None or self._closed:
            return
        if wait is Wait.READER or not (self._has_begun or wait is Wait.BODY):
            self._closed: bool = True
            self.transport.abort()
        else:
            self._reject(RequestError(_INCOMPLETE))
            self._close_transport()

    def has_begun(self) -> bool:
        """Return whether the client has sent a part of its next request."""
        return self._has_begun

    @override
    def data_received(self, data: bytes) -> None:
        self._has_begun = True
        super().data_received(data)

    @override
    def _build_http_scope(self, *args: Any) -> dict[str, Any]:
        scope: dict[str, Any] = super()._build_http_scope(*args)
        scope["extensions"] = {CONNECTION: self}
        self._has_begun = False
        return scope

    @override
    def _is_websocket_upgrade(self, request: Any) -> bool:
        return False  # An upgrade may be ignored (RFC 9110, section 7.8).

    @override
    def _will_close(self, request: Any, response_requires_close: bool) -> bool:
        # The rest of a body that was rejected is not the next request.
        receiver = self._body_receiver
        is_read = (
            receiver is None
            or receiver._complete  # noqa: SLF001 - gunicorn has no public name for it.
            or not _expects_body(request)
        )
        return not is_read or bool(super()._will_close(request, response_requires_close))

    @override
    def _send_error_response(
        self, status: int, message: str, extra_headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Respond with the error envelope to a request that no view handles."""
        if self._closed:
            return
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED:
            self._reject(InvariantBroken.example())
            return
        self._reject(RequestError(MALFORMED.get(HTTPStatus(status), _NOT_HTTP)), message)

    def _reject(self, error: PlatformError, problem: str = "") -> None:
        trace_id = accepted_or_new("")
        if problem:
            self.log.warning("malformed request: %s", problem, extra={"traceID": trace_id})
        self._safe_write(_response(error, trace_id))

    @override
    def _close_transport(self) -> None:
        is_open = self.transport is not None and not self._closed
        super()._close_transport()
        if is_open:
            self.worker.loop.call_later(CLOSE_SECONDS, self.transport.abort)


class Worker(ASGIWorker):  # type: ignore[misc]  # gunicorn has no types
    """A worker whose event loop receives requests and sends responses."""

    _ticked_at = float("inf")

    def is_running(self) -> bool:
        """Return whether the event loop runs. Called by another thread."""
        return time.monotonic() - self._ticked_at < STALLED_SECONDS

    @override
    def load_wsgi(self) -> None:
        self.clients = Clients(self.cfg.worker_connections)
        self.asgi = Front(self.app.wsgi(), self.clients, settings.WEB_THREADS)

    @override
    async def _serve(self) -> None:
        for listener in self.sockets:
            self.servers.append(
                await self.loop.create_server(
                    lambda: Connection(self), sock=listener.sock, backlog=self.cfg.backlog
                )
            )
        while self.alive and self.ppid == os.getppid():
            self.notify()
            self._ticked_at = time.monotonic()
            self.clients.close_late()
            await asyncio.sleep(TICK_SECONDS)
        await self._shutdown()

    @override
    async def _shutdown(self) -> None:
        for server in self.servers:
            server.close()
        self.clients.close_idle()
        await super()._shutdown()
        self.asgi.close()


def _expects_body(request: Any) -> bool:
    return bool(request.chunked or request.content_length)


def _response(error: PlatformError, trace_id: str) -> bytes:
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
