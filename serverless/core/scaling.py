"""Plans the workers and the status of a function. Pure.

While the queue is unavailable, no worker is started or stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from gpuplatform.planning.backoff import backoff_seconds
from serverless.phases import FunctionPhase, FunctionReason
from serverless.queue.values import Backlog

MAX_STARTS: Final = 10
"""Maximum number of workers of one function that one plan starts."""

MAX_BACKOFF_AFTER_FAILURES: Final = 300.0
"""Maximum delay in seconds after failed starts."""

CAPACITY_GRACE: Final = timedelta(minutes=1)
"""Time after which a lack of stock is a failure. Stock that is starting is ready sooner."""


class WorkerState(StrEnum):
    """The states of a worker."""

    WAITING = "waiting"
    """The worker waits for stock."""
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    """The worker finishes the invocations in progress, fetches no others, and then stops."""
    FAILED = "failed"


_STOP_ORDER: Final = (WorkerState.WAITING, WorkerState.STARTING, WorkerState.READY)
"""The states of workers that count as capacity, in the order in which surplus is stopped."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker of a function."""

    name: str
    state: WorkerState
    generation: int
    """The generation of the function's spec with which the worker was started."""
    in_progress: int = 0
    """Number of invocations that the worker has started and not ended, by its reports."""
    message: str = ""
    """The reason why the worker failed."""
    cause: str = ""
    """The `StartupCause` of the failure."""
    is_barred: bool = False
    """Whether the worker waits because the tenant has reached a limit."""


@dataclass(frozen=True, slots=True)
class Demand(Backlog):
    """Number of open invocations of a function: in the queue, and not yet published."""

    unpublished: int = 0
    """Number of accepted invocations that are not in the queue yet."""
    peak: int | None = None
    """Maximum number of workers needed in the last idle timeout, or `None` if unknown."""

    @property
    def waiting(self) -> int:
        """Number of invocations that need a worker.

        It is not the sum, because a recently published invocation can be counted in both.
        """
        return max(self.pending + self.in_progress, self.unpublished)

    @property
    def is_empty(self) -> bool:
        """Whether no invocation is open."""
        return not self.waiting and not self.exhausted


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionView:
    """The limits of a function in its spec, and its last recorded status."""

    generation: int
    min_workers: int
    max_workers: int
    concurrency: int
    idle_timeout_seconds: int
    last_active_at: datetime
    is_ending: bool = False
    is_suspended: bool = False
    """Whether the tenant of the function may have no workers."""
    start_failures: int = 0
    starts_after: datetime | None = None
    phase: str = FunctionPhase.PENDING
    reason: str = ""
    message: str = ""
    cause: str = ""
    since: datetime | None = None
    """Time at which the phase or the reason last changed."""

    @property
    def cannot_start(self) -> bool:
        """Whether the last start of a worker failed and no worker has been ready since."""
        return bool(self.start_failures) and self.reason == FunctionReason.WORKER_FAILED


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a function."""

    phase: FunctionPhase
    reason: FunctionReason
    message: str
    cause: str = ""
    """The `StartupCause` of a failed worker."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Number of consecutive failed starts, and the earliest time of the next start."""

    failures: int = 0
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The workers to start and stop, and the status of the function."""

    status: Status | None
    """The new status, or `None` if the recorded status is kept."""
    backoff: Backoff
    start: int = 0
    """Number of workers to start."""
    stop: tuple[str, ...] = ()
    """Names of workers to stop."""


def workers_needed(function: FunctionView, demand: Demand) -> int:
    """Return the number of workers for the open invocations, within the function's limits."""
    by_demand = -(-demand.waiting // function.concurrency)
    return max(function.min_workers, min(function.max_workers, by_demand))


def plan_workers(
    function: FunctionView, demand: Demand | None, workers: Sequence[Worker], now: datetime
) -> Plan:
    """Return the workers to start and stop, and the status of the function.

    Args:
        function: The limits and the last status of the function.
        demand: The open invocations, or `None` if the queue is unavailable.
        workers: All workers of the function, in any state.
        now: The current time.
    """
    backoff = Backoff(function.start_failures, function.starts_after)
    if function.is_ending or function.is_suspended:
        # Draining workers stop when they have finished their invocations.
        live = tuple(one.name for one in workers if one.state != WorkerState.DRAINING)
        return Plan(None if function.is_ending else _suspended(), backoff, stop=live)
    if demand is None:
        return Plan(None if function.phase == FunctionPhase.FAILED else _unknown(), backoff)
    needed = workers_needed(function, demand)
    backoff = _after_failures(function, needed, workers, now)
    is_allowed = backoff.until is None or now >= backoff.until
    start = _starts(function, needed, workers) if is_allowed else 0
    status = _status(function, demand, needed, workers, now)
    return Plan(status, backoff, start, tuple(_stops(function, demand, workers, now)))


def _after_failures(
    function: FunctionView, needed: int, workers: Sequence[Worker], now: datetime
) -> Backoff:
    """Return the backoff. A failed worker increases it; enough ready workers reset it."""
    failed = _failures(function, workers)
    if failed:
        failures = function.start_failures + len(failed)
        seconds = backoff_seconds(failures, longest=MAX_BACKOFF_AFTER_FAILURES)
        return Backoff(failures, now + timedelta(seconds=seconds))
    ready = _current(function, workers_in(workers, WorkerState.READY))
    if ready and len(ready) >= needed:
        return Backoff()
    return Backoff(function.start_failures, function.starts_after)


def _starts(function: FunctionView, needed: int, workers: Sequence[Worker]) -> int:
    """Return the number of workers to start.

    Starting workers count as capacity. Every worker that holds a GPU counts toward the limit.
    """
    missing = needed - len(_current(function, _serving(workers)))
    allowed = function.max_workers - len(workers)
    return max(0, min(missing, allowed, MAX_STARTS))


def _stops(
    function: FunctionView, demand: Demand, workers: Sequence[Worker], now: datetime
) -> list[str]:
    """Return the names of failed workers, outdated workers, and surplus idle workers."""
    failed = [one.name for one in workers_in(workers, WorkerState.FAILED)]
    serving = _serving(workers)
    current = _current(function, serving)
    old = [one for one in serving if one.generation != function.generation]
    idle = _idle(demand, workers, current)
    surplus = max(0, len(current) - _retained(function, demand, current, now))
    # Workers that wait for stock are stopped first, then workers that are still starting.
    idle.sort(key=lambda one: _STOP_ORDER.index(one.state))
    return [*failed, *_outdated(demand, workers, old), *(one.name for one in idle[:surplus])]


def _retained(
    function: FunctionView, demand: Demand, current: Sequence[Worker], now: datetime
) -> int:
    """Return the number of workers to keep: the maximum needed in the last idle timeout."""
    needed = workers_needed(function, demand)
    idle_timeout = timedelta(seconds=function.idle_timeout_seconds)
    if demand.is_empty and now - function.last_active_at >= idle_timeout:
        return function.min_workers
    return max(needed, len(current) if demand.peak is None else demand.peak)


def _outdated(demand: Demand, workers: Sequence[Worker], old: Sequence[Worker]) -> list[str]:
    """Return the names of outdated workers to drain: all idle workers, or else one busy worker.

    Under constant load no worker becomes idle. A draining worker finishes its invocations.
    """
    idle = [one.name for one in _idle(demand, workers, old)]
    if idle or workers_in(workers, WorkerState.DRAINING):
        return idle
    return [one.name for one in old[:1]]


def _idle(demand: Demand, workers: Sequence[Worker], among: Sequence[Worker]) -> list[Worker]:
    """Return the idle workers, or an empty list if the reports do not match the queue.

    If more deliveries are in progress than the workers reported, any worker may be busy. A worker
    that waits for stock has no pod: invocations that it reported ended with its previous pod.
    """
    known = sum(one.in_progress for one in workers)
    if demand.in_progress > known:
        return []
    return [one for one in among if one.state == WorkerState.WAITING or not one.in_progress]


def _status(
    function: FunctionView, demand: Demand, needed: int, workers: Sequence[Worker], now: datetime
) -> Status:
    ready = len(workers_in(workers, WorkerState.READY))
    failed = _failures(function, workers)
    if not ready and failed:
        return failed_status(failed[0])
    if not ready and function.cannot_start:
        # A start in progress or an empty queue does not prove that a worker can start.
        return failed_status(function)
    if ready >= needed and not failed:
        return _ready(demand, ready)
    waiting = workers_in(workers, WorkerState.WAITING)
    if waiting:
        first = waiting[0]
        barred = FunctionReason.QUOTA_REACHED if first.is_barred else FunctionReason.NO_CAPACITY
        return no_capacity(function, ready, first.message, now, barred)
    if workers_in(workers, WorkerState.STARTING) or failed:
        return _activating(ready, needed)
    return _missing(function, ready, needed, now)


def _missing(function: FunctionView, ready: int, needed: int, now: datetime) -> Status:
    """Return the status while workers are missing and none is starting."""
    if function.cannot_start:
        return replace(failed_status(function), phase=FunctionPhase.PROGRESSING)
    for reason in (FunctionReason.NO_CAPACITY, FunctionReason.QUOTA_REACHED):
        if function.start_failures and function.reason == reason:
            return no_capacity(function, ready, function.message, now, reason)
    if function.start_failures and function.reason == FunctionReason.SPEC_UNAVAILABLE:
        return no_spec(ready, function.message)
    return _activating(ready, needed)


def no_spec(ready: int, message: str) -> Status:
    """Return the status while the GPU spec is not available."""
    phase = FunctionPhase.PROGRESSING if ready else FunctionPhase.FAILED
    return Status(phase, FunctionReason.SPEC_UNAVAILABLE, message)


def no_capacity(
    function: FunctionView,
    ready: int,
    message: str,
    now: datetime,
    reason: FunctionReason = FunctionReason.NO_CAPACITY,
) -> Status:
    """Return the status without stock, or with a limit of the tenant that is reached.

    The phase is `Failed` after `CAPACITY_GRACE` if no worker is ready, otherwise `Progressing`.
    """
    had_none = function.reason == reason
    has_failed = function.phase == FunctionPhase.FAILED
    is_over = had_none and (has_failed or now - (function.since or now) >= CAPACITY_GRACE)
    phase = FunctionPhase.FAILED if is_over and not ready else FunctionPhase.PROGRESSING
    return Status(phase, reason, message)


def failed_status(source: FunctionView | Worker) -> Status:
    """Return the status for a failed worker, or for the failure that the function recorded."""
    reason = FunctionReason.WORKER_FAILED
    return Status(FunctionPhase.FAILED, reason, source.message, source.cause)


def _activating(ready: int, needed: int) -> Status:
    message = f"{ready} of {needed} workers are ready."
    return Status(FunctionPhase.PROGRESSING, FunctionReason.ACTIVATING, message)


def _ready(demand: Demand, ready: int) -> Status:
    if demand.is_empty:
        return Status(
            FunctionPhase.READY, FunctionReason.IDLE, "No invocation is waiting or running."
        )
    message = f"{ready} {'worker is' if ready == 1 else 'workers are'} ready."
    return Status(FunctionPhase.READY, FunctionReason.SERVING, message)


def _unknown() -> Status:
    message = "The queue is unavailable. Workers are neither started nor stopped."
    return Status(FunctionPhase.PROGRESSING, FunctionReason.QUEUE_UNAVAILABLE, message)


def _suspended() -> Status:
    message = "The tenant is suspended, so that the function has no workers."
    return Status(FunctionPhase.FAILED, FunctionReason.TENANT_SUSPENDED, message)


def workers_in(workers: Sequence[Worker], state: WorkerState) -> list[Worker]:
    """Return the workers in a state."""
    return [one for one in workers if one.state == state]


def _failures(function: FunctionView, workers: Sequence[Worker]) -> list[Worker]:
    """Return the failed workers of the current spec."""
    return _current(function, workers_in(workers, WorkerState.FAILED))


def _serving(workers: Sequence[Worker]) -> list[Worker]:
    """Return the ready workers, the starting workers, and the workers that wait for stock."""
    return [one for one in workers if one.state in _STOP_ORDER]


def _current(function: FunctionView, workers: Sequence[Worker]) -> list[Worker]:
    return [one for one in workers if one.generation == function.generation]
