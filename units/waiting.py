"""Reads the queue of a GPU spec: open requests, their tenants, and free stock.

The pure rules of `units.core.queue` decide; the services write. Hints ask a worker to run the
matcher. They are sent after the commit, and only if a request is open.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db import transaction
from django.db.models import BooleanField, Exists, F, Q, QuerySet, Sum, Window
from django.db.models.expressions import RawSQL
from django.db.models.functions import RowNumber

from gpuplatform import clock
from gpuplatform.operations.registry import QueuePlace
from gpuplatform.postgresql.compiled import CompiledQuery, Statement
from gpuplatform.postgresql.tenant_rows import all_rows
from gpuplatform.queueing import Queue, enqueue
from units.core.estimate import RECENT_GRANTS, PastGrant, estimate
from units.core.queue import (
    Hold,
    NextGrant,
    QueueRequest,
    QueueTenant,
    hold_seconds,
    left_over,
    may_hold,
    next_grant,
)
from units.models import CapacityRequest, GpuUnit
from units.phases import RequestPhase
from units.queue_statements import OpenRequest, first_requests, free_stock, positions
from units.queue_tenants import queue_tenants, waiting_tenants
from units.selectors import claimable_stock, first_unlocked

MATCH_TASK: Final = "units.match_requests"
"""The name of the task that runs the matcher. Its argument is the id of an open request."""

OPEN: Final = Q(phase=RequestPhase.OPEN)

_UNWANTED: Final = """
NOT EXISTS (
    SELECT FROM units_capacityrequest r
    WHERE r.phase = 'Open' AND r.spec_name = %s
      AND r.resource_name IN ('', units_gpuunit.resource_name)
) AND NOT EXISTS (
    SELECT FROM units_capacityrequest r
    WHERE r.phase = 'Open' AND r.spec_name = %s
      AND r.tenant_id = %s AND r.priority = %s AND r.is_preemptible = %s
)
"""
"""The condition of a row of stock that no open request can use and whose lane is empty: part of
each creation. Compiling the subqueries would take most of the time of the claim."""


def requests_open(spec_name: str) -> QuerySet[CapacityRequest]:
    """Return the open requests of a GPU spec."""
    return CapacityRequest.objects.filter(OPEN, spec_name=spec_name)


def requests_held(spec_name: str) -> QuerySet[CapacityRequest]:
    """Return the open requests of a GPU spec for which free stock is held."""
    return requests_open(spec_name).filter(hold_begun_at__isnull=False)


def hold_ends_at(request: CapacityRequest) -> datetime | None:
    """Return the time until which free stock is held for an open request, or `None`."""
    if request.hold_begun_at is None:
        return None
    return request.hold_begun_at + timedelta(seconds=hold_seconds(request.hold_times))


def unless_queued(free: QuerySet[GpuUnit], spec_name: str) -> QuerySet[GpuUnit]:
    """Return the rows of `free`, or none while a request of the GPU spec is open.

    The condition is part of the statement that selects the row: a row that became ready after a
    request was opened is never selected.
    """
    return free.exclude(Exists(requests_open(spec_name)))


class Lane(NamedTuple):
    """The requests of a GPU spec among which only the age decides."""

    tenant: int
    priority: int
    is_preemptible: bool


def unless_wanted(free: QuerySet[GpuUnit], spec_name: str, lane: Lane) -> QuerySet[GpuUnit]:
    """Return the rows of `free` that no open request of the GPU spec can use.

    A claim gets no row while a request of its lane is open. The conditions are part of the
    statement that selects the row, as in `unless_queued`. The order leaves these rows in any case;
    whether it leaves others is known only with the turn of the GPU spec.
    """
    values = [spec_name, spec_name, *lane]
    return free.filter(RawSQL(_UNWANTED, values, output_field=BooleanField()))  # noqa: S611 - constant


_FIRST_UNWANTED: Final = CompiledQuery(
    lambda spec_name, *lane: first_unlocked(
        unless_wanted(claimable_stock(spec_name), spec_name, Lane(*lane))
    )
)


def first_unwanted(spec_name: str, lane: Lane) -> Statement:
    """Return the statement that selects the first unlocked row that `unless_wanted` leaves."""
    return _FIRST_UNWANTED.bound(spec_name, *lane)


@dataclass(frozen=True, slots=True)
class SpecQueue:
    """The queue of a GPU spec at one moment."""

    requests: Sequence[QueueRequest] = ()
    tenants: Mapping[int, QueueTenant] = field(default_factory=dict)
    free: Sequence[int] = ()
    """The ids of the claimable rows of stock, oldest first."""
    holds: Mapping[int, Hold] = field(default_factory=dict)
    """The hold for each request, by its number."""
    pause_until: float = 0.0
    now: float = 0.0
    gpus: int = 0
    """Number of GPUs of one row."""

    def next_grant(self) -> NextGrant:
        """Return the next grant, and the rows that are held for the head."""
        return next_grant(self.requests, self.tenants, self.free, self._may_hold)

    def left_over(self, last: QueueRequest) -> tuple[int, ...]:
        """Return the rows that a request may take that does not wait."""
        return left_over(self.requests, self.tenants, self.free, last, self._may_hold)

    def restricted(
        self, free: QuerySet[GpuUnit], rows: Collection[int], request: QueueRequest
    ) -> QuerySet[GpuUnit]:
        """Return `free`, the claimable stock, with the condition that it is one of `rows`.

        If all requests may take any free row, the condition is omitted: it would contain hundreds
        of ids, and a row that has become ready since is as good. Otherwise, such a row can be the
        only one that an earlier request can use.
        """
        is_any = all(one.fits is None for one in (request, *self.requests))
        is_any = is_any and len(rows) == len(self.free)
        return free if is_any else free.filter(pk__in=rows)

    def _may_hold(self, request: QueueRequest) -> bool:
        hold = self.holds.get(request.number, Hold())
        return may_hold(hold, self.pause_until, self.now)


def spec_queue(
    spec_name: str,
    *,
    without: Collection[int] = (),
    tenant: int | None = None,
    depth: int | None = 1,
) -> SpecQueue:
    """Return the part of the queue of a GPU spec that decides the next grants.

    Within a lane, no request overtakes an older one, so that only the first requests of each lane
    can be granted: with `depth` grants, the first `depth` ones. Requests with a hold are included.

    Args:
        spec_name: The name of the GPU spec.
        without: The ids of requests to leave out.
        tenant: The id of a tenant to include although it has no open request.
        depth: The number of grants that the part decides, or `None` for one of each free row.
    """
    stock = free_stock(spec_name)
    rows = first_requests(
        spec_name,
        len(stock.rows) if depth is None else depth,
        usable={name for _, name in stock.rows},
        without=without,
    )
    fits = _rows_by_resource(stock.rows)
    tenants = {row.tenant for row in rows} | ({tenant} if tenant is not None else set())
    return SpecQueue(
        requests=[_request(row, stock.gpus, fits) for row in rows],
        tenants=queue_tenants(tenants, spec_name),
        free=[row_id for row_id, _ in stock.rows],
        holds={row.number: Hold(row.hold_begun_at, row.hold_times) for row in rows},
        pause_until=stock.pause_until,
        now=clock.now().timestamp(),
        gpus=stock.gpus,
    )


def _rows_by_resource(free: Iterable[tuple[int, str]]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for row_id, resource_name in free:
        found[resource_name].add(row_id)
    return {name: frozenset(rows) for name, rows in found.items()}


def _request(row: OpenRequest, gpus: int, fits: Mapping[str, frozenset[int]]) -> QueueRequest:
    return QueueRequest(
        number=row.number,
        tenant=row.tenant,
        size=row.size,
        gpus=row.size * gpus,
        priority=row.priority,
        is_preemptible=row.is_preemptible,
        requested_at=row.requested_at,
        fits=fits.get(row.resource_name, frozenset()) if row.resource_name else None,
    )


def places_in(spec_names: Collection[str] | None = None) -> dict[int, QueuePlace]:
    """Return the places of all open requests by GPU spec and in order, by the id of the request.

    `None` means all GPU specs.
    """
    return _places(spec_names, None)


def place_of(request: CapacityRequest) -> QueuePlace | None:
    """Return the place of an open request, or `None` if it has expired."""
    return _places([request.spec_name], [request.pk]).get(request.pk)


def places_of_units(units: Collection[int]) -> dict[int, QueuePlace]:
    """Return the places of the units that wait, by the id of the unit."""
    rows = CapacityRequest.objects.filter(OPEN, unit__in=units)
    # All units that a waiting operation has to create have its place.
    group = GpuUnit.objects.filter(
        pk__in=units, uid="", operation__capacity_request__phase=RequestPhase.OPEN
    ).exclude(group_name="")
    request = "operation__capacity_request"
    of_group = group.values_list(f"{request}__id", "pk", f"{request}__spec_name")
    own = rows.values_list("id", "unit_id", "spec_name")
    return _places_by_owner(own.union(of_group, all=True))


def places_of_operations(operations: Collection[int]) -> dict[int, QueuePlace]:
    """Return the places of the operations that wait for stock, by the id of the operation."""
    rows = CapacityRequest.objects.filter(OPEN, operation__in=operations)
    return _places_by_owner(rows.values_list("id", "operation_id", "spec_name"))


@all_rows()
def position_of(request: CapacityRequest) -> int | None:
    """Return the position of an open request, or `None` if it has expired."""
    found = positions(waiting_tenants([request.spec_name]), [request.pk])
    return found[0].position if found else None


def _places_by_owner(rows: Iterable[tuple[int, int, str]]) -> dict[int, QueuePlace]:
    owners: dict[int, set[int]] = defaultdict(set)
    names = set()
    for number, owner, name in rows:
        owners[number].add(owner)
        names.add(name)
    places = _places(names, owners.keys()) if names else {}
    return {owner: place for number, place in places.items() for owner in owners[number]}


@all_rows()
def _places(
    spec_names: Collection[str] | None, numbers: Collection[int] | None
) -> dict[int, QueuePlace]:
    """Return the places of requests of GPU specs, in order; `None` means all. Runs 3 queries."""
    tenants = waiting_tenants(spec_names)
    grants = past_grants(tenants.keys())
    return {
        one.number: QueuePlace(one.position, estimate(one.position - 1, grants[one.spec_name]))
        for one in positions(tenants, numbers)
    }


def past_grants(spec_names: Collection[str]) -> Mapping[str, Sequence[PastGrant]]:
    """Return the newest grants of each GPU spec to requests that had waited. Runs one query."""
    granted = CapacityRequest.objects.filter(spec_name__in=spec_names, granted_at__isnull=False)
    newest_first = F("granted_at").desc()
    age = Window(RowNumber(), partition_by="spec_name", order_by=newest_first)
    rows = granted.annotate(age=age).filter(age__lte=RECENT_GRANTS).order_by(newest_first)
    found: dict[str, list[PastGrant]] = {name: [] for name in spec_names}
    for name, ahead, requested_at, at in rows.values_list(
        "spec_name", "ahead", "requested_at", "granted_at"
    ):
        if at is not None:
            found[name].append(PastGrant(ahead, (at - requested_at).total_seconds()))
    return found


@all_rows()
def waits_of_specs(ready: Mapping[str, int]) -> dict[str, tuple[int, int] | None]:
    """Return the estimated wait in seconds of a new unit of each GPU spec, or `None` if unknown.

    `ready` has the number of claimable stock units by GPU spec. A unit does not wait if the open
    requests need fewer. Runs two queries.
    """
    rows = CapacityRequest.objects.filter(OPEN, spec_name__in=ready).order_by()
    open_requests = dict(rows.values_list("spec_name").annotate(Sum("count")))
    grants = past_grants(ready.keys())
    ahead = {name: open_requests.get(name, 0) for name in ready}
    return {
        name: (0, 0) if number > ahead[name] else estimate(ahead[name], grants[name])
        for name, number in ready.items()
    }


def waiting_stock(spec_name: str) -> int:
    """Return the number of stock units for which requests of a GPU spec wait."""
    return int(requests_open(spec_name).aggregate(number=Sum("count", default=0))["number"])


def queued_specs() -> list[str]:
    """Return the names of the GPU specs that have open requests."""
    rows = CapacityRequest.objects.filter(OPEN).order_by("spec_name")
    return list(rows.values_list("spec_name", flat=True).distinct())


def specs_of_requests(request_ids: Collection[int]) -> list[str]:
    """Return the names of the GPU specs of requests, by the ids of the requests."""
    rows = CapacityRequest.objects.filter(pk__in=request_ids).order_by("spec_name")
    return list(rows.values_list("spec_name", flat=True).distinct())


def hint_matcher(spec_name: str) -> None:
    """Ask a worker to run the matcher for a GPU spec after the commit, if a request is open.

    The requests are read after the commit. Otherwise, a request that is opened concurrently could
    be missed by both transactions.
    """
    transaction.on_commit(lambda: _hint(spec_name), robust=True)


def hint_tenant(tenant: int) -> None:
    """Ask for the matcher of each GPU spec of which the tenant has open requests.

    Called in the transaction that changes what the tenant may use.
    """

    def hint() -> None:
        rows = CapacityRequest.objects.filter(OPEN, tenant=tenant).order_by()
        for spec_name in rows.values_list("spec_name", flat=True).distinct():
            _hint(spec_name)

    transaction.on_commit(hint, robust=True)


@all_rows()
def _hint(spec_name: str) -> None:
    number = requests_open(spec_name).order_by("id").values_list("id", flat=True).first()
    if number is not None:
        enqueue(MATCH_TASK, number, queue=Queue.OPERATIONS)
