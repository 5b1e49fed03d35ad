"""Limits the number of waiting requests, so that threads remain free for other requests."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from django.conf import settings

POLL_SECONDS: Final = 0.05
"""The first pause between two polls."""
LONGEST_POLL_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 5
"""`Retry-After` of a response to a request that did not wait, because no seat was free."""
_SHARE_OF_WAIT: Final = 0.01
"""Each pause as a share of the time waited, so that polling prolongs a wait by at most 1 %."""
_SHARE_OF_TENANT: Final = 4
"""A tenant occupies at most one in this number of seats, but always at least one."""


class Seats:
    """A limited number of seats for waiting requests. Requests without a seat do not wait."""

    def __init__(self, number: int) -> None:
        """Create this number of seats."""
        self.number = number
        self.number_of_tenant = max(self.number // _SHARE_OF_TENANT, 1)
        self._lock = threading.Lock()
        self._taken: Counter[int] = Counter()

    @contextmanager
    def seat(self, tenant: int) -> Iterator[bool]:
        """Occupy a seat within the block, and yield whether one was free."""
        with self._lock:
            is_free = self._taken.total() < self.number
            is_seated = is_free and self._taken[tenant] < self.number_of_tenant
            self._taken[tenant] += is_seated
        try:
            yield is_seated
        finally:
            with self._lock:
                self._taken[tenant] -= is_seated
                self._taken += Counter()  # Deletes tenants without seats.

    def wait(
        self,
        tenant: int,
        is_over: Callable[[], bool],
        seconds: float,
        poll_seconds: float = POLL_SECONDS,
    ) -> int:
        """Wait until `is_over` returns true, for at most `seconds`.

        `is_over` is called once immediately and then, if a seat is free, with growing pauses. Its
        exceptions propagate.

        Returns:
            The seconds after which the caller can try again, if no seat was free; otherwise 0.
        """
        if is_over() or seconds <= 0:
            return 0
        with self.seat(tenant) as is_seated:
            if is_seated:
                _poll(is_over, time.monotonic() + seconds, poll_seconds)
            return 0 if is_seated else RETRY_SECONDS


def _poll(is_over: Callable[[], bool], until: float, poll_seconds: float) -> None:
    begun = time.monotonic()
    while (left := until - time.monotonic()) > 0:
        waited = time.monotonic() - begun
        pause = min(max(waited * _SHARE_OF_WAIT, poll_seconds), LONGEST_POLL_SECONDS)
        time.sleep(min(pause, left))
        if is_over():
            return


SEATS: Final = Seats(max(settings.WEB_THREADS // 2, 2))
"""The seats of this process: for waits for units, synchronous invocations and reads of logs."""
