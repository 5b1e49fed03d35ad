"""Stop signals and identity of the processes that do not fork."""

import os
import signal
import socket
import threading
import uuid


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set.

    Call this function first, in the main thread.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def own_identity() -> str:
    """Return a unique holder identity for leases: host name, process id and random text."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
