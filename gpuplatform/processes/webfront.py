"""Passes requests from the event loop of a web worker to the threads of the application.

A thread gets a request when its body is complete, and is free again when the application has
returned the response: no thread waits for bytes of a client. The event loop receives bodies and
sends responses. Of a body that is too large, the application gets one byte more than the limit,
so that it rejects the request in the usual way. A response of any length, such as an export, is
created chunk by chunk, each one when the client has read the previous ones.
"""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote_to_bytes

from gpuplatform.api.connection import IS_DISCONNECTED_KEY
from gpuplatform.api.parsers import MAX_BODY_BYTES
from gpuplatform.api.request_log import PROBES
from gpuplatform.processes.webclients import Client, Clients, Wait

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

CONNECTION: Final = "gpuplatform.connection"
"""Key of the connection in the extensions of the scope."""
PROBE_THREADS: Final = 2
CHUNK_BYTES: Final = 64 * 1024
_WITHOUT_PREFIX: Final = frozenset({"CONTENT_LENGTH", "CONTENT_TYPE"})
LINGER_SECONDS: Final = 5.0
LINGER_BYTES: Final = 32 * 1024 * 1024
"""Limits on the rest of a rejected body, which is received and discarded: a client that still
sends does not see the response to a connection that was closed."""


class FileBody:
    """The content of a file, which the event loop sends (`wsgi.file_wrapper`)."""

    def __init__(self, file: IO[bytes], _block_size: int = 0) -> None:
        self.read = file.read
        self.close = file.close

    def __iter__(self) -> Iterator[bytes]:
        """Yield the content, for middleware that reads it."""
        return iter(lambda: self.read(CHUNK_BYTES), b"")


class StreamBody:
    """A body that the application creates, in its threads, while the client reads the body."""

    def __init__(self, body: Iterable[bytes]) -> None:
        self._body = body
        self._parts = iter(body)
        self._lock = threading.Lock()  # The client can disconnect while a thread reads.

    def read(self, size: int) -> bytes:
        """Return the next parts, which together have at least `size` bytes, or the rest."""
        found = bytearray()
        with self._lock:
            for part in self._parts:
                found += part
                if len(found) >= size:
                    break
        return bytes(found)

    def close(self) -> None:
        """Notify the application that no further part is read."""
        with self._lock:
            if hasattr(self._body, "close"):
                self._body.close()


class _Response:
    """The response of the application to one request."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body: bytes | FileBody | StreamBody = b""

    @property
    def head(self) -> Message:
        """The message that starts the response."""
        return {
            "type": "http.response.start",
            "status": self.status,
            "headers": self.headers,
        }

    def start(
        self, status: str, headers: list[tuple[str, str]], _exc_info: Any = None
    ) -> Callable[[bytes], object]:
        """Keep the status and the headers; the application calls it before it returns."""
        self.status = int(status[:3])
        self.headers = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers
        ]
        return self._write

    @staticmethod
    def _write(_body: bytes) -> None:
        """Reject the write callable of WSGI: Django returns the body."""
        raise RuntimeError("The application must return the body, and not write it.")

    def add_length(self) -> None:
        """Add the length of a body that is complete, if the application has not added it."""
        has_length = any(name.lower() == b"content-length" for name, _ in self.headers)
        if isinstance(self.body, bytes) and self.body and not has_length:
            self.headers.append((b"content-length", str(len(self.body)).encode()))


class Front:
    """The ASGI application of a web worker, which runs a WSGI application in threads."""

    def __init__(self, application: "WSGIApplication", clients: Clients, threads: int) -> None:
        """Run `application` in up to `threads` threads."""
        self._application = application
        self._clients = clients
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="request")
        # Probes do not wait behind other requests.
        self._probe_threads = ThreadPoolExecutor(PROBE_THREADS, thread_name_prefix="probe")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request."""
        connection: Client = scope["extensions"][CONNECTION]
        self._clients.begin(connection, Wait.BODY)
        body, is_complete = await self._receive(connection, receive)
        if body is None:
            return
        # The bytes count until a thread has them.
        self._clients.begin(connection, Wait.RESPONSE, len(body))
        response = await self._call(_environ(scope, body), receive if is_complete else None)
        await self._send(connection, response, send)
        if not is_complete:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    await _discard(receive)
        self._clients.begin(connection, Wait.HEAD)

    def close(self) -> None:
        """Do not start further requests."""
        for threads in (self._threads, self._probe_threads):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _receive(
        self, connection: Client, receive: Receive
    ) -> tuple[bytearray | None, bool]:
        """Return the body, at most one byte more than allowed, and whether it is complete.

        The body is `None` if the client disconnected or did not send it in time.
        """
        body = bytearray()
        while len(body) <= MAX_BODY_BYTES:
            message = await receive()
            if message["type"] != "http.request":
                connection.end_wait(Wait.BODY)
                return None, False
            chunk = message.get("body", b"")
            body += chunk
            if not message.get("more_body"):
                return body, True
            self._clients.hold(connection, len(chunk))
        del body[MAX_BODY_BYTES + 1 :]
        return body, False

    async def _call(self, environ: "WSGIEnvironment", receive: Receive | None) -> _Response:
        """Run the application in a thread. It is not started if the client disconnects first."""
        is_disconnected = threading.Event()
        environ[IS_DISCONNECTED_KEY] = is_disconnected.is_set
        is_probe = environ["PATH_INFO"] in PROBES
        threads = self._probe_threads if is_probe else self._threads
        running = threads.submit(self._run, environ)

        async def watch(receive: Receive) -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            is_disconnected.set()
            running.cancel()

        watcher = asyncio.create_task(watch(receive)) if receive else None
        try:
            return await asyncio.wrap_future(running)
        finally:
            if watcher is not None:
                watcher.cancel()

    def _run(self, environ: "WSGIEnvironment") -> _Response:
        response = _Response()
        body = self._application(environ, cast(Any, response.start))
        if isinstance(body, FileBody):
            response.body = body
            return response
        if getattr(body, "streaming", False):  # As Django marks its responses.
            stream = StreamBody(body)
            if environ["REQUEST_METHOD"] == "HEAD":
                stream.close()
            else:
                response.body = stream
            return response
        try:
            response.body = b"".join(body)
        finally:
            if hasattr(body, "close"):
                body.close()
        response.add_length()
        return response

    async def _send(self, connection: Client, response: _Response, send: Send) -> None:
        """Send the response in chunks, each when the client has read the previous ones."""
        body = response.body
        if isinstance(body, StreamBody):
            await self._stream(connection, response.head, body, send)
            return
        size = len(body) if isinstance(body, bytes) else CHUNK_BYTES
        self._clients.begin(connection, Wait.READER, size)
        try:
            await send(response.head)
            file = body if isinstance(body, FileBody) else BytesIO(body)
            chunk = file.read(CHUNK_BYTES)
            while following := file.read(CHUNK_BYTES):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = following
            await send({"type": "http.response.body", "body": chunk})
        finally:
            if isinstance(body, FileBody):
                body.close()

    async def _stream(
        self, connection: Client, head: Message, body: StreamBody, send: Send
    ) -> None:
        """Send a body of any length, of which the connection holds one chunk at a time."""
        try:
            chunk = await self._read(connection, body)  # Before the head: it can fail.
            await send(head)
            while chunk and connection in self._clients:
                self._clients.begin(connection, Wait.READER, len(chunk))
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = await self._read(connection, body)
            await send({"type": "http.response.body", "body": b""})
        finally:
            with contextlib.suppress(RuntimeError):  # The threads were shut down.
                self._threads.submit(body.close)

    async def _read(self, connection: Client, body: StreamBody) -> bytes:
        self._clients.begin(connection, Wait.RESPONSE)
        return await asyncio.wrap_future(self._threads.submit(body.read, CHUNK_BYTES))


async def _discard(receive: Receive) -> None:
    left = LINGER_BYTES
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if not message.get("more_body"):
            return


def _environ(scope: Scope, body: bytearray) -> "WSGIEnvironment":
    """Return the WSGI environment of a request (PEP 3333)."""
    path: bytes = scope["raw_path"]
    if not path.startswith(b"/") and b"://" in path:  # The absolute form: http://host/path.
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    server, client = scope["server"] or ("localhost", 0), scope["client"] or ("", 0)
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 0),
        "REMOTE_ADDR": client[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileBody,
    }
    for name, value in scope["headers"]:
        key = name.decode("latin-1").upper().replace("-", "_")
        key = key if key in _WITHOUT_PREFIX else f"HTTP_{key}"
        text = value.decode("latin-1")
        separator = "; " if key == "HTTP_COOKIE" else ","
        environ[key] = f"{environ[key]}{separator}{text}" if key in environ else text
    environ.setdefault("CONTENT_LENGTH", str(len(body)))  # A chunked body declares no length.
    return environ
