"""Waiting for a result, without taking the process's threads from everybody else."""

import threading
import time
from typing import Final

from django.conf import settings

from serverless.models import OPEN_STATES, Invocation

MAX_WAIT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05
LONGEST_POLL_SECONDS: Final = 0.5
MARGIN_SECONDS: Final = 5.0
"""Beside what the function may take: for the way there and back."""

_seats = threading.BoundedSemaphore(max(settings.WEB_THREADS // 4, 1))
"""A quarter of the threads wait, and half of them for units; who finds no seat is answered."""


def wait_for_end(row: Invocation) -> bool:
    """Return whether the invocation has ended, as soon as it has or the time is up."""
    if not _is_open(row):
        return True
    if not _seats.acquire(blocking=False):
        return False
    seconds = min(row.timeout_seconds + MARGIN_SECONDS, MAX_WAIT_SECONDS)
    try:
        return _has_ended(row, time.monotonic() + seconds)
    finally:
        _seats.release()


def _has_ended(row: Invocation, until: float) -> bool:
    pause = POLL_SECONDS
    while _is_open(row):
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(LONGEST_POLL_SECONDS, pause * 1.3)
    return True


def _is_open(row: Invocation) -> bool:
    return Invocation.objects.filter(pk=row.pk, state__in=OPEN_STATES).exists()
