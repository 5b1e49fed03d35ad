"""The event loop of a web worker creates responses of any length while the client reads them."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from gpuplatform.processes.webclients import Clients, Wait
from gpuplatform.processes.webfront import CHUNK_BYTES, CONNECTION, Front

SECONDS = 20
PART = b"x" * CHUNK_BYTES


class FakeConnection:
    """A connection that stores why it was closed."""

    closed: Wait | None = None

    def has_begun(self) -> bool:
        return False

    def end_wait(self, wait: Wait) -> None:
        self.closed = wait


class Stream:
    """A response of the application that counts the parts that were created."""

    streaming = True

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = parts
        self.created = 0
        self.is_closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            self.created += 1
            yield part

    def close(self) -> None:
        self.is_closed.set()


class Exchange:
    """A request to an application that responds with a stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.clients = Clients(10)
        self.connection = FakeConnection()
        self.clients.join(self.connection)
        self.sent: list[dict[str, Any]] = []
        self.is_received = False
        self.path = ""
        self.front = Front(self._application, self.clients, threads=1)

    def _application(self, environ: Any, start: Callable[..., Any]) -> Stream:
        self.path = environ["PATH_INFO"]
        start("200 OK", [("Content-Type", "text/csv")])
        return self.stream

    async def run(
        self, reader: Callable[[], Any], method: str = "GET", target: bytes = b"/export"
    ) -> None:
        """Respond to the request. `reader` is awaited for each chunk."""

        async def receive() -> dict[str, Any]:
            if self.is_received:
                await asyncio.Event().wait()
            self.is_received = True
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            self.sent.append(message)
            if message.get("body"):
                await reader()

        self.is_received = False
        scope: dict[str, Any] = {
            "method": method,
            "raw_path": target,
            "query_string": b"",
            "http_version": "1.1",
            "scheme": "http",
            "server": None,
            "client": None,
            "headers": [],
            "extensions": {CONNECTION: self.connection},
        }
        async with asyncio.timeout(SECONDS):
            await self.front(scope, receive, send)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


async def at_once() -> None:
    """Read a chunk."""


def test_a_stream_is_sent_completely() -> None:
    exchange = Exchange(Stream([b"id,hour\r\n"] * 20_000))

    asyncio.run(exchange.run(at_once))

    assert exchange.body == b"id,hour\r\n" * 20_000
    assert [one["type"] for one in exchange.sent[:2]] == [
        "http.response.start",
        "http.response.body",
    ]
    assert exchange.sent[-1] == {"type": "http.response.body", "body": b""}
    assert exchange.stream.is_closed.wait(SECONDS)
    assert exchange.clients.size == 0


def test_only_the_chunk_that_the_client_reads_is_created() -> None:
    exchange = Exchange(Stream(PART for _ in range(8)))
    created: list[tuple[int, int]] = []

    async def reader() -> None:
        created.append((exchange.stream.created, exchange.clients.size))

    asyncio.run(exchange.run(reader))

    assert created == [(number, CHUNK_BYTES) for number in range(1, 9)]


def test_a_stream_without_end_is_closed_when_its_client_leaves() -> None:
    exchange = Exchange(Stream(itertools.repeat(PART)))

    async def reader() -> None:
        if exchange.stream.created == 3:
            exchange.clients.leave(exchange.connection)

    asyncio.run(exchange.run(reader))

    assert exchange.stream.created <= 4
    assert exchange.stream.is_closed.wait(SECONDS)


def test_no_thread_waits_for_the_reader_of_a_stream() -> None:
    exchange = Exchange(Stream([PART, PART]))

    async def reader() -> None:
        # The only thread of the application serves another request in the meantime.
        other = Exchange(Stream([b"other"]))
        other.front = exchange.front
        exchange.clients.join(other.connection)
        exchange.stream, kept = other.stream, exchange.stream
        if kept.created == 1:
            await other.run(at_once)
            assert other.body == b"other"
        exchange.stream = kept

    asyncio.run(exchange.run(reader))

    assert exchange.body == PART * 2


def test_the_head_of_a_stream_creates_no_part() -> None:
    exchange = Exchange(Stream([PART]))

    asyncio.run(exchange.run(at_once, "HEAD"))

    assert exchange.body == b""
    assert exchange.stream.created == 0
    assert exchange.stream.is_closed.wait(SECONDS)


def test_a_stream_that_fails_at_once_has_sent_nothing() -> None:
    def parts() -> Iterator[bytes]:
        raise KeyError("the database")
        yield b""

    exchange = Exchange(Stream(parts()))

    with pytest.raises(KeyError):
        asyncio.run(exchange.run(at_once))

    assert exchange.sent == []  # The server can still respond with an error.
    assert exchange.stream.is_closed.wait(SECONDS)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/a%20b", "/a b"),
        (b"//host/a", "//host/a"),
        (b"http://host:1/a/b", "/a/b"),
        (b"http://host", "/"),
        (b"http://[::1/a", "/a"),
        (b"http://[zz]/a", "/a"),
        (b"/x?y=http://host/a", "/x?y=http://host/a"),
        (b"*", "*"),
        (b"host:1", "host:1"),
    ],
)
def test_the_path_of_each_form_of_a_target(target: bytes, path: str) -> None:
    exchange = Exchange(Stream([]))

    asyncio.run(exchange.run(at_once, target=target))

    assert exchange.path == path
