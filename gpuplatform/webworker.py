"""The web process's worker: gunicorn's threads, and a limit to how long a request may arrive.

Without one a few clients that begin a request and never end it keep every thread for ever.
"""

import contextlib
import socket
import threading
import time
from typing import Any, Final

from gunicorn.workers.gthread import (  # type: ignore[import-untyped]  # there are no stubs
    ThreadWorker,
)
from typing_extensions import override

HEAD_SECONDS: Final = 10.0
"""Gunicorn waits up to five of them for the first byte, and hands the connection back then."""
BODY_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 1.0


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Ends the reading of what arrives too slowly; an answer can still be sent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._until: dict[int, tuple[float, Any]] = {}
        self._changing = threading.Lock()

    @override
    def run(self) -> None:
        threading.Thread(target=self._look, name="slow-clients", daemon=True).start()
        super().run()

    @override
    def handle(self, conn: Any) -> Any:
        self._limit(conn, HEAD_SECONDS)
        try:
            return super().handle(conn)
        finally:
            with self._changing:
                self._until.pop(id(conn), None)

    @override
    def handle_request(self, req: Any, conn: Any) -> Any:
        self._limit(conn, BODY_SECONDS)
        return super().handle_request(req, conn)

    def _limit(self, conn: Any, seconds: float) -> None:
        with self._changing:
            self._until[id(conn)] = (time.monotonic() + seconds, conn)

    def _look(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_SECONDS):
            with self._changing:
                late = [conn for until, conn in self._until.values() if until < time.monotonic()]
                for conn in late:
                    with contextlib.suppress(OSError):  # It hung up meanwhile.
                        conn.sock.shutdown(socket.SHUT_RD)
