"""Interrupts a blocked read of another thread.

A watch waits for the next event for up to a minute, a list for seconds. To stop such a thread
promptly, fire its `Interrupt`: it shuts down the socket that the thread waits on, and the read
ends with an error as after any lost connection.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Interrupt:
    """The socket that one thread waits on; another thread can shut it down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._fired = False

    def attach(self, waiting_on: socket.socket | None) -> None:
        """Set the socket of the next read.

        Raises:
            ConnectionAbortedError: `fire` has been called.
        """
        with self._lock:
            if self._fired:
                raise ConnectionAbortedError
            self._socket = waiting_on

    def detach(self) -> None:
        """Clear the socket: its connection returns to the pool and may serve other threads."""
        with self._lock:
            self._socket = None

    def fire(self) -> None:
        """End the current read and every later one of this scope."""
        with self._lock:
            self._fired = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # It has ended in the meantime.
                # The plain method also for TLS: SSLSocket.shutdown would drop the TLS state under
                # the reading thread, which would then read cipher text as a response.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


_scope: ContextVar[Interrupt | None] = ContextVar("cluster_interrupt", default=None)


@contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """Let `interrupt` end the cluster calls of this thread within the block."""
    token = _scope.set(interrupt)
    try:
        yield
    finally:
        _scope.reset(token)
        interrupt.detach()


def attach(waiting_on: socket.socket | None) -> None:
    """Set the socket of this scope's interrupt, if there is one."""
    if (interrupt := _scope.get()) is not None:
        interrupt.attach(waiting_on)


def detach() -> None:
    """Clear the socket of this scope's interrupt, if there is one."""
    if (interrupt := _scope.get()) is not None:
        interrupt.detach()
