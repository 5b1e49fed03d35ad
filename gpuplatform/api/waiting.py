"""Requests that wait for something, without taking the process's threads from everybody else."""

import threading
import time
from collections.abc import Callable
from typing import Final

from django.conf import settings

POLL_SECONDS: Final = 0.05
LONGEST_POLL_SECONDS: Final = 0.5
_SLOWER: Final = 1.3


class Seats:
    """Places for those who wait; who finds none is answered at once."""

    def __init__(self, share: int) -> None:
        """Of so many threads of a process one may wait; there is at least one seat."""
        self.number = max(settings.WEB_THREADS // share, 1)
        self._free = threading.BoundedSemaphore(self.number)

    def wait(self, is_over: Callable[[], bool], seconds: float) -> bool:
        """Return whether it is over, as soon as it is, or the time is up, or there is no seat.

        `is_over` is asked at least once, ever more seldom; what it raises gets out.
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
