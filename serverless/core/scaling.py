"""How many workers a function has, and how it is doing. Pure: rows and queue are read before.

What is not known changes nothing: without the queue's word nothing is started and nothing stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from gpuplatform.planning.backoff import backoff_seconds
from serverless.phases import FunctionPhase, FunctionReason

MOST_STARTS: Final = 10
"""Workers of one function that are started at once; the next look starts the next ones."""

LONGEST_WITHOUT_CAPACITY: Final = 10.0
"""Seconds. Stock may come at any moment, and asking for it is cheap."""

LONGEST_AFTER_FAILURES: Final = 300.0

SOON: Final = timedelta(minutes=1)
"""Stock that is on its way is there by then; what has none for longer needs somebody to seed."""


class WorkerState(StrEnum):
    """What a worker is good for."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    """Told to end; it finishes what it has begun and takes nothing more."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker that there is."""

    name: str
    state: WorkerState
    generation: int
    """Of the function's spec that it was started for."""
    in_work: int = 0
    """Invocations that it has begun, as far as it has said."""
    message: str = ""
    """Why it failed."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a function has to do. Counts are invocations."""

    pending: int = 0
    """In the queue, given to nobody."""
    in_work: int = 0
    """Given to a worker and not acknowledged."""
    exhausted: int = 0
    """Given as often as allowed and not decided: no worker gets them."""
    unpublished: int = 0
    """Accepted and not in the queue yet."""
    peak: int | None = None
    """Most workers that were needed during the last idle time; None: not watched for so long."""

    @property
    def waiting(self) -> int:
        """What workers are needed for; put in the queue and not noted yet, it counts once."""
        return max(self.pending + self.in_work, self.unpublished)

    @property
    def is_none(self) -> bool:
        """Whether there is nothing at all to do."""
        return not self.waiting and not self.exhausted


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionView:
    """What is wanted of a function, and what became of it so far."""

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
    since: datetime | None = None
    """Since when phase and reason are what they are."""

    @property
    def cannot_start(self) -> bool:
        """Whether its last start of a worker failed, and none was ready since."""
        return bool(self.start_failures) and self.reason == FunctionReason.WORKER_FAILED


@dataclass(frozen=True, slots=True)
class Standing:
    """How the function is doing."""

    phase: FunctionPhase
    reason: FunctionReason
    message: str


@dataclass(frozen=True, slots=True)
class Backoff:
    """Starts that failed in a row, and when the next one may be."""

    failures: int = 0
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done now, and what is said of the function."""

    standing: Standing | None
    """None: what was said stays."""
    backoff: Backoff
    start: int = 0
    stop: tuple[str, ...] = ()


def workers_needed(function: FunctionView, demand: Demand) -> int:
    """Return how many workers the function would have if all were there at once."""
    by_work = -(-demand.waiting // function.concurrency)
    return max(function.min_workers, min(function.max_workers, by_work))


def plan_workers(
    function: FunctionView, demand: Demand | None, workers: Sequence[Worker], now: datetime
) -> Plan:
    """Decide which workers are started and stopped.

    Args:
        function: its row.
        demand: what it has to do; None: the queue does not say.
        workers: all that there are, in any state.
        now: the moment of the decision.
    """
    backoff = Backoff(function.start_failures, function.starts_after)
    if function.is_ending:
        # Draining finishes what has begun.
        live = tuple(one.name for one in workers if one.state != WorkerState.DRAINING)
        return Plan(None, backoff, stop=live)
    if demand is None:
        return Plan(None if function.phase == FunctionPhase.FAILED else _unknown(), backoff)
    needed = workers_needed(function, demand)
    backoff = _after_failures(function, needed, workers, now)
    is_allowed = backoff.until is None or now >= backoff.until
    start = _starts(function, needed, workers) if is_allowed else 0
    standing = _standing(function, demand, needed, workers, now)
    return Plan(standing, backoff, start, tuple(_stops(function, demand, workers, now)))


def without_capacity(
    function: FunctionView, workers: Sequence[Worker], spec_name: str, now: datetime
) -> tuple[Standing, Backoff]:
    """Return what is said, and for how long nothing is started, when no stock is left.

    Workers that cannot start are still the reason: more stock would be used up like the last.
    """
    failures = function.start_failures + 1
    seconds = backoff_seconds(failures, longest=LONGEST_WITHOUT_CAPACITY)
    backoff = Backoff(failures, now + timedelta(seconds=seconds))
    ready = len(_of(workers, WorkerState.READY))
    if function.cannot_start and not ready:
        return _failed(function.message), backoff
    why = f"No ready stock of the GPU spec '{spec_name}' is left; what waits goes on waiting."
    return _lacking(function, ready, why, now), backoff


def _after_failures(
    function: FunctionView, needed: int, workers: Sequence[Worker], now: datetime
) -> Backoff:
    """Return the back-off: longer for each worker that failed, none once there are enough."""
    failed = _failures(function, workers)
    if failed:
        failures = function.start_failures + len(failed)
        seconds = backoff_seconds(failures, longest=LONGEST_AFTER_FAILURES)
        return Backoff(failures, now + timedelta(seconds=seconds))
    ready = _current(function, _of(workers, WorkerState.READY))
    if ready and len(ready) >= needed:
        return Backoff()
    return Backoff(function.start_failures, function.starts_after)


def _starts(function: FunctionView, needed: int, workers: Sequence[Worker]) -> int:
    """Count starting workers as capacity; whatever still holds a GPU counts for the limit."""
    missing = needed - len(_current(function, _serving(workers)))
    room = function.max_workers - len(workers)
    return max(0, min(missing, room, MOST_STARTS))


def _stops(
    function: FunctionView, demand: Demand, workers: Sequence[Worker], now: datetime
) -> list[str]:
    """Return the failed workers, those of an earlier spec, and idle ones that nothing needs."""
    failed = [one.name for one in _of(workers, WorkerState.FAILED)]
    serving = _serving(workers)
    current = _current(function, serving)
    old = [one for one in serving if one.generation != function.generation]
    idle = _idle(demand, workers, current)
    surplus = max(0, len(current) - _kept(function, demand, current, now))
    # What has not started yet has less to lose.
    idle.sort(key=lambda one: one.state == WorkerState.READY)
    return [
        *failed,
        *_outdated(demand, workers, old),
        *(one.name for one in idle[:surplus]),
    ]


def _kept(function: FunctionView, demand: Demand, current: Sequence[Worker], now: datetime) -> int:
    """Return how many workers stay: as many as were needed during the last idle time."""
    needed = workers_needed(function, demand)
    idle_time = timedelta(seconds=function.idle_timeout_seconds)
    if demand.is_none and now - function.last_active_at >= idle_time:
        return function.min_workers
    return max(needed, len(current) if demand.peak is None else demand.peak)


def _outdated(demand: Demand, workers: Sequence[Worker], old: Sequence[Worker]) -> list[str]:
    """Return the workers of an earlier spec to drain: the idle ones, of the busy ones one a time.

    Under constant work none would ever be idle; draining finishes what has begun.
    """
    idle = [one.name for one in _idle(demand, workers, old)]
    if idle or _of(workers, WorkerState.DRAINING):
        return idle
    return [one.name for one in old[:1]]


def _idle(demand: Demand, workers: Sequence[Worker], among: Sequence[Worker]) -> list[Worker]:
    """Return those that have nothing in work; nobody, while it is not known who has what."""
    known = sum(one.in_work for one in workers)
    if demand.in_work > known:
        return []
    return [one for one in among if not one.in_work]


def _standing(
    function: FunctionView, demand: Demand, needed: int, workers: Sequence[Worker], now: datetime
) -> Standing:
    ready = len(_of(workers, WorkerState.READY))
    failed = _failures(function, workers)
    if not ready and failed:
        return _failed(failed[0].message)
    if not ready and function.cannot_start:
        # A further try is under way, or nothing waits now: neither shows that one would start.
        return _failed(function.message)
    if ready >= needed and not failed:
        return _well(demand, ready)
    if _of(workers, WorkerState.STARTING) or failed:
        return _activating(ready, needed)
    return _missing(function, ready, needed, now)


def _missing(function: FunctionView, ready: int, needed: int, now: datetime) -> Standing:
    """Return what is said while nothing starts: why the last start did not succeed, if so."""
    if function.cannot_start:
        phase = FunctionPhase.PROGRESSING
        return Standing(phase, FunctionReason.WORKER_FAILED, function.message)
    if function.start_failures and function.reason == FunctionReason.NO_CAPACITY:
        return _lacking(function, ready, function.message, now)
    return _activating(ready, needed)


def _lacking(function: FunctionView, ready: int, why: str, now: datetime) -> Standing:
    """Return that there is no stock: a failure, once nothing serves and none came soon."""
    lacks = function.reason == FunctionReason.NO_CAPACITY
    has_failed = function.phase == FunctionPhase.FAILED
    is_long = lacks and (has_failed or now - (function.since or now) >= SOON)
    phase = FunctionPhase.FAILED if is_long and not ready else FunctionPhase.PROGRESSING
    return Standing(phase, FunctionReason.NO_CAPACITY, why)


def _failed(message: str) -> Standing:
    return Standing(FunctionPhase.FAILED, FunctionReason.WORKER_FAILED, message)


def _activating(ready: int, needed: int) -> Standing:
    message = f"{ready} of {needed} workers are ready."
    return Standing(FunctionPhase.PROGRESSING, FunctionReason.ACTIVATING, message)


def _well(demand: Demand, ready: int) -> Standing:
    if demand.is_none:
        return Standing(FunctionPhase.READY, FunctionReason.IDLE, "There is nothing to do.")
    message = f"{ready} {'worker is' if ready == 1 else 'workers are'} ready."
    return Standing(FunctionPhase.READY, FunctionReason.SERVING, message)


def _unknown() -> Standing:
    message = "The queue does not say what waits; the workers are left as they are."
    return Standing(FunctionPhase.PROGRESSING, FunctionReason.QUEUE_UNAVAILABLE, message)


def _of(workers: Sequence[Worker], state: WorkerState) -> list[Worker]:
    return [one for one in workers if one.state == state]


def _failures(function: FunctionView, workers: Sequence[Worker]) -> list[Worker]:
    """Return those that failed; of an earlier spec they say nothing about this one."""
    return _current(function, _of(workers, WorkerState.FAILED))


def _serving(workers: Sequence[Worker]) -> list[Worker]:
    """Return those that serve or will."""
    return [one for one in workers if one.state in {WorkerState.STARTING, WorkerState.READY}]


def _current(function: FunctionView, workers: Sequence[Worker]) -> list[Worker]:
    return [one for one in workers if one.generation == function.generation]
