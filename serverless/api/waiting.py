"""Waits for the end of an invocation."""

from typing import Final

from gpuplatform.api.waiting import Seats
from serverless.models import OPEN_STATES, Invocation

MAX_WAIT_SECONDS: Final = 60.0
MARGIN_SECONDS: Final = 5.0
"""In addition to the invocation's timeout: for queue and result store."""

SEATS: Final = Seats(4)
"""Fewer than for units, because invocations are far more frequent."""


def wait_for_end(row: Invocation) -> bool:
    """Wait until the invocation ends or the time is up; return whether it has ended."""
    seconds = min(row.timeout_seconds + MARGIN_SECONDS, MAX_WAIT_SECONDS)
    return SEATS.wait(lambda: not _is_open(row), seconds)


def _is_open(row: Invocation) -> bool:
    return Invocation.objects.filter(pk=row.pk, state__in=OPEN_STATES).exists()
