"""Reads the rows that the activator needs: functions, their workers and their open invocations.

The number of queries does not depend on the number of functions.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Greatest, Now

from gpuplatform.errors import InsufficientCapacity
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.tenancy.phases import TenantPhase
from serverless.core.rejections import quota_reached, stock_missing
from serverless.core.scaling import (
    FunctionView,
    Worker,
    WorkerState,
)
from serverless.core.workers import function_of, generation_of
from serverless.models import OPEN, OUTBOX, Function, Invocation
from serverless.phases import InvocationState
from serverless.selectors import all_workers, functions_live
from units.models import GpuUnit
from units.phases import UnitPhase
from units.quota_waits import units_barred
from units.services.names import UnitOperation

_STATES: Final[Mapping[str, WorkerState]] = {
    UnitPhase.PENDING: WorkerState.STARTING,
    UnitPhase.PROGRESSING: WorkerState.STARTING,
    UnitPhase.READY: WorkerState.READY,
    UnitPhase.TERMINATING: WorkerState.DRAINING,
    UnitPhase.FAILED: WorkerState.FAILED,
    # An operator stopped the unit, so it no longer serves invocations.
    UnitPhase.STOPPED: WorkerState.FAILED,
    UnitPhase.SUCCEEDED: WorkerState.FAILED,
}
_RECENT: Final = timedelta(seconds=60)
"""Maximum age of a failed start that is read. Each failed start is counted once."""

_Key = tuple[int | None, int]
"""The ids of a tenant and a function."""


@dataclass(slots=True)
class OpenInvocations:
    """Number of open invocations of one function, from their rows."""

    total: int = 0
    unpublished: int = 0
    running: Counter[str] = field(default_factory=Counter)
    """Number of running invocations, by the name of the worker that started them last."""


@dataclass(frozen=True, slots=True)
class FunctionObservation:
    """A function with its workers and the number of its open invocations."""

    function: Function
    units: int
    """Number of workers that are GPU units."""
    workers: Sequence[Worker]
    """The workers that are GPU units, and the starts that failed without creating a unit."""
    open: OpenInvocations

    def view(self) -> FunctionView:
        """Return the limits and the last status of the function.

        Raises:
            InvalidSpec: If the spec violates a rule of this release.
        """
        function, spec = self.function, self.function.limits
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
            is_suspended=function.tenant.phase != TenantPhase.ACTIVE,
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
    """All functions and their workers at one time."""

    functions: Sequence[FunctionObservation]
    """The functions whose creation has succeeded or whose deletion was requested."""
    orphans: Sequence[GpuUnit]
    """The workers whose function has no row, for example after a restore from a backup."""


def observe() -> Observation:
    """Return all functions with their workers, and the workers that have no function."""
    units, opened, failed = _units(), _open_invocations(), _failed_starts()
    barred = units_barred([unit for found in units.values() for unit in found])
    functions = [
        _observation(
            function,
            units.get((function.tenant_id, function.pk), ()),
            opened.get(function.pk, OpenInvocations()),
            failed.get((function.tenant_id, function.pk), ()),
            barred,
        )
        for function in _functions()
    ]
    keys = {(one.function.tenant_id, one.function.pk) for one in functions}
    return Observation(functions, _orphans({key: units[key] for key in units.keys() - keys}))


def _orphans(units: Mapping[_Key, Sequence[GpuUnit]]) -> list[GpuUnit]:
    """Return the workers whose function has no row, not even one that is being created."""
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
    """Return the functions with `newest_at`: the time of the newest invocation's last change."""
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
    barred: Collection[int],
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
    workers = [_worker(unit, opened, is_barred=unit.pk in barred) for unit in units]
    return FunctionObservation(function, len(units), [*workers, *failed_starts], opened)


def _worker(unit: GpuUnit, opened: OpenInvocations, *, is_barred: bool) -> Worker:
    is_waiting = unit.waits_since is not None
    missing = quota_reached if is_barred else stock_missing
    return Worker(
        name=unit.name,
        state=_state(unit),
        generation=_generation(unit),
        in_progress=opened.running[unit.name],
        message=missing(unit.spec_name) if is_waiting else unit.message,
        cause=unit.cause,
        is_barred=is_barred,
    )


def _state(unit: GpuUnit) -> WorkerState:
    if unit.deletion_requested_at is not None:
        return WorkerState.DRAINING
    return _STATES[unit.phase] if unit.waits_since is None else WorkerState.WAITING


def _generation(unit: GpuUnit) -> int:
    """Return the generation of a worker, or 0 if the address of the queue has changed.

    No function has the generation 0, so a worker with the previous address is replaced.
    """
    queue_url = unit.spec["serverless"].get("queueURL", settings.NATS_URL)
    return generation_of(unit.name) if queue_url == settings.NATS_URL else 0


def _units() -> Mapping[_Key, list[GpuUnit]]:
    """Return all workers, grouped by tenant and function."""
    found: dict[_Key, list[GpuUnit]] = defaultdict(list)
    for unit in all_workers():
        found[unit.tenant_id, function_of(unit.name)].append(unit)
    return found


def _open_invocations() -> Mapping[int, OpenInvocations]:
    groups = (
        Invocation.objects.filter(OPEN, function__deleted_at__isnull=True)
        .order_by()
        .values_list("function_id", "state", "worker")
        .annotate(number=Count("pk"), unpublished=Count("pk", filter=OUTBOX))
    )
    found: dict[int, OpenInvocations] = defaultdict(OpenInvocations)
    for function, state, worker, number, unpublished in groups:
        opened = found[function]
        opened.total += number
        opened.unpublished += unpublished
        if state == InvocationState.RUNNING:
            opened.running[worker] += number
    return found


def _failed_starts() -> Mapping[_Key, list[Operation]]:
    """Return the recent operations that failed to create a worker, by tenant and function."""
    found: dict[_Key, list[Operation]] = defaultdict(list)
    rows = Operation.objects.filter(
        ended_at__gt=Now() - _RECENT,
        kind=UnitOperation.CREATE,
        phase=OperationPhase.FAILED,
        object_name__startswith="fn-",
    ).exclude(error_code=InsufficientCapacity.code)  # A lack of stock does not count.
    for row in rows:
        found[row.tenant_id, function_of(row.object_name)].append(row)
    return found
