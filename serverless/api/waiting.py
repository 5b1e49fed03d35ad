"""Waits for the end of an invocation."""

from typing import Final

from gpuplatform.api.waiting import Seats
from serverless.models import OPEN, Invocation

MAX_WAIT_SECONDS: Final = 60.0
MARGIN_SECONDS: Final = 5.0
"""Time in seconds, in addition to the timeout, for the queue and the result store."""

SEATS: Final = Seats(4)
"""Fewer seats than for units, because invocations are more frequent."""


def wait_for_end(row: Invocation) -> bool:
    """Wait until the invocation ends or the time limit is reached; return whether it ended."""
    still_open = Invocation.objects.filter(OPEN, pk=row.pk)
    seconds = min(row.timeout_seconds + MARGIN_SECONDS, MAX_WAIT_SECONDS)
    return SEATS.wait(lambda: not still_open.exists(), seconds)
