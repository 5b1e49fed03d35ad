"""Limits the number of waiting requests, so that threads remain free for other requests."""

import threading
import time
from collections.abc import Callable
from typing import Final

from django.conf import settings

POLL_SECONDS: Final = 0.05
"""The first pause between two polls."""
LONGEST_POLL_SECONDS: Final = 0.5
_SHARE_OF_WAIT: Final = 0.01
"""Each pause as a share of the time waited, so that polling prolongs a wait by at most 1 %."""


class Seats:
    """A limited number of seats for waiting requests. Requests without a seat do not wait."""

    def __init__(self, share: int, *, poll_seconds: float = POLL_SECONDS) -> None:
        """Create seats for one in `share` threads of the process, at least one seat."""
        self._poll_seconds = poll_seconds
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
            return self._polled(is_over, time.monotonic() + seconds)
        finally:
            self._free.release()

    def _polled(self, is_over: Callable[[], bool], until: float) -> bool:
        begun = time.monotonic()
        while (left := until - time.monotonic()) > 0:
            waited = time.monotonic() - begun
            pause = min(max(waited * _SHARE_OF_WAIT, self._poll_seconds), LONGEST_POLL_SECONDS)
            time.sleep(min(pause, left))
            if is_over():
                return True
        return False
