"""Decides which preemptible units are stopped for the first request of a queue. Pure.

The decision is made twice: before the notice, among all preemptible units, and at its end, among
the units with a notice. A unit is stopped only if the request still needs its GPUs then.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from gpuplatform.planning.plan import Event, EventType
from units.core.queue import QueueRequest, QueueTenant, Tenants, eligible, share

PATIENCE_SECONDS: Final = 30.0
"""The time for which a request must have waited before units are stopped for it."""


class PreemptibleUnit(NamedTuple):
    """A running preemptible unit, which holds the GPUs of one row of stock."""

    number: int
    """The id of the unit."""
    tenant: int
    gpus: int
    started_at: float = 0.0
    """The time in seconds at which the unit got its stock."""


class Supply(NamedTuple):
    """The rows of stock that a request gets without a preemption."""

    free: int = 0
    """Number of free rows that the request can use."""
    coming: int = 0
    """Number of rows that start, or whose GPUs are being released."""


def preemptor(
    requests: Iterable[QueueRequest], tenants: Tenants, now: float, evicted: Collection[int]
) -> QueueRequest | None:
    """Return the request for which units can be stopped, or `None`.

    It is the first eligible request, unless it is preemptible, has waited for a short time only,
    or is one of `evicted`: units are stopped at most once for a request.
    """
    head = next(iter(eligible(requests, tenants)), None)
    if head is None or head.is_preemptible or head.number in evicted:
        return None
    return head if now - head.requested_at >= PATIENCE_SECONDS else None


def victims(
    request: QueueRequest,
    supply: Supply,
    units: Iterable[PreemptibleUnit],
    tenants: Tenants,
) -> tuple[int, ...]:
    """Return the ids of the units to stop for a request: the youngest of the largest share first.

    They hold exactly the GPUs that the request lacks. If they would not complete the request, no
    unit is stopped (rule `evictfits`).
    """
    missing = request.size - supply.free - supply.coming
    left = [one for one in units if one.gpus * request.size == request.gpus]
    if not 0 < missing <= len(left):
        return ()
    shares, found = dict(tenants), []
    for _ in range(missing):
        chosen = max(left, key=lambda one: _rank(one, shares[one.tenant]))
        left.remove(chosen)
        found.append(chosen.number)
        owner = shares[chosen.tenant]
        shares[chosen.tenant] = owner._replace(held=owner.held - chosen.gpus)
    return tuple(found)


def notice_event() -> Event:
    """Return the Event about a unit that will be stopped for a request."""
    message = (
        "A request that is not preemptible needs the GPUs of the unit, so that the unit will be"
        " stopped. The field notice of the unit contains the time. The unit then waits for stock"
        " and starts again."
    )
    return Event(EventType.WARNING, "PreemptionNotice", message)


def _rank(unit: PreemptibleUnit, tenant: QueueTenant) -> tuple[float, float, int]:
    return share(tenant), unit.started_at, unit.number
