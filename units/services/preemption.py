"""Stops preemptible units for a waiting request that cannot be served otherwise.

The matcher gives a notice to the units that `units.core.preemption` selects. At the end of the
notice, one transaction checks again that the request needs their GPUs, accepts the stop of each
unit and a start that waits in the queue, and marks the request, for which no other units are ever
stopped (rules `evictmark` and `regrant`). If the process is killed in between, the next run
continues. A notice is void when its request is not open.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import RequestError
from gpuplatform.locks import take_turn
from gpuplatform.metrics.declared import PREEMPTIONS
from gpuplatform.metrics.recorder import count
from gpuplatform.operations.automatic import automatic_id
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.services import Request, operation_accept, take_turn_of_object
from gpuplatform.queueing import Queue, enqueue_after_commit
from gpuplatform.workloads.causes import UNPLACED
from inventory.models import GpuSpec
from inventory.services.catalogue import holds_resume
from units.core.preemption import PreemptibleUnit, Supply, preemptor, victims
from units.core.queue import QueueRequest
from units.history import append_history
from units.models import (
    PREEMPTIBLE,
    RELEASED,
    WITHHELD,
    CapacityRequest,
    GpuUnit,
    PreemptionNotice,
)
from units.phases import RequestPhase, UnitPhase, UnitReason, UnitRole
from units.queue_tenants import queue_tenants
from units.services.names import UNIT_KIND, UnitOperation, UnitTask
from units.services.obstacles import is_top_up_stopped, top_up_obstacle
from units.services.queue import request_open, turn_of, wanted_by
from units.waiting import MATCH_TASK, OPEN, spec_queue
from units.waiting_units import preemption_text

RESTART_WAIT: Final = timedelta(days=7)
"""Time for which a stopped unit waits for stock."""


class _NotEligible(Exception):
    """A unit cannot be stopped now, so that nothing is accepted."""


def preempt(spec: GpuSpec, *, may_notify: bool) -> None:
    """Stop the units whose notice has ended, and give notices for the first request of a GPU spec.

    `may_notify` is whether the platform cannot seed stock for the request.
    """
    if not _preemptible_live(spec.name).exists():
        return
    notices = PreemptionNotice.objects.filter(request__spec_name=spec.name)
    notices.exclude(request__phase=RequestPhase.OPEN).delete()
    if is_top_up_stopped(spec):
        withdraw_notices(spec.name)
        return  # The request waits for an operator.
    if top_up_obstacle(spec):
        return  # Stock may come.
    due = notices.filter(stops_at__lte=Now()).order_by("request")
    for request_id in due.values_list("request", flat=True).distinct():
        try:
            stopped, kept = _end_notice(spec.name, request_id)
        except (_NotEligible, RequestError):
            continue  # A unit changed concurrently. The next run decides again.
        _count("stopped", stopped)
        _count("kept", kept)
    if may_notify:
        _count("notified", _give_notice(spec.name))


def withdraw_notices(spec_name: str) -> None:
    """Withdraw the notices of a GPU spec for which no units are stopped now.

    Otherwise, the owners would see the time of a stop that has passed. If units are to be stopped
    later, their owners get a new notice.
    """
    notices = PreemptionNotice.objects.filter(request__spec_name=spec_name)
    if notices.exists():
        with transaction.atomic():
            take_turn(turn_of(spec_name))  # A stop that has begun is completed first.
            withdrawn, _ = notices.delete()
        _count("kept", withdrawn)


def _count(outcome: str, units: int) -> None:
    for _ in range(units):
        count(PREEMPTIONS, outcome=outcome)


def _give_notice(spec_name: str) -> int:
    """Give a notice to the units to stop for the first request; return their number."""
    with transaction.atomic():
        take_turn(turn_of(spec_name))
        head = _head(spec_name)
        if head is None or PreemptionNotice.objects.filter(request=head.number).exists():
            return 0
        chosen = _chosen(spec_name, head, _eligible(spec_name))
        if not chosen or not _lock_request(head.number):
            return 0
        units = _eligible(spec_name).filter(pk__in=chosen).order_by("pk")
        rows = list(units.select_for_update(of=("self",), no_key=True))
        if len(rows) < len(chosen):
            return 0  # A unit changed after it was read.
        seconds = settings.PREEMPTION_NOTICE_SECONDS
        stops_at = clock.now() + timedelta(seconds=seconds)
        PreemptionNotice.objects.bulk_create(
            PreemptionNotice(unit=row, request_id=head.number, stops_at=stops_at) for row in rows
        )
        for row in rows:
            row.reason, row.message = UnitReason.PREEMPTION_NOTICE, preemption_text(stops_at)
        append_history(rows, None)
        enqueue_after_commit(UnitTask.ANNOUNCE_PREEMPTIONS, head.number, queue=Queue.PERIODIC)
        enqueue_after_commit(
            MATCH_TASK, head.number, queue=Queue.OPERATIONS, countdown=float(seconds)
        )
        return len(rows)


def _end_notice(spec_name: str, request_id: int) -> tuple[int, int]:
    """Stop the units with a notice for a request, or withdraw the notices if they are not needed.

    Returns:
        The numbers of the units that were stopped and that were kept.

    Raises:
        _NotEligible: If a unit changed after it was read.
        RequestError: If an operation is rejected.
    """
    notices = PreemptionNotice.objects.filter(request=request_id)
    named = GpuUnit.objects.filter(preemption_notice__in=notices).order_by("pk")
    with transaction.atomic():
        for namespace, name in sorted(named.values_list("namespace", "name")):
            take_turn_of_object(UNIT_KIND, namespace, name)
        take_turn(turn_of(spec_name))
        head = _head(spec_name)
        chosen: tuple[int, ...] = ()
        if head is not None and head.number == request_id and _lock_request(request_id):
            noticed = _running(spec_name).filter(preemption_notice__in=notices)
            chosen = _chosen(spec_name, head, noticed)
        for row in _running(spec_name).filter(pk__in=chosen).order_by("pk"):
            _stop_and_wait(row, request_id)
        if chosen:
            _mark(spec_name, request_id)
        ended, _ = notices.delete()
        return len(chosen), ended - len(chosen)


def _head(spec_name: str) -> QueueRequest | None:
    """Return the request for which units can be stopped, unless it has stopped some already."""
    queue = spec_queue(spec_name)
    if queue.next_grant().request is not None:
        return None  # The matcher grants stock first.
    evicted = CapacityRequest.objects.filter(OPEN, spec_name=spec_name, evicted_at__isnull=False)
    numbers = frozenset(evicted.values_list("pk", flat=True))
    return preemptor(queue.requests, queue.tenants, queue.now, numbers)


def _chosen(spec_name: str, head: QueueRequest, units: QuerySet[GpuUnit]) -> tuple[int, ...]:
    """Return the ids of the units to stop for a request."""
    wanted = CapacityRequest.objects.values_list("resource_name", flat=True).get(pk=head.number)
    usable = Q(resource_name=wanted) if wanted else Q()
    found = _preemptible(units.filter(usable))
    tenants = queue_tenants({one.tenant for one in found}, spec_name)
    return victims(head, _supply(spec_name, head, usable), found, tenants)


def _preemptible(units: QuerySet[GpuUnit]) -> Sequence[PreemptibleUnit]:
    sources = GpuUnit.objects.filter(role=UnitRole.STOCK, uid=OuterRef("source_uid"))
    started = units.annotate(started_at=Subquery(sources.values("consumed_at")[:1]))
    rows = started.values_list("pk", "tenant_id", "gpu", "started_at")
    return [
        PreemptibleUnit(pk, tenant, gpu, at.timestamp() if at else 0.0)
        for pk, tenant, gpu, at in rows
    ]


def _supply(spec_name: str, head: QueueRequest, usable: Q) -> Supply:
    """Return the stock that a request gets without a preemption: of the rows that it can use."""
    free = spec_queue(spec_name).free
    number = len(free) if head.fits is None else len(head.fits)
    rows = GpuUnit.objects.filter(usable, spec_name=spec_name, deleted_at__isnull=True)
    is_held = Q(phase__in=(UnitPhase.READY, UnitPhase.FAILED), deletion_requested_at__isnull=True)
    starting = rows.filter(role=UnitRole.STOCK, claimed_by__isnull=True, consumed_by="")
    starting = starting.exclude(is_held | WITHHELD | Q(cause__in=UNPLACED))
    is_ending = (
        Q(is_suspended=True)
        | Q(deletion_requested_at__isnull=False)
        | Exists(_ending_operations())
    )
    releasing = rows.filter(is_ending, role=UnitRole.ACTIVE).exclude(RELEASED)
    return Supply(number, starting.count() + releasing.count())


def _preemptible_live(spec_name: str) -> QuerySet[GpuUnit]:
    return GpuUnit.objects.filter(PREEMPTIBLE, spec_name=spec_name)


def _running(spec_name: str) -> QuerySet[GpuUnit]:
    """Return the preemptible units of a GPU spec that hold GPUs and have no open operation."""
    running = _preemptible_live(spec_name).filter(
        role=UnitRole.ACTIVE,
        is_suspended=False,
        tenant__isnull=False,
        deletion_requested_at__isnull=True,
    )
    return (
        running.exclude(RELEASED)
        .exclude(Q(uid="") | Q(source_uid=""))
        .filter(~Exists(_open_operations()))
    )


def _eligible(spec_name: str) -> QuerySet[GpuUnit]:
    """Return the running preemptible units of a GPU spec without a notice."""
    notices = PreemptionNotice.objects.filter(unit=OuterRef("pk"))
    return _running(spec_name).filter(~Exists(notices))


def _open_operations() -> QuerySet[Operation]:
    """Return the open operations on the outer unit."""
    return Operation.objects.filter(
        object_kind=UNIT_KIND,
        object_namespace=OuterRef("namespace"),
        object_name=OuterRef("name"),
        phase__in=OPEN_PHASES,
    )


def _ending_operations() -> QuerySet[Operation]:
    """Return the open operations that stop or delete the outer unit."""
    return _open_operations().filter(kind__in=(UnitOperation.STOP, UnitOperation.DELETE))


def _lock_request(request_id: int) -> bool:
    """Lock the operation of a request; return whether units can be stopped for the request."""
    operations = Operation.objects.filter(
        capacity_request=request_id, phase__in=OPEN_PHASES, cancelled_by__isnull=True
    )
    if not operations.select_for_update(of=("self",), no_key=True).values_list("pk"):
        return False
    waiting = CapacityRequest.objects.filter(OPEN, pk=request_id, evicted_at__isnull=True)
    return waiting.filter(expires_at__gt=Now()).exists()


def _stop_and_wait(row: GpuUnit, request_id: int) -> None:
    """Accept the stop of a unit, and its start, which waits in the queue (rule `regrant`).

    Raises:
        _NotEligible: If the unit has no tenant, is stopped or is being deleted.
        RequestError: If an operation is rejected.
    """
    if row.tenant is None:
        raise _NotEligible
    place = (UNIT_KIND, row.namespace, row.name)

    def stop(_: Operation) -> int:
        locked = GpuUnit.objects.filter(pk=row.pk, deletion_requested_at__isnull=True)
        found = locked.select_for_update(of=("self",)).values_list("is_suspended", flat=True)
        if list(found) != [False]:
            raise _NotEligible
        return row.pk

    def start(operation: Operation) -> int:
        wanted = wanted_by(row)
        request_open(
            operation, row, wanted, RESTART_WAIT, is_limited=False, is_after_preemption=True
        )
        return row.pk

    for kind, prepare in ((UnitOperation.STOP, stop), (UnitOperation.START, start)):
        operation_id = automatic_id("preempt", row.pk, request_id, kind.rpartition(".")[2])
        request = Request(row.tenant, operation_id, kind, *place)
        operation_accept(request, prepare=prepare)


def _mark(spec_name: str, request_id: int) -> None:
    """Mark the request, and begin a new hold for it (rules `evictmark` and `evicthold`)."""
    has_free = bool(spec_queue(spec_name).free)
    CapacityRequest.objects.filter(OPEN, pk=request_id).update(
        evicted_at=Now(), hold_begun_at=Now() if has_free else None
    )
    holds_resume(spec_name)
