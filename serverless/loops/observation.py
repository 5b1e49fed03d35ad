"""Reads the rows that the activator plans from: functions, workers, open invocations.

The number of queries does not depend on the number of functions.
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
    # An operator stopped the unit: it does not serve any more.
    UnitPhase.STOPPED: WorkerState.FAILED,
}
_RECENT: Final = timedelta(seconds=60)
"""Age up to which a failed start is read: each is counted once."""

_Key = tuple[int | None, int]
"""Ids of a tenant and a function."""


@dataclass(slots=True)
class OpenInvocations:
    """Counts of the open invocations of one function, from their rows."""

    total: int = 0
    unpublished: int = 0
    running: Counter[str] = field(default_factory=Counter)
    """By the name of the worker that started them last."""


@dataclass(frozen=True, slots=True)
class FunctionObservation:
    """A function with its workers and the counts of its open invocations."""

    function: Function
    units: int
    """Number of its workers that are GPU units."""
    workers: Sequence[Worker]
    """Those, and starts that failed before there was a unit."""
    open: OpenInvocations

    def view(self) -> FunctionView:
        """Return the limits and the last status of the function.

        Raises:
            InvalidSpec: its spec breaks a rule of this release.
        """
        function, spec = self.function, self.function.parsed_spec
        newest = getattr(function, "newest_at", None)
        times = (function.last_active_at, newest, function.created_at)
        return FunctionView(
            generation=function.generation,
            min_workers=spec.min_workers,
            max_workers=spec.max_workers,
            concurrency=spec.concurrency,
            idle_timeout_seconds=spec.idle_timeout_seconds,
            last_active_at=max(time for time in times if time is not None),
            is_ending=function.deletion_requested_at is not None,
            start_failures=function.start_failures,
            starts_after=function.starts_after,
            phase=function.phase,
            reason=function.reason,
            message=function.message,
            cause=function.cause,
            since=function.phase_since,
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """All functions, at one time."""

    functions: Sequence[FunctionObservation]
    """Functions that are created, including those that are being deleted."""
    orphans: Sequence[GpuUnit]
    """Workers of functions without a row: the database was restored from an older backup."""


def observe() -> Observation:
    """Return every function with its workers, and the workers without a function."""
    units, opened, failed = _units(), _open_invocations(), _failed_starts()
    functions = [
        _observation(
            function,
            units.get((function.tenant_id, function.pk), ()),
            opened.get(function.pk, OpenInvocations()),
            failed.get((function.tenant_id, function.pk), ()),
        )
        for function in _functions()
    ]
    keys = {(one.function.tenant_id, one.function.pk) for one in functions}
    return Observation(functions, _orphans({key: units[key] for key in units.keys() - keys}))


def _orphans(units: Mapping[_Key, Sequence[GpuUnit]]) -> list[GpuUnit]:
    """Return those of the units whose function does not exist, not even as a creation."""
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
    """Return the rows; `newest_at` is the last change of the newest invocation."""
    rows = functions_live().filter(
        Q(operation__phase=OperationPhase.SUCCEEDED) | Q(deletion_requested_at__isnull=False)
    )
    newest = Invocation.objects.filter(function=OuterRef("pk")).order_by("-id")
    at = newest.values(at=Greatest("accepted_at", "completed_at"))[:1]
    return list(rows.annotate(newest_at=Subquery(at)))


def _observation(
    function: Function,
    units: Sequence[GpuUnit],
    opened: OpenInvocations,
    failed: Sequence[Operation],
) -> FunctionObservation:
    since = function.observed_at or function.created_at
    failed_starts = [
        Worker(
            row.object_name,
            WorkerState.FAILED,
            generation_of(row.object_name),
            message=row.error_message,
        )
        for row in failed
        if row.ended_at and row.ended_at > since
    ]
    workers = [_worker(unit, opened) for unit in units]
    return FunctionObservation(function, len(units), [*workers, *failed_starts], opened)


def _worker(unit: GpuUnit, opened: OpenInvocations) -> Worker:
    is_ending = unit.deletion_requested_at is not None
    return Worker(
        name=unit.name,
        state=WorkerState.DRAINING if is_ending else _STATES[unit.phase],
        generation=_generation(unit),
        in_work=opened.running[unit.name],
        message=unit.message,
        cause=unit.cause,
    )


def _generation(unit: GpuUnit) -> int:
    """Return the generation of a worker; 0, which no function has, if its queue has moved.

    Such a worker connects to an address where no queue is, so it has to be replaced.
    """
    queue_url = unit.spec["serverless"].get("queueURL", settings.NATS_URL)
    return generation_of(unit.name) if queue_url == settings.NATS_URL else 0


def _units() -> Mapping[_Key, list[GpuUnit]]:
    """Return all workers, by tenant and function."""
    found: dict[_Key, list[GpuUnit]] = defaultdict(list)
    for unit in all_workers():
        found[unit.tenant_id, function_of(unit.name)].append(unit)
    return found


def _open_invocations() -> Mapping[int, OpenInvocations]:
    is_unpublished = ExpressionWrapper(Q(published_at__isnull=True), output_field=BooleanField())
    groups = (
        Invocation.objects.filter(OPEN, function__deleted_at__isnull=True)
        .annotate(is_unpublished=is_unpublished)
        .order_by()
        .values_list("function_id", "state", "worker", "is_unpublished")
        .annotate(number=Count("pk"))
    )
    found: dict[int, OpenInvocations] = defaultdict(OpenInvocations)
    for function, state, worker, unpublished, number in groups:
        opened = found[function]
        opened.total += number
        if unpublished:
            opened.unpublished += number
        if state == InvocationState.RUNNING:
            opened.running[worker] += number
    return found


def _failed_starts() -> Mapping[_Key, list[Operation]]:
    """Return recent operations that failed to create a worker, so that it has no unit."""
    found: dict[_Key, list[Operation]] = defaultdict(list)
    rows = Operation.objects.filter(
        ended_at__gt=Now() - _RECENT,
        kind=UnitOperation.CREATE,
        phase=OperationPhase.FAILED,
        object_name__startswith="fn-",
    )
    for row in rows:
        found[row.tenant_id, function_of(row.object_name)].append(row)
    return found
