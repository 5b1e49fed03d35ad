"""Claims stock for accepted operations in turn, and opens and closes their requests for capacity.

Requests that do not wait are served last. While no open request can use a free row, a claim of it
needs no turn: one statement selects the row and checks the open requests. Otherwise, the request
is accepted again with the turn of the GPU spec, which the matcher takes, too. All
functions except `accept_in_line` run in the transaction of the caller. Stock and the order of the
queue belong to no tenant: their statements see all rows (`all_rows`).
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db.models import QuerySet
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import CapacityExceeded, FieldError, QueueFull
from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.services import Accepted, OperationTask, Request, operation_accept
from gpuplatform.postgresql.tenant_rows import all_rows
from gpuplatform.queueing import Queue, enqueue_after_commit
from gpuplatform.tenancy.models import Tenant
from inventory.services.catalogue import holds_pause
from units.core.queue import QueueRequest, hold_seconds
from units.history import append_history
from units.models import CapacityRequest, GpuUnit
from units.phases import REQUEST_TRANSITIONS, RequestPhase, UnitPhase, UnitReason
from units.selectors import claimable_stock, nodes_with, units_possible
from units.services.claims import claim, claim_all, claim_selected, claimed_gpus
from units.services.quota import GpuQuota
from units.waiting import (
    OPEN,
    Lane,
    first_unwanted,
    hint_matcher,
    position_of,
    requests_open,
    spec_queue,
    unless_wanted,
)

DEFAULT_WAIT: Final = timedelta(minutes=10)
"""Time for which a start, or an operation whose stock was deleted, waits for stock."""

MAX_OPEN_REQUESTS: Final = 2_000
"""Maximum number of open requests of a GPU spec. Starts are accepted beyond it."""

MAX_OPEN_REQUESTS_OF_TENANT: Final = 500
"""Maximum number of open requests of a tenant for a GPU spec: a quarter of all, so that no tenant
alone can fill the queue of the others. Starts are accepted beyond it."""

CONTENDED_SECONDS: Final = 1.0
"""The time after which a claim is tried again without the turn of its GPU spec."""

_CONTENDED_UNTIL: Final[dict[str, float]] = {}
"""The times, on the monotonic clock, until which the first attempt of a claim takes the turn of a
GPU spec. It only saves attempts: a claim with the turn is always correct."""

_LAST: Final = 2**62
"""The number of a request that is served last."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The stock that an operation requires."""

    spec_name: str
    stock_name: str = ""
    """The name of the only stock unit that is allowed, or an empty string."""
    resource_name: str = ""
    """The resource that the stock unit must hold, or an empty string."""
    image: str = ""
    """The image that its node should have."""
    priority: int = 0
    is_preemptible: bool = False
    size: int = 1
    """The number of stock units: all of them or none."""


def wanted_by(unit: GpuUnit) -> Wanted:
    """Return the stock that the start of an existing unit requires.

    The current limit of the tenant applies to its priority.
    """
    most = unit.tenant.max_priority if unit.tenant else 0
    return Wanted(
        unit.spec_name,
        resource_name=unit.resource_name,
        image=unit.image,
        priority=min(unit.priority, most),
        is_preemptible=unit.is_preemptible,
    )


@dataclass(frozen=True, slots=True)
class Claimed:
    """The result of a claim."""

    stock: GpuUnit | None
    waiting: int = 0
    """If nothing was claimed, the number of open requests of the GPU spec."""
    left: int = 0
    """The number of stock units that these requests left, if the order was determined."""


class _TurnRequired(Exception):
    """Stock is free and requests are open, so that the order decides about the stock."""

    def __init__(self, spec_name: str) -> None:
        super().__init__(spec_name)
        self.spec_name = spec_name


Claim = Callable[[Operation, Wanted], Claimed]
"""Claims stock for an operation, if the queue leaves some."""


def turn_of(spec_name: str) -> str:
    """Return the key of the turn of a GPU spec."""
    return f"CapacityQueue/{spec_name}"


def accept_group_in_line(
    request: Request, spec_name: str, prepare: Callable[[Operation, Claim], int]
) -> Accepted:
    """Accept a request whose operation needs several stock units of a GPU spec.

    It always takes the turn of the GPU spec: otherwise, two groups could both be rejected.
    """
    turn = turn_of(spec_name)
    return operation_accept(request, prepare=lambda one: prepare(one, claim_in_turn), turn=turn)


def accept_in_line(
    request: Request, prepare: Callable[[Operation, Claim], int], *, spec_name: str = ""
) -> Accepted:
    """Accept a request whose operation needs stock.

    `prepare` writes the row of the object, claims stock with the passed function, and returns the
    id of the row. It is called again with the turn of the GPU spec if the order of the queue has
    to decide (rule `turnfirst`: the turn is taken before any row). If that has happened recently
    to the GPU spec of `spec_name`, the first call has the turn already.
    """
    if _CONTENDED_UNTIL.get(spec_name, 0.0) < time.monotonic():
        try:
            return operation_accept(request, prepare=lambda one: prepare(one, _claim_without_turn))
        except _TurnRequired as required:
            spec_name = required.spec_name
            _CONTENDED_UNTIL[spec_name] = time.monotonic() + CONTENDED_SECONDS
    turn = turn_of(spec_name)
    return operation_accept(request, prepare=lambda one: prepare(one, claim_in_turn), turn=turn)


@all_rows()
def _claim_without_turn(operation: Operation, wanted: Wanted) -> Claimed:
    """Claim a row that no open request can use (rule `onestatement`).

    Raises:
        _TurnRequired: If a row is free, which open requests can take first.
    """
    lane = Lane(operation.tenant_id, wanted.priority, wanted.is_preemptible)
    # Most claims may take any row, and succeed immediately.
    is_any = not (wanted.stock_name or wanted.resource_name or nodes_with(wanted.image))
    if is_any and (stock := claim_selected(operation, first_unwanted(wanted.spec_name, lane))):
        return Claimed(stock)
    free = _stock(wanted)
    left = unless_wanted(free, wanted.spec_name, lane)
    stock = claim(operation, left, waits=True, image=wanted.image)
    if stock is not None:
        return Claimed(stock)
    if free.exists():
        raise _TurnRequired(wanted.spec_name)
    return Claimed(None, requests_open(wanted.spec_name).count())


@all_rows()
def claim_in_turn(operation: Operation, wanted: Wanted) -> Claimed:
    """Claim rows that the order leaves after all grants and holds (rule `lastinline`).

    The transaction must have the turn of the GPU spec.
    """
    queue = spec_queue(wanted.spec_name, tenant=operation.tenant_id, depth=None)
    free = _stock(wanted)
    last = QueueRequest(
        number=_LAST,
        tenant=operation.tenant_id,
        size=wanted.size,
        gpus=wanted.size * queue.gpus,
        priority=wanted.priority,
        is_preemptible=wanted.is_preemptible,
    )
    left = queue.left_over(last)
    stock = None
    if len(left) >= wanted.size:
        rows = queue.restricted(free, left, last)
        stock = claim_all(operation, rows, wanted.size, waits=True, image=wanted.image)
    waiting = 0 if stock else requests_open(wanted.spec_name).count()
    return Claimed(stock, waiting, len(left))


def claim_within(
    quota: GpuQuota, claim: Claim, operation: Operation, wanted: Wanted, gpus: int
) -> Claimed:
    """Claim stock with `claim`, if the limits of the tenant allow `gpus` GPUs now.

    Raises:
        QuotaExceeded: If the claimed stock has more GPUs, and the limits do not allow them.
    """
    if not quota.allows(gpus):
        return Claimed(None)
    claimed = claim(operation, wanted)
    if claimed.stock is not None and quota.limits:
        quota.check(claimed_gpus(operation))
    return claimed


def _stock(wanted: Wanted) -> QuerySet[GpuUnit]:
    return claimable_stock(
        wanted.spec_name, stock_name=wanted.stock_name, resource_name=wanted.resource_name
    )


def request_open(
    operation: Operation,
    unit: GpuUnit,
    wanted: Wanted,
    duration: timedelta,
    *,
    is_limited: bool,
    is_after_preemption: bool = False,
) -> CapacityRequest:
    """Open a request for an operation without stock, which ends after `duration`.

    Args:
        operation: The open operation, which can have a request whose stock was deleted.
        unit: The row of its unit.
        wanted: The required stock.
        duration: The duration of a new request. An earlier one keeps its end.
        is_limited: Whether the request is rejected if too many requests are open.
        is_after_preemption: Whether the unit was stopped for another request.

    Raises:
        QueueFull: If too many requests of the GPU spec are open, or too many of the tenant.
    """
    if is_limited:
        _check_queue_length(operation.tenant, wanted.spec_name)
    request, is_new = CapacityRequest.objects.get_or_create(
        operation=operation,
        defaults={
            "tenant_id": operation.tenant_id,
            "unit": unit,
            "spec_name": wanted.spec_name,
            "resource_name": wanted.resource_name,
            "count": wanted.size,
            "priority": wanted.priority,
            "is_preemptible": wanted.is_preemptible,
            "is_after_preemption": is_after_preemption,
            "requested_at": operation.created_at,
            "expires_at": clock.now() + duration,
        },
    )
    rows = CapacityRequest.objects.filter(pk=request.pk)
    if is_new:
        rows.update(ahead=(position_of(request) or 1) - 1)
    else:
        # The age and the number do not change, so that the request has its place again.
        transition(
            rows, REQUEST_TRANSITIONS, RequestPhase.OPEN, count=wanted.size, granted_at=None
        )
    if unit.gpu and not unit.uid:
        # Its stock was deleted: until the next grant, the GPUs of the unit do not count.
        GpuUnit.objects.filter(pk=unit.pk, uid="").update(gpu=0)
    reason = UnitReason.PREEMPTED if is_after_preemption else UnitReason.WAITING_FOR_CAPACITY
    waiting = _waiting_units(operation, unit)
    changed = [GpuUnit(pk=pk, phase=UnitPhase.PENDING, reason=reason) for pk in waiting]
    append_history(changed, operation)
    hint_matcher(wanted.spec_name)
    return request


@all_rows()
def _check_queue_length(tenant: Tenant, spec_name: str) -> None:
    """Check that one more request can wait.

    Raises:
        QueueFull: If too many requests of the GPU spec are open, or too many of the tenant.
    """
    waiting = requests_open(spec_name)
    limits = (
        (waiting.filter(tenant=tenant), MAX_OPEN_REQUESTS_OF_TENANT, f" of tenant '{tenant}'"),
        (waiting, MAX_OPEN_REQUESTS, ""),
    )
    for requests, most, whose in limits:
        number = requests.count()
        if number >= most:
            details = [FieldError("wait", f"{number} requests{whose} wait, at most {most} can.")]
            msg = (
                f"The maximum of {most} requests{whose} waits for stock of the GPU spec"
                f" '{spec_name}'. Try again later."
            )
            raise QueueFull(msg, waiting=number, details=details)


@all_rows()
def check_possible(wanted: Wanted, size_field: str) -> None:
    """Check that the nodes could provide the stock of a request if they were empty.

    It is called if the request gets no stock now: existing stock can be granted in any case.
    `size_field` is the field of the request that determines what it needs.

    Raises:
        CapacityExceeded: If the request needs more, so that waiting does not help.
    """
    most = units_possible(wanted.spec_name)
    if most is not None and most < wanted.size:
        units = "1 unit" if wanted.size == 1 else f"{wanted.size} units"
        msg = (
            f"The request needs {units} of the GPU spec '{wanted.spec_name}', and its nodes can"
            f" have at most {most}, even if they are empty. Reduce the request, or ask an"
            " operator to add nodes."
        )
        details = [FieldError(size_field, f"{wanted.size} needed, at most {most} possible.")]
        raise CapacityExceeded(msg, details=details)


def _waiting_units(operation: Operation, unit: GpuUnit) -> list[int]:
    """Return the ids of the units that wait: all that the operation has to create, or `unit`."""
    group = operation.gpu_units.filter(uid="", deleted_at__isnull=True).order_by("id")
    return list(group.values_list("pk", flat=True)) or [unit.pk]


def requests_close(requests: QuerySet[CapacityRequest]) -> None:
    """Close the requests of operations that end (rule `endcloses`)."""
    alive = requests.exclude(phase=RequestPhase.CLOSED)
    found = list(alive.values_list("id", "spec_name", "phase", "hold_begun_at", "hold_times"))
    if not found:
        return
    numbers = [number for number, *_ in found]
    alive = CapacityRequest.objects.filter(pk__in=numbers)
    transition(alive, REQUEST_TRANSITIONS, RequestPhase.CLOSED, hold_begun_at=None)
    for _, spec_name, phase, hold, times in found:
        if hold is not None:
            # As long as after the end of the hold: a cancellation must not shorten the pause.
            with all_rows():
                holds_pause(spec_name, hold_seconds(times))
        if phase == RequestPhase.OPEN:
            hint_matcher(spec_name)


def earlier_operations(request: Operation, kinds: Collection[str]) -> list[int]:
    """Lock the earlier open operations of some kinds on the object of `request`; return their ids.

    All of them are locked, not only those that wait: an operation whose worker opens a request
    concurrently is either seen by `supersede`, or sees `request` as a later operation.
    """
    earlier = Operation.objects.filter(
        object_kind=request.object_kind,
        object_namespace=request.object_namespace,
        object_name=request.object_name,
        kind__in=kinds,
        id__lt=request.pk,
        phase__in=OPEN_PHASES,
    )
    locked = earlier.order_by("id").select_for_update(of=("self",), no_key=True)
    return list(locked.values_list("id", flat=True))


def supersede(operations: Collection[int]) -> None:
    """Close the open requests of locked operations that a stop or a deletion replaces.

    Operations on an object run in the order of their acceptance. Otherwise, the new operation
    would wait until the request expires. The earlier operations end when a worker executes them.
    """
    if not operations:
        return
    waiting = CapacityRequest.objects.filter(OPEN, operation__in=operations)
    numbers = list(waiting.values_list("operation_id", flat=True))
    if numbers:
        requests_close(waiting)
        _mark_due(numbers)


def _mark_due(operation_ids: Collection[int]) -> None:
    """Mark open operations due, and enqueue them after the commit."""
    Operation.objects.filter(pk__in=operation_ids, phase__in=OPEN_PHASES).update(due_at=Now())
    for operation_id in operation_ids:
        enqueue_after_commit(OperationTask.RUN, operation_id, queue=Queue.OPERATIONS)
