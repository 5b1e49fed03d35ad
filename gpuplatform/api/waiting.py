"""Limits the number of waiting requests, so that threads remain free for other requests."""

import threading
import time
from collections.abc import Callable
from typing import Final

from django.conf import settings

POLL_SECONDS: Final = 0.05
LONGEST_POLL_SECONDS: Final = 0.5
_SLOWER: Final = 1.3


class Seats:
    """A limited number of seats for waiting requests. Requests without a seat do not wait."""

    def __init__(self, share: int) -> None:
        """Create seats for one in `share` threads of the process, at least one seat."""
        self.number = max(settings.WEB_THREADS // share, 1)
        self._free = threading.BoundedSemaphore(self.number)

    def wait(self, is_over: Callable[[], bool], seconds: float) -> bool:
        """Return whether `is_over` returns true within `seconds`.

        `is_over` is called once immediately and then, if a seat is free, with growing pauses. Its
        exceptions propagate.
        """
        if is_over():
            return True
        if seconds <= 0 or not self._free.acquire(blocking=False):
            return False
        try:
            return _polled(is_over, time.monotonic() + seconds)
        finally:
            self._free.release()


def _polled(is_over: Callable[[], bool], until: float) -> bool:
    pause = POLL_SECONDS
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(pause, left))
        if is_over():
            return True
        pause = min(LONGEST_POLL_SECONDS, pause * _SLOWER)
    return False
