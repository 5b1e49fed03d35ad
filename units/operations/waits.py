"""The outcomes of operations that wait for stock."""

from typing import Final

from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import InsufficientCapacity
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.registry import Failed, Outcome, Waiting
from units.core.withheld import withheld_text
from units.models import CapacityRequest
from units.phases import RequestPhase, UnitWait
from units.selectors import stock_withheld
from units.services.names import UnitOperation

MIN_WAIT_SECONDS: Final = 0.5
"""Minimum time in seconds until the next attempt, if the clocks of the servers differ."""

_SUPERSEDED_BY: Final = {
    UnitOperation.CREATE: (UnitOperation.DELETE,),
    UnitOperation.START: (UnitOperation.DELETE, UnitOperation.STOP),
    UnitOperation.GROUP_CREATE: (UnitOperation.GROUP_DELETE,),
}
"""The kinds of a later operation on the same object that ends a waiting operation."""


def wait_for_grant(request: CapacityRequest) -> Outcome:
    """Return `Waiting`, or `Failed` if the request has expired (steps `wait` and `giveup`).

    The grant and the end of the request make the operation due. The check under the lock of the
    operation ensures that the wait does not overwrite that (rule `parkcheck`).
    """
    seconds = (request.expires_at - clock.now()).total_seconds()
    rows = CapacityRequest.objects.filter(pk=request.pk, phase=RequestPhase.OPEN)
    if rows.filter(expires_at__lte=Now()).exists():
        return expired(request)
    return Waiting(
        UnitWait.WAITING_FOR_CAPACITY,
        f"The operation waits in the queue of the GPU spec '{request.spec_name}'. It continues"
        " when stock is granted to it.",
        max(seconds, MIN_WAIT_SECONDS),
        still=rows.exists,
    )


def expired(request: CapacityRequest) -> Failed:
    """Return the failure of an operation whose request has expired."""
    waited = request.expires_at - request.requested_at
    withheld = withheld_text(stock_withheld(request.spec_name))
    return Failed(
        InsufficientCapacity.code,
        f"No stock unit of the GPU spec '{request.spec_name}' was granted within"
        f" {round(waited.total_seconds() / 60)} minutes.{withheld} Try again later.",
        retryable=True,
    )


def superseded(operation: Operation) -> Failed | None:
    """Return the failure of a waiting operation, if a later operation supersedes it."""
    later = Operation.objects.filter(
        object_kind=operation.object_kind,
        object_namespace=operation.object_namespace,
        object_name=operation.object_name,
        id__gt=operation.pk,
        kind__in=_SUPERSEDED_BY[UnitOperation(operation.kind)],
        phase__in=OPEN_PHASES,
    )
    if not later.exists():
        return None
    return Failed(
        "phase_conflict",
        f"A later operation stops or deletes the GPU unit '{operation.object_name}'.",
    )
