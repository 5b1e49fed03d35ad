"""Helpers of the processes that do not fork: stop signals, identity for leader election."""

import os
import signal
import socket
import threading
import uuid


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set; call this in the main thread, first."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def own_identity() -> str:
    """Return the holder identity for a lease: host, pid and a random part."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
