"""Plans the workers of a function and its status. Pure: rows and queue are read before.

While the queue is unavailable, no worker is started or stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from gpuplatform.planning.backoff import backoff_seconds
from serverless.phases import FunctionPhase, FunctionReason

MAX_STARTS: Final = 10
"""Maximum number of workers of one function that one plan starts."""

MAX_BACKOFF_WITHOUT_CAPACITY: Final = 10.0
"""Seconds. Stock can become ready at any time, and trying to claim it is cheap."""

MAX_BACKOFF_AFTER_FAILURES: Final = 300.0
"""Seconds."""

CAPACITY_GRACE: Final = timedelta(minutes=1)
"""Stock that is starting is ready within this time; after it the lack of stock is a failure."""


class WorkerState(StrEnum):
    """Whether a worker serves invocations, will serve them, or does not serve any more."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    """It finishes the invocations in progress, takes no new ones, and then stops."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker of a function."""

    name: str
    state: WorkerState
    generation: int
    """The generation of the function's spec that it was started for."""
    in_work: int = 0
    """Number of invocations that it has started and not ended, according to its reports."""
    message: str = ""
    """Why it failed."""
    cause: str = ""
    """The `StartupCause` of its failure."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The open invocations of a function. Counts are invocations."""

    pending: int = 0
    """In the queue and not delivered."""
    in_work: int = 0
    """Delivered to a worker and not acknowledged."""
    exhausted: int = 0
    """Delivered as often as allowed and not dead-lettered yet: not delivered any more."""
    unpublished: int = 0
    """Accepted and not in the queue yet."""
    peak: int | None = None
    """Most workers needed during the last idle timeout; None: observed for a shorter time."""

    @property
    def waiting(self) -> int:
        """Invocations that need a worker; one that was just published may be counted in both."""
        return max(self.pending + self.in_work, self.unpublished)

    @property
    def is_none(self) -> bool:
        """Whether no invocation is open."""
        return not self.waiting and not self.exhausted


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionView:
    """The declared limits of a function, and its last recorded status."""

    generation: int
    min_workers: int
    max_workers: int
    concurrency: int
    idle_timeout_seconds: int
    last_active_at: datetime
    is_ending: bool = False
    start_failures: int = 0
    starts_after: datetime | None = None
    phase: str = FunctionPhase.PENDING
    reason: str = ""
    message: str = ""
    cause: str = ""
    since: datetime | None = None
    """When phase or reason last changed."""

    @property
    def cannot_start(self) -> bool:
        """Whether the last start of a worker failed, and no worker has been ready since."""
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
    """None: the recorded status is kept."""
    backoff: Backoff
    start: int = 0
    """Number of workers to start."""
    stop: tuple[str, ...] = ()
    """Names of workers to stop."""


def workers_needed(function: FunctionView, demand: Demand) -> int:
    """Return how many workers the open invocations need, within the function's limits."""
    by_work = -(-demand.waiting // function.concurrency)
    return max(function.min_workers, min(function.max_workers, by_work))


def plan_workers(
    function: FunctionView, demand: Demand | None, workers: Sequence[Worker], now: datetime
) -> Plan:
    """Return which workers to start and stop, and the status of the function.

    Args:
        function: its limits and its last status.
        demand: its open invocations; None: the queue is unavailable.
        workers: all of its workers, in any state.
        now: the current time.
    """
    backoff = Backoff(function.start_failures, function.starts_after)
    if function.is_ending:
        # Draining workers finish their invocations and stop.
        live = tuple(one.name for one in workers if one.state != WorkerState.DRAINING)
        return Plan(None, backoff, stop=live)
    if demand is None:
        return Plan(None if function.phase == FunctionPhase.FAILED else _unknown(), backoff)
    needed = workers_needed(function, demand)
    backoff = _after_failures(function, needed, workers, now)
    is_allowed = backoff.until is None or now >= backoff.until
    start = _starts(function, needed, workers) if is_allowed else 0
    status = _status(function, demand, needed, workers, now)
    return Plan(status, backoff, start, tuple(_stops(function, demand, workers, now)))


def without_capacity(
    function: FunctionView, workers: Sequence[Worker], spec_name: str, now: datetime
) -> tuple[Status, Backoff]:
    """Return status and backoff of a function when no stock is ready for its next worker.

    If its workers cannot start, that stays the reason: a claim would only consume more stock.
    """
    failures = function.start_failures + 1
    seconds = backoff_seconds(failures, longest=MAX_BACKOFF_WITHOUT_CAPACITY)
    backoff = Backoff(failures, now + timedelta(seconds=seconds))
    ready = len(_of(workers, WorkerState.READY))
    if function.cannot_start and not ready:
        return _failed(function), backoff
    message = f"No stock of the GPU spec '{spec_name}' is ready. Queued invocations keep waiting."
    return _no_capacity(function, ready, message, now), backoff


def _after_failures(
    function: FunctionView, needed: int, workers: Sequence[Worker], now: datetime
) -> Backoff:
    """Return the backoff: longer after each failed worker, none once enough workers are ready."""
    failed = _failures(function, workers)
    if failed:
        failures = function.start_failures + len(failed)
        seconds = backoff_seconds(failures, longest=MAX_BACKOFF_AFTER_FAILURES)
        return Backoff(failures, now + timedelta(seconds=seconds))
    ready = _current(function, _of(workers, WorkerState.READY))
    if ready and len(ready) >= needed:
        return Backoff()
    return Backoff(function.start_failures, function.starts_after)


def _starts(function: FunctionView, needed: int, workers: Sequence[Worker]) -> int:
    """Return how many workers to start.

    Starting workers count as capacity, and every worker that holds a GPU counts for the limit.
    """
    missing = needed - len(_current(function, _serving(workers)))
    room = function.max_workers - len(workers)
    return max(0, min(missing, room, MAX_STARTS))


def _stops(
    function: FunctionView, demand: Demand, workers: Sequence[Worker], now: datetime
) -> list[str]:
    """Return the names of failed workers, workers of an earlier spec, and surplus idle ones."""
    failed = [one.name for one in _of(workers, WorkerState.FAILED)]
    serving = _serving(workers)
    current = _current(function, serving)
    old = [one for one in serving if one.generation != function.generation]
    idle = _idle(demand, workers, current)
    surplus = max(0, len(current) - _retained(function, demand, current, now))
    # Workers that are still starting are stopped first.
    idle.sort(key=lambda one: one.state == WorkerState.READY)
    return [*failed, *_outdated(demand, workers, old), *(one.name for one in idle[:surplus])]


def _retained(
    function: FunctionView, demand: Demand, current: Sequence[Worker], now: datetime
) -> int:
    """Return how many workers to keep: as many as were needed during the last idle timeout."""
    needed = workers_needed(function, demand)
    idle_timeout = timedelta(seconds=function.idle_timeout_seconds)
    if demand.is_none and now - function.last_active_at >= idle_timeout:
        return function.min_workers
    return max(needed, len(current) if demand.peak is None else demand.peak)


def _outdated(demand: Demand, workers: Sequence[Worker], old: Sequence[Worker]) -> list[str]:
    """Return the workers of an earlier spec to drain: all idle ones, or one of the busy ones.

    Under constant load no worker is ever idle; a draining one finishes its invocations.
    """
    idle = [one.name for one in _idle(demand, workers, old)]
    if idle or _of(workers, WorkerState.DRAINING):
        return idle
    return [one.name for one in old[:1]]


def _idle(demand: Demand, workers: Sequence[Worker], among: Sequence[Worker]) -> list[Worker]:
    """Return the workers without an invocation; none if the queue counts more than are known."""
    known = sum(one.in_work for one in workers)
    if demand.in_work > known:
        return []
    return [one for one in among if not one.in_work]


def _status(
    function: FunctionView, demand: Demand, needed: int, workers: Sequence[Worker], now: datetime
) -> Status:
    ready = len(_of(workers, WorkerState.READY))
    failed = _failures(function, workers)
    if not ready and failed:
        return _failed(failed[0])
    if not ready and function.cannot_start:
        # Neither a start in progress nor an empty queue shows that a worker can start.
        return _failed(function)
    if ready >= needed and not failed:
        return _ready(demand, ready)
    if _of(workers, WorkerState.STARTING) or failed:
        return _activating(ready, needed)
    return _missing(function, ready, needed, now)


def _missing(function: FunctionView, ready: int, needed: int, now: datetime) -> Status:
    """Return the status while no worker starts: the failure of the last start, if it failed."""
    if function.cannot_start:
        return replace(_failed(function), phase=FunctionPhase.PROGRESSING)
    if function.start_failures and function.reason == FunctionReason.NO_CAPACITY:
        return _no_capacity(function, ready, function.message, now)
    return _activating(ready, needed)


def _no_capacity(function: FunctionView, ready: int, message: str, now: datetime) -> Status:
    """Return the status without stock: a failure after the grace time, if no worker is ready."""
    lacks = function.reason == FunctionReason.NO_CAPACITY
    has_failed = function.phase == FunctionPhase.FAILED
    is_long = lacks and (has_failed or now - (function.since or now) >= CAPACITY_GRACE)
    phase = FunctionPhase.FAILED if is_long and not ready else FunctionPhase.PROGRESSING
    return Status(phase, FunctionReason.NO_CAPACITY, message)


def _failed(source: FunctionView | Worker) -> Status:
    """Return the failure of a worker, or the one that the function has recorded."""
    reason = FunctionReason.WORKER_FAILED
    return Status(FunctionPhase.FAILED, reason, source.message, source.cause)


def _activating(ready: int, needed: int) -> Status:
    message = f"{ready} of {needed} workers are ready."
    return Status(FunctionPhase.PROGRESSING, FunctionReason.ACTIVATING, message)


def _ready(demand: Demand, ready: int) -> Status:
    if demand.is_none:
        return Status(
            FunctionPhase.READY, FunctionReason.IDLE, "No invocation is waiting or running."
        )
    message = f"{ready} {'worker is' if ready == 1 else 'workers are'} ready."
    return Status(FunctionPhase.READY, FunctionReason.SERVING, message)


def _unknown() -> Status:
    message = "The queue is unavailable. Workers are neither started nor stopped."
    return Status(FunctionPhase.PROGRESSING, FunctionReason.QUEUE_UNAVAILABLE, message)


def _of(workers: Sequence[Worker], state: WorkerState) -> list[Worker]:
    return [one for one in workers if one.state == state]


def _failures(function: FunctionView, workers: Sequence[Worker]) -> list[Worker]:
    """Return the failed workers of the current spec."""
    return _current(function, _of(workers, WorkerState.FAILED))


def _serving(workers: Sequence[Worker]) -> list[Worker]:
    """Return the workers that serve invocations or are starting."""
    return [one for one in workers if one.state in {WorkerState.STARTING, WorkerState.READY}]


def _current(function: FunctionView, workers: Sequence[Worker]) -> list[Worker]:
    return [one for one in workers if one.generation == function.generation]
