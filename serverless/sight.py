"""What the activator reads of the rows: functions, their workers, and what is open.

A handful of queries whatever the number of functions.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db.models import BooleanField, Count, ExpressionWrapper, OuterRef, Q, Subquery
from django.db.models.functions import Greatest, Now

from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from serverless.core.scaling import FunctionView, Worker, WorkerState
from serverless.core.spec import FunctionSpec
from serverless.core.workers import function_of, generation_of
from serverless.models import OPEN, Function, Invocation
from serverless.phases import InvocationState
from serverless.selectors import all_workers, functions_live
from units.models import GpuUnit
from units.phases import UnitPhase
from units.services.names import UnitOperation

_STATES: Final[Mapping[str, WorkerState]] = {
    UnitPhase.PENDING: WorkerState.STARTING,
    UnitPhase.PROGRESSING: WorkerState.STARTING,
    UnitPhase.READY: WorkerState.READY,
    UnitPhase.TERMINATING: WorkerState.DRAINING,
    UnitPhase.FAILED: WorkerState.FAILED,
    # Somebody stopped the unit by hand; it does nothing any more.
    UnitPhase.STOPPED: WorkerState.FAILED,
}
_RECENT: Final = timedelta(seconds=60)
"""Older refusals of a start say nothing about the next one."""


@dataclass(slots=True)
class Open:
    """The open invocations of one function, as its rows have them."""

    total: int = 0
    unpublished: int = 0
    running: Counter[str] = field(default_factory=Counter)
    """By the worker that began last."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A function with everything that the rows know of it."""

    function: Function
    units: int
    """Its workers in the cluster or on their way there."""
    workers: Sequence[Worker]
    """Those, and the starts that were refused."""
    open: Open

    def view(self) -> FunctionView:
        """Return what is wanted of it.

        Raises:
            InvalidSpec: its spec breaks a rule of this release.
        """
        return _view(self.function)


@dataclass(frozen=True, slots=True)
class Sight:
    """Everything at one look."""

    functions: Sequence[Seen]
    """Those that are made, and those that are being deleted."""
    orphans: Sequence[GpuUnit]
    """Workers of functions that there are not: the database was restored without them."""


def look_at_all() -> Sight:
    """Return every function with its workers, and the workers without one."""
    units, opened, refused = _units(), _open_invocations(), _refused()
    functions = [
        _seen(
            function,
            units.get((function.tenant_id, function.pk), ()),
            opened.get(function.pk, Open()),
            refused.get((function.tenant_id, function.pk), ()),
        )
        for function in _functions()
    ]
    seen = {(one.function.tenant_id, one.function.pk) for one in functions}
    return Sight(functions, _orphans({key: units[key] for key in units.keys() - seen}))


def _orphans(units: Mapping[tuple[int | None, int], Sequence[GpuUnit]]) -> list[GpuUnit]:
    """Return those of the units whose function is not even about to be made."""
    if not units:
        return []
    live = set(functions_live().values_list("tenant_id", "pk"))
    return [
        unit
        for (tenant, function), found in units.items()
        if function and tenant and (tenant, function) not in live
        for unit in found
        if unit.deletion_requested_at is None
    ]


def _functions() -> list[Function]:
    """Return the rows; `newest_at` is the last news of the newest invocation."""
    rows = functions_live().filter(
        Q(operation__phase=OperationPhase.SUCCEEDED) | Q(deletion_requested_at__isnull=False)
    )
    newest = Invocation.objects.filter(function=OuterRef("pk")).order_by("-id")
    at = newest.values(at=Greatest("accepted_at", "completed_at"))[:1]
    return list(rows.annotate(newest_at=Subquery(at)))


def _seen(
    function: Function, units: Sequence[GpuUnit], opened: Open, refused: Sequence[Operation]
) -> Seen:
    since = function.observed_at or function.created_at
    failed_starts = [
        Worker(
            row.object_name,
            WorkerState.FAILED,
            generation_of(row.object_name),
            message=row.error_message,
        )
        for row in refused
        if row.ended_at and row.ended_at > since
    ]
    workers = [_worker(unit, opened) for unit in units]
    return Seen(function, len(units), [*workers, *failed_starts], opened)


def _view(function: Function) -> FunctionView:
    spec = FunctionSpec.parse(function.spec)
    known = (function.last_active_at, getattr(function, "newest_at", None), function.created_at)
    return FunctionView(
        generation=function.generation,
        min_workers=spec.min_workers,
        max_workers=spec.max_workers,
        concurrency=spec.concurrency,
        idle_timeout_seconds=spec.idle_timeout_seconds,
        last_active_at=max(moment for moment in known if moment is not None),
        is_ending=function.deletion_requested_at is not None,
        start_failures=function.start_failures,
        starts_after=function.starts_after,
        phase=function.phase,
        reason=function.reason,
        message=function.message,
        since=function.phase_since,
    )


def _worker(unit: GpuUnit, opened: Open) -> Worker:
    is_ending = unit.deletion_requested_at is not None
    return Worker(
        name=unit.name,
        state=WorkerState.DRAINING if is_ending else _STATES[unit.phase],
        generation=_generation(unit),
        in_work=opened.running[unit.name],
        message=unit.message,
    )


def _generation(unit: GpuUnit) -> int:
    """Return the generation of a worker; 0, which no function has, if it looks for another queue.

    One that was told where the queue was before it moved finds nothing to do, for ever.
    """
    told = unit.spec["serverless"].get("queueURL", settings.NATS_URL)
    return generation_of(unit.name) if told == settings.NATS_URL else 0


def _units() -> Mapping[tuple[int | None, int], list[GpuUnit]]:
    """Return the workers by tenant and function."""
    found: dict[tuple[int | None, int], list[GpuUnit]] = defaultdict(list)
    for unit in all_workers():
        found[unit.tenant_id, function_of(unit.name)].append(unit)
    return found


def _open_invocations() -> Mapping[int, Open]:
    is_unpublished = ExpressionWrapper(Q(published_at__isnull=True), output_field=BooleanField())
    groups = (
        Invocation.objects.filter(OPEN, function__deleted_at__isnull=True)
        .annotate(is_unpublished=is_unpublished)
        .order_by()
        .values_list("function_id", "state", "worker", "is_unpublished")
        .annotate(number=Count("pk"))
    )
    found: dict[int, Open] = defaultdict(Open)
    for function, state, worker, unpublished, number in groups:
        opened = found[function]
        opened.total += number
        if unpublished:
            opened.unpublished += number
        if state == InvocationState.RUNNING:
            opened.running[worker] += number
    return found


def _refused() -> Mapping[tuple[int | None, int], list[Operation]]:
    """Return the starts that were accepted and refused of late: their units never were."""
    found: dict[tuple[int | None, int], list[Operation]] = defaultdict(list)
    rows = Operation.objects.filter(
        ended_at__gt=Now() - _RECENT,
        kind=UnitOperation.CREATE,
        phase=OperationPhase.FAILED,
        object_name__startswith="fn-",
    )
    for row in rows:
        found[row.tenant_id, function_of(row.object_name)].append(row)
    return found
