"""Ends a blocked read of another thread at once.

A watch waits for the next event for up to a minute, a list for seconds. Whoever has to stop such
a thread promptly fires its `Interrupt`, which shuts down the socket the thread waits on; the read
then ends with an error like any other lost connection.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Interrupt:
    """The socket one thread waits on, and the right to shut it down from elsewhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._fired = False

    def attach(self, waiting_on: socket.socket | None) -> None:
        """Name the socket of the read that comes next.

        Raises:
            ConnectionAbortedError: `fire` was called before.
        """
        with self._lock:
            if self._fired:
                raise ConnectionAbortedError
            self._socket = waiting_on

    def detach(self) -> None:
        """Forget the socket: its connection goes back to the pool, to be used by other threads."""
        with self._lock:
            self._socket = None

    def fire(self) -> None:
        """End the present read and every later one of this scope."""
        with self._lock:
            self._fired = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it ended by itself meanwhile
                # The plain method also for TLS: SSLSocket.shutdown would pull the TLS state away
                # under the reading thread, which would then take cipher text for an answer.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


_scope: ContextVar[Interrupt | None] = ContextVar("cluster_interrupt", default=None)


@contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """Let `interrupt` end the cluster calls this thread makes inside."""
    token = _scope.set(interrupt)
    try:
        yield
    finally:
        _scope.reset(token)
        interrupt.detach()


def attach(waiting_on: socket.socket | None) -> None:
    """Tell the interrupt of this scope, if there is one, what is waited on."""
    if (interrupt := _scope.get()) is not None:
        interrupt.attach(waiting_on)


def detach() -> None:
    """Tell the interrupt of this scope, if there is one, that nothing is waited on."""
    if (interrupt := _scope.get()) is not None:
        interrupt.detach()
