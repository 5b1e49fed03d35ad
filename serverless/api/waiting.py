"""Waiting for the end of an invocation."""

from typing import Final

from gpuplatform.api.waiting import Seats
from serverless.models import OPEN_STATES, Invocation

MAX_WAIT_SECONDS: Final = 60.0
MARGIN_SECONDS: Final = 5.0
"""Beside what the function may take: for the way there and back."""

SEATS: Final = Seats(4)
"""Fewer than those who wait for units: these are far more."""


def wait_for_end(row: Invocation) -> bool:
    """Return whether the invocation has ended, as soon as it has or the time is up."""
    seconds = min(row.timeout_seconds + MARGIN_SECONDS, MAX_WAIT_SECONDS)
    return SEATS.wait(lambda: not _is_open(row), seconds)


def _is_open(row: Invocation) -> bool:
    return Invocation.objects.filter(pk=row.pk, state__in=OPEN_STATES).exists()
