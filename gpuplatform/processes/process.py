"""What every process of ours that does not fork begins with."""

import os
import signal
import socket
import threading
import uuid


def stop_on_signals() -> threading.Event:
    """Return what SIGTERM and SIGINT set; for the main thread, before any other is started."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def own_identity() -> str:
    """Return a name for a lease that no other process has, and that says which one it is."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
