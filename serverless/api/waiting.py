"""Waits for the end of an invocation."""

from collections.abc import Callable
from typing import Final

from django.conf import settings

from gpuplatform.api.waiting import SEATS
from serverless.models import OPEN, Invocation
from serverless.services.endings import invocation_drop

MARGIN_SECONDS: Final = 5.0
"""Time in seconds, in addition to the timeout, for the queue and the result store."""


def wait_for_end(row: Invocation, has_caller_disconnected: Callable[[], bool]) -> int:
    """Wait until the invocation ends or the time limit is reached.

    Return the seconds after which the caller can try again, if no seat was free; otherwise 0.
    If the caller leaves before a worker has started the invocation, the invocation is dropped.
    """
    still_open = Invocation.objects.filter(OPEN, pk=row.pk)
    seconds = min(row.timeout_seconds + MARGIN_SECONDS, settings.SYNC_WAIT_SECONDS)

    def is_over() -> bool:
        if not still_open.exists():
            return True
        if not has_caller_disconnected():
            return False
        invocation_drop(row)
        return True  # The response has no receiver.

    return SEATS.wait(row.tenant_id, is_over, seconds)
