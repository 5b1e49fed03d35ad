"""The order in which open requests for capacity get stock. Pure.

The matcher, the acceptance of requests that do not wait, and the positions in the API use the
same functions. Preemptible requests are last; then the order is by priority, by the share of the
tenant, by age, and by number. Within a tenant and class, it is by age alone.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

HALF_LIFE_SECONDS: Final = 6 * 3600.0
"""The time after which half of a tenant's usage still counts."""

TAU_SECONDS: Final = HALF_LIFE_SECONDS / math.log(2)
"""The divisor that converts decayed GPU-seconds to GPUs: a GPU that is always held counts as one
GPU of usage."""

HOLD_SECONDS: Final = 600.0
"""Duration of the first hold for the head of the queue."""

MAX_DOUBLINGS: Final = 4
"""Number of holds of a request after which their duration no longer doubles."""


class QueueTenant(NamedTuple):
    """What the order depends on for one tenant."""

    weight: int = 1
    usage: float = 0.0
    """Decayed GPU-seconds."""
    held: int = 0
    """GPUs that count now: of granted, running and terminating units."""
    limit: int | None = None
    """Maximum number of GPUs, or `None` if the tenant has no limit."""
    is_active: bool = True


class QueueRequest(NamedTuple):
    """An open request for rows of stock."""

    number: int
    """The order of acceptance, which breaks every tie."""
    tenant: int
    size: int = 1
    """Number of rows. All of them are granted, or none."""
    gpus: int = 1
    """Number of GPUs of these rows."""
    priority: int = 0
    is_preemptible: bool = False
    requested_at: float = 0.0
    """Time of the request in seconds."""
    fits: frozenset[int] | None = None
    """The free rows that its placement allows, or `None` if it allows all."""
    has_quota: bool = False
    """Whether its GPUs already count for its tenant, because an earlier grant was lost."""


class NextGrant(NamedTuple):
    """The request that is granted next, and the rows that are held for the head of the queue."""

    request: QueueRequest | None = None
    rows: tuple[int, ...] = ()
    """The rows from which `request` gets its `size`, in the order of the free rows."""
    held: tuple[int, ...] = ()
    holder: int = 0
    """The number of the request for which `held` is kept, or 0."""


class Hold(NamedTuple):
    """The hold for a request."""

    begun_at: float | None = None
    """Start of the current hold in seconds, or `None` if nothing is held."""
    times: int = 0
    """Number of earlier holds."""


Tenants: TypeAlias = Mapping[int, QueueTenant]
MayHold: TypeAlias = Callable[[QueueRequest], bool]


def share(tenant: QueueTenant) -> float:
    """Return the GPUs that a tenant uses and has used, in relation to its weight."""
    return (tenant.usage / TAU_SECONDS + tenant.held) / tenant.weight


def in_order(requests: Iterable[QueueRequest], tenants: Tenants) -> list[QueueRequest]:
    """Return all requests in the order in which they are served."""
    shares = {number: share(tenant) for number, tenant in tenants.items()}

    def place(request: QueueRequest) -> tuple[bool, int, float, float, int]:
        owner = shares[request.tenant]
        since = (request.requested_at, request.number)
        return request.is_preemptible, -request.priority, owner, *since

    return sorted(requests, key=place)


def lane(request: QueueRequest) -> tuple[int, bool, int]:
    """Return the tenant and the class, within which no request overtakes an older one."""
    return request.tenant, request.is_preemptible, request.priority


def is_within_quota(request: QueueRequest, tenant: QueueTenant) -> bool:
    """Return whether the tenant may hold the GPUs of the request in addition."""
    if request.has_quota or tenant.limit is None:
        return True
    return tenant.held + request.gpus <= tenant.limit


def eligible(requests: Iterable[QueueRequest], tenants: Tenants) -> list[QueueRequest]:
    """Return the requests in order that could be granted if stock were ready.

    A request that its tenant's quota or suspension blocks also blocks the later ones of its lane.
    """
    barred, found = set(), []
    for request in in_order(requests, tenants):
        tenant = tenants[request.tenant]
        is_allowed = tenant.is_active and is_within_quota(request, tenant)
        if not is_allowed or lane(request) in barred:
            barred.add(lane(request))
        else:
            found.append(request)
    return found


def next_grant(
    requests: Iterable[QueueRequest],
    tenants: Tenants,
    free: Sequence[int],
    may_hold: MayHold = lambda _: True,
) -> NextGrant:
    """Return the next grant of the rows in `free`, and the rows that are held for the head.

    A grant changes the share of its tenant, so that the order must be determined again after it.

    Args:
        requests: The open requests of a GPU spec.
        tenants: The tenants of the requests.
        free: The free rows of stock, in the order of preference.
        may_hold: Returns whether rows may be held for a head for which too few rows are free.
    """
    left, holder = list(free), 0
    held: tuple[int, ...] = ()
    passed: set[tuple[int, bool, int]] = set()
    for place, request in enumerate(eligible(requests, tenants) if left else ()):
        if lane(request) in passed:
            continue
        fitting = _fitting(request, left)
        if len(fitting) >= request.size:
            return NextGrant(request, fitting, held, holder)
        passed.add(lane(request))
        if place == 0 and fitting and may_hold(request):
            held, holder = fitting, request.number
            left = [row for row in left if row not in held]
    return NextGrant(held=held, holder=holder)


def _fitting(request: QueueRequest, free: Sequence[int]) -> tuple[int, ...]:
    fits = request.fits
    return tuple(free) if fits is None else tuple(row for row in free if row in fits)


def left_over(
    requests: Iterable[QueueRequest],
    tenants: Tenants,
    free: Sequence[int],
    last: QueueRequest,
    may_hold: MayHold = lambda _: True,
) -> tuple[int, ...]:
    """Return the free rows that `last`, which does not wait, may take.

    These are the rows that remain after all grants and holds. An open request of the same
    lane leaves none.
    """
    waiting, shares, rows = list(requests), dict(tenants), list(free)
    if any(lane(request) == lane(last) for request in waiting):
        return ()
    while (found := next_grant(waiting, shares, rows, may_hold)).request is not None:
        granted, taken = found.request, found.rows[: found.request.size]
        waiting.remove(granted)
        rows = [row for row in rows if row not in taken]
        tenant = shares[granted.tenant]
        added = 0 if granted.has_quota else granted.gpus
        shares[granted.tenant] = tenant._replace(held=tenant.held + added)
    return _fitting(last, [row for row in rows if row not in found.held])


def hold_seconds(times: int) -> float:
    """Return the duration of the next hold, and of the pause after it: 10 to 160 minutes."""
    return HOLD_SECONDS * float(2 ** min(times, MAX_DOUBLINGS))


def is_hold_over(hold: Hold, now: float) -> bool:
    """Return whether the current hold has reached its duration."""
    return hold.begun_at is not None and now >= hold.begun_at + hold_seconds(hold.times)


def may_hold(hold: Hold, pause_until: float, now: float) -> bool:
    """Return whether rows may be held: during a hold, or after the pause of the GPU spec."""
    return hold.begun_at is not None or now >= pause_until
