"""Interrupts a blocked read in another thread.

A watch can wait a minute for the next event. `Interrupt.fire` shuts down the socket on which the
thread waits, so that the read fails as it does when the connection is lost.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Interrupt:
    """The socket on which a thread waits. Another thread can shut it down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._fired = False

    def attach(self, waiting_on: socket.socket | None) -> None:
        """Set the socket of the next read.

        Raises:
            ConnectionAbortedError: If `fire` was called.
        """
        with self._lock:
            if self._fired:
                raise ConnectionAbortedError
            self._socket = waiting_on

    def detach(self) -> None:
        """Clear the socket, because other threads may use its connection after the call."""
        with self._lock:
            self._socket = None

    def fire(self) -> None:
        """End the current read and all later reads in the scope."""
        with self._lock:
            self._fired = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # The connection has been closed.
                # Not SSLSocket.shutdown, which discards the TLS state: the reading thread would
                # then read encrypted data as a response.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


_scope: ContextVar[Interrupt | None] = ContextVar("cluster_interrupt", default=None)


@contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """Allow `interrupt` to end the cluster calls of this thread in the block."""
    token = _scope.set(interrupt)
    try:
        yield
    finally:
        _scope.reset(token)
        interrupt.detach()


def attach(waiting_on: socket.socket | None) -> None:
    """Set the socket of the interrupt of this scope, if any."""
    if (interrupt := _scope.get()) is not None:
        interrupt.attach(waiting_on)


def detach() -> None:
    """Clear the socket of the interrupt of this scope, if any."""
    if (interrupt := _scope.get()) is not None:
        interrupt.detach()
