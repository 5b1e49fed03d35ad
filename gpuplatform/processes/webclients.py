"""The connections of a web process that wait for their client, and the limits on them.

A connection that waits uses a file descriptor and the bytes that are kept for it, but no thread.
Each wait has a deadline. Beyond a limit on connections or bytes, the connection that has waited
longest is closed. Therefore deliberately slow clients close only one another's connections.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol


class Wait(Enum):
    """What a connection waits for."""

    HEAD = "the head of a request"
    BODY = "the rest of a body"
    RESPONSE = "the response"
    """The application has the complete request: the server waits, not the client."""
    READER = "a client that reads the response"


SECONDS: Final = {Wait.HEAD: 10.0, Wait.BODY: 60.0, Wait.READER: 60.0}
"""Time limit of each wait for a client."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Limit on the bytes of incomplete bodies and of responses that clients have not read."""


class Client(Protocol):
    """A connection."""

    def has_begun(self) -> bool:
        """Return whether the client has sent a part of its next request."""

    def end_wait(self, wait: Wait) -> None:
        """Close the connection, whose client made the server wait too long."""


@dataclass
class _Waiting:
    wait: Wait
    until: float
    size: int = 0


class Clients:
    """The connections of a process, by the time at which their current wait began.

    Not thread-safe: only the event loop uses it.
    """

    def __init__(
        self,
        most: int,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Allow up to `most` connections, which hold up to `max_bytes`."""
        self._most = most
        self._max_bytes = max_bytes
        self._clock = clock
        self._waiting: OrderedDict[Client, _Waiting] = OrderedDict()
        self.size = 0
        """Number of bytes that all connections hold."""

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._waiting)

    def __contains__(self, client: Client) -> bool:
        """Return whether a connection is open."""
        return client in self._waiting

    def join(self, client: Client) -> None:
        """Add a new connection, which waits for its first request."""
        self._begin(client, Wait.HEAD, 0)

    def begin(self, client: Client, wait: Wait, size: int = 0) -> None:
        """Begin another wait, which ends the previous one of the connection and frees its bytes.

        Nothing changes if the connection was closed.
        """
        if client in self._waiting:
            self.leave(client)
            self._begin(client, wait, size)

    def _begin(self, client: Client, wait: Wait, size: int) -> None:
        until = self._clock() + SECONDS.get(wait, float("inf"))
        self._waiting[client] = _Waiting(wait, until, size)
        self.size += size
        self._enforce()

    def hold(self, client: Client, size: int) -> None:
        """Add bytes to those that the connection holds. A negative number frees them."""
        if (waiting := self._waiting.get(client)) is not None:
            waiting.size += size
            self.size += size
            self._enforce()

    def leave(self, client: Client) -> None:
        """Remove a connection, if it is registered."""
        if (waiting := self._waiting.pop(client, None)) is not None:
            self.size -= waiting.size

    def close_late(self) -> None:
        """Close the connections whose time limit has passed."""
        now = self._clock()
        for client in [one for one, waiting in self._waiting.items() if waiting.until < now]:
            self._close(client)

    def close_idle(self) -> None:
        """Close the connections that have not begun to send their next request."""
        idle = [
            client
            for client, waiting in self._waiting.items()
            if waiting.wait is Wait.HEAD and not client.has_begun()
        ]
        for client in idle:
            self._close(client)

    def _enforce(self) -> None:
        while len(self._waiting) > self._most or self.size > self._max_bytes:
            oldest = next(
                (one for one, its in self._waiting.items() if its.wait is not Wait.RESPONSE), None
            )
            if oldest is None:
                return
            self._close(oldest)

    def _close(self, client: Client) -> None:
        wait = self._waiting[client].wait
        self.leave(client)
        client.end_wait(wait)
