"""The planner of workers: every rule, and the limits for arbitrary input."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuplatform.workloads.causes import StartupCause
from serverless.core.peaks import Peaks
from serverless.core.rejections import without_capacity, without_stock
from serverless.core.scaling import (
    MAX_STARTS,
    Backoff,
    Demand,
    FunctionView,
    Plan,
    Worker,
    WorkerState,
    plan_workers,
)
from serverless.phases import FunctionPhase, FunctionReason

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
STARTING, READY = WorkerState.STARTING, WorkerState.READY
DRAINING, FAILED = WorkerState.DRAINING, WorkerState.FAILED
CAUSE = StartupCause.IMAGE_PULL_FAILED
SLEEPING = NOW - timedelta(hours=1)


def view(**changes: Any) -> FunctionView:
    """Return a recently active function."""
    return replace(
        FunctionView(
            generation=1,
            min_workers=0,
            max_workers=4,
            concurrency=1,
            idle_timeout_seconds=60,
            last_active_at=NOW - timedelta(seconds=1),
        ),
        **changes,
    )


def crew(*states: WorkerState, generation: int = 1, in_progress: int = 0) -> list[Worker]:
    workers = [Worker(f"w{at}", state, generation, in_progress) for at, state in enumerate(states)]
    return [
        replace(one, message="ErrImagePull", cause=CAUSE) if one.state == FAILED else one
        for one in workers
    ]


def plan(function: FunctionView, demand: Demand | None, workers: list[Worker]) -> Plan:
    return plan_workers(function, demand, workers, NOW)


def status_of(found: Plan) -> tuple[FunctionPhase, FunctionReason] | None:
    return (found.status.phase, found.status.reason) if found.status else None


@pytest.mark.parametrize(
    ("waiting", "concurrency", "workers", "start"),
    [
        pytest.param(1, 1, [], 1, id="one for one"),
        pytest.param(3, 1, [READY], 2, id="beside those that serve"),
        pytest.param(3, 1, [STARTING, STARTING], 1, id="starting ones are capacity"),
        pytest.param(9, 4, [], 3, id="a part of a worker is a worker"),
        pytest.param(100, 1, [READY], 3, id="never more than maxWorkers"),
        pytest.param(100, 1, [DRAINING, DRAINING, DRAINING], 1, id="draining ones hold GPUs"),
        pytest.param(2, 1, [READY, READY], 0, id="enough"),
        pytest.param(0, 1, [], 0, id="nothing to do"),
    ],
)
def test_workers_start_for_waiting_invocations(
    waiting: int, concurrency: int, workers: list[WorkerState], start: int
) -> None:
    function = view(concurrency=concurrency)

    assert plan(function, Demand(pending=waiting), crew(*workers)).start == start


def test_unpublished_invocations_are_counted_once() -> None:
    assert plan(view(), Demand(unpublished=2), []).start == 2
    assert plan(view(), Demand(pending=2, unpublished=2), []).start == 2


def test_exhausted_invocations_start_and_stop_no_worker() -> None:
    asleep = view(last_active_at=SLEEPING)

    assert plan(asleep, Demand(exhausted=3), []).start == 0
    assert plan(asleep, Demand(exhausted=3), crew(READY)).stop == ()


def test_starts_per_plan_are_limited() -> None:
    assert plan(view(max_workers=100), Demand(pending=1000), []).start == MAX_STARTS


def test_min_workers_are_started_when_idle() -> None:
    found = plan(view(min_workers=2, last_active_at=SLEEPING), Demand(peak=2), [])

    assert found.start == 2


def test_last_worker_stops_after_idle_timeout() -> None:
    soon = view(last_active_at=NOW - timedelta(seconds=59))
    late = view(last_active_at=NOW - timedelta(seconds=60))

    assert plan(soon, Demand(), crew(READY)).stop == ()
    assert plan(late, Demand(), crew(READY)).stop == ("w0",)
    assert plan(replace(late, min_workers=1), Demand(), crew(READY)).stop == ()


def test_slowly_starting_worker_is_not_idle() -> None:
    waited = view(idle_timeout_seconds=60, last_active_at=NOW - timedelta(minutes=5))
    ended = replace(waited, last_active_at=NOW - timedelta(seconds=59))

    starting = plan(waited, Demand(pending=1, peak=1), crew(STARTING))
    working = plan(waited, Demand(in_progress=1, peak=1), crew(READY, in_progress=1))
    over = plan(ended, Demand(peak=1), crew(READY))

    assert [(one.start, one.stop) for one in (starting, working, over)] == [(0, ())] * 3


@pytest.mark.parametrize("fewest", [0, 1])
def test_invocation_before_each_idle_timeout_keeps_one_worker(
    fewest: int,
) -> None:
    every, peaks = 59, Peaks()
    workers: list[Worker] = []
    function = view(min_workers=fewest, max_workers=2, idle_timeout_seconds=60)
    moves: list[tuple[int, tuple[str, ...]]] = []

    for second in range(0, 20 * 60, 2):
        demand = Demand(pending=int(second % every < 2))
        if demand.pending:
            function = replace(function, last_active_at=NOW + timedelta(seconds=second))
        need = max(fewest, demand.pending)
        peak = peaks.add(1, need, now=second, seconds=60)
        now = NOW + timedelta(seconds=second)
        found = plan_workers(function, replace(demand, peak=peak), workers, now)
        moves += [(found.start, found.stop)] if found.start or found.stop else []
        workers = workers or crew(*[READY] * found.start)

    assert moves == [(1, ())]


def test_surplus_workers_stop_after_peak() -> None:
    workers = crew(READY, READY, READY)

    assert plan(view(), Demand(pending=1, peak=None), workers).stop == ()
    assert plan(view(), Demand(pending=1, peak=3), workers).stop == ()
    assert plan(view(), Demand(pending=1, peak=1), workers).stop == ("w0", "w1")


def test_starting_workers_stop_before_ready_ones() -> None:
    found = plan(view(), Demand(pending=1, peak=1), crew(READY, STARTING))

    assert found.stop == ("w1",)


def test_no_worker_stops_while_busy_ones_are_unknown() -> None:
    busy = [*crew(READY, in_progress=1), Worker("idle", READY, 1)]

    function = view(concurrency=2)
    assert plan(function, Demand(in_progress=1, peak=1), busy).stop == ("idle",)
    assert plan(function, Demand(in_progress=2, peak=1), busy).stop == ()


def test_failed_workers_are_stopped_and_next_start_backs_off() -> None:
    first = plan(view(max_workers=1), Demand(pending=1), crew(FAILED))
    assert first.stop == ("w0",)
    assert first.start == 0
    assert status_of(first) == (FunctionPhase.FAILED, FunctionReason.WORKER_FAILED)
    assert first.status is not None
    assert first.status.cause == CAUSE
    assert first.backoff.failures == 1
    assert first.backoff.until is not None

    blocked = view(max_workers=1, start_failures=1, starts_after=NOW + timedelta(seconds=1))
    assert plan(blocked, Demand(pending=1), []).start == 0

    over = replace(blocked, starts_after=NOW)
    assert plan(over, Demand(pending=1), []).start == 1


def test_reason_is_kept_until_worker_is_ready() -> None:
    paused = view(
        start_failures=3,
        starts_after=NOW + timedelta(seconds=5),
        reason=FunctionReason.WORKER_FAILED,
        message="ErrImagePull",
    )

    waiting = plan(paused, Demand(pending=1), [])
    assert status_of(waiting) == (FunctionPhase.FAILED, FunctionReason.WORKER_FAILED)
    assert waiting.backoff.failures == 3

    served = plan(paused, Demand(pending=1), crew(READY))
    assert status_of(served) == (FunctionPhase.READY, FunctionReason.SERVING)
    assert served.backoff == Backoff()


BROKEN = view(
    start_failures=3,
    starts_after=NOW - timedelta(seconds=1),
    phase=FunctionPhase.FAILED,
    reason=FunctionReason.WORKER_FAILED,
    message="ErrImagePull",
    cause=CAUSE,
)
"""A function whose workers cannot start, after its backoff."""


@pytest.mark.parametrize(
    ("demand", "workers"),
    [
        pytest.param(Demand(pending=1), [], id="the next try begins"),
        pytest.param(Demand(pending=1), [STARTING], id="the next try is under way"),
        pytest.param(Demand(pending=1), [DRAINING], id="the last one is being removed"),
        pytest.param(Demand(), [], id="nothing waits any more"),
    ],
)
def test_function_remains_failed_until_worker_is_ready(
    demand: Demand, workers: list[WorkerState]
) -> None:
    found = plan(BROKEN, demand, crew(*workers))

    assert status_of(found) == (FunctionPhase.FAILED, FunctionReason.WORKER_FAILED)
    assert found.status is not None
    assert (found.status.cause, found.status.message) == (CAUSE, "ErrImagePull")
    assert found.backoff.failures == 3


def test_function_with_ready_worker_progresses_with_cause_until_failed_one_is_replaced() -> None:
    short = replace(BROKEN, min_workers=2, starts_after=NOW + timedelta(seconds=1))

    found = plan(short, Demand(), crew(READY))

    assert status_of(found) == (FunctionPhase.PROGRESSING, FunctionReason.WORKER_FAILED)
    assert found.status is not None
    assert found.status.cause == CAUSE


def test_failed_function_starts_next_worker() -> None:
    assert plan(BROKEN, Demand(pending=1), []).start == 1


def test_failed_function_remains_failed_while_queue_is_unavailable() -> None:
    assert plan(BROKEN, None, []).status is None


def test_failed_start_outweighs_lack_of_stock() -> None:
    status, backoff = without_capacity(BROKEN, [], "g1.1", NOW)

    assert (status.phase, status.cause) == (FunctionPhase.FAILED, CAUSE)
    assert backoff.failures == 4


def test_failed_worker_of_earlier_spec_is_ignored() -> None:
    corrected = view(generation=2)

    found = plan(corrected, Demand(pending=1), crew(FAILED, generation=1))

    assert found.stop == ("w0",)
    assert status_of(found) == (FunctionPhase.PROGRESSING, FunctionReason.ACTIVATING)
    assert found.backoff == Backoff()


def test_lack_of_capacity_backs_off_for_seconds() -> None:
    status, backoff = without_capacity(view(start_failures=30), [], "g1.1", NOW)

    assert status.reason == FunctionReason.NO_CAPACITY
    assert "'g1.1'" in status.message
    assert backoff.failures == 31
    assert backoff.until is not None
    assert NOW < backoff.until <= NOW + timedelta(seconds=12)


@pytest.mark.parametrize(
    ("ready", "phase", "seconds", "expected"),
    [
        pytest.param(0, "Progressing", 59, "Progressing", id="stock may be on its way"),
        pytest.param(0, "Progressing", 60, "Failed", id="none came"),
        pytest.param(0, "Failed", 1, "Failed", id="failed a moment ago"),
        pytest.param(1, "Progressing", 600, "Progressing", id="one serves meanwhile"),
    ],
)
def test_lack_of_stock_is_failure_after_grace_time(
    ready: int, phase: str, seconds: int, expected: str
) -> None:
    lacking = view(
        max_workers=2,
        start_failures=3,
        starts_after=NOW + timedelta(seconds=5),
        phase=FunctionPhase(phase),
        reason=FunctionReason.NO_CAPACITY,
        message="No stock.",
        since=NOW - timedelta(seconds=seconds),
    )
    workers = crew(*[READY] * ready)

    paused = plan(lacking, Demand(pending=2), workers)
    tried, _ = without_capacity(lacking, workers, "g1.1", NOW)

    assert status_of(paused) == (expected, FunctionReason.NO_CAPACITY)
    assert (tried.phase, tried.reason) == (expected, FunctionReason.NO_CAPACITY)


def test_new_stock_ends_failure() -> None:
    lacking = view(start_failures=3, phase=FunctionPhase.FAILED, reason="NoCapacity")

    found = plan(lacking, Demand(pending=1), crew(STARTING))

    assert status_of(found) == (FunctionPhase.PROGRESSING, FunctionReason.ACTIVATING)


def test_unavailable_queue_changes_no_worker() -> None:
    function = view(min_workers=1, last_active_at=SLEEPING)

    found = plan(function, None, crew(READY, FAILED, STARTING))

    assert (found.start, found.stop) == (0, ())
    assert status_of(found) == (FunctionPhase.PROGRESSING, FunctionReason.QUEUE_UNAVAILABLE)


def test_deleted_function_drains_all_workers() -> None:
    workers = crew(READY, STARTING, FAILED, DRAINING, in_progress=1)

    assert plan(view(is_ending=True, min_workers=2), None, workers).stop == ("w0", "w1", "w2")


def test_the_function_of_a_suspended_tenant_has_no_workers() -> None:
    workers = crew(READY, STARTING, DRAINING)

    planned = plan(view(is_suspended=True, min_workers=2), Demand(pending=5), workers)

    assert (planned.start, planned.stop) == (0, ("w0", "w1"))
    assert planned.status is not None
    assert planned.status.reason == FunctionReason.TENANT_SUSPENDED


def test_busy_workers_of_earlier_spec_are_replaced_one_at_a_time() -> None:
    function = view(generation=2, max_workers=9)
    idle = crew(READY, READY)
    busy = crew(READY, READY, in_progress=1)

    assert plan(function, Demand(pending=1), idle).stop == ("w0", "w1")
    assert plan(function, Demand(in_progress=2), busy).stop == ("w0",)
    going = [*busy, Worker("going", DRAINING, 1, 1)]
    assert plan(function, Demand(in_progress=3), going).stop == ()
    assert plan(function, Demand(pending=2), idle).start == 2


@pytest.mark.parametrize(
    ("demand", "workers", "expected"),
    [
        pytest.param(Demand(), [], ("Ready", "Idle"), id="asleep"),
        pytest.param(Demand(pending=1), [READY], ("Ready", "Serving"), id="serving"),
        pytest.param(Demand(pending=99), [READY] * 4, ("Ready", "Serving"), id="at its limit"),
        pytest.param(Demand(pending=1), [STARTING], ("Progressing", "Activating"), id="waking"),
        pytest.param(Demand(pending=1), [], ("Progressing", "Activating"), id="just woken"),
        pytest.param(
            Demand(pending=2), [READY, FAILED], ("Progressing", "Activating"), id="one failed"
        ),
    ],
)
def test_status(demand: Demand, workers: list[WorkerState], expected: tuple[str, str]) -> None:
    assert status_of(plan(view(), demand, crew(*workers))) == expected


views = st.builds(
    lambda low, more, **rest: view(min_workers=low, max_workers=max(1, low + more), **rest),
    st.integers(0, 5),
    st.integers(0, 5),
    concurrency=st.integers(1, 4),
    generation=st.integers(1, 2),
    last_active_at=st.sampled_from([NOW, SLEEPING]),
    start_failures=st.integers(0, 3),
    starts_after=st.sampled_from([None, SLEEPING, NOW + timedelta(seconds=9)]),
)
demands = st.builds(
    Demand,
    *[st.integers(0, 12)] * 4,
    peak=st.none() | st.integers(0, 12),
)
crews = st.lists(
    st.builds(
        Worker,
        st.uuids().map(str),
        st.sampled_from(WorkerState),
        generation=st.integers(1, 2),
        in_progress=st.integers(0, 2),
    ),
    max_size=10,
)


@given(views, st.none() | demands, crews)
@example(
    view(min_workers=1, max_workers=1),
    Demand(peak=0),
    [Worker("w0", WorkerState.WAITING, 1, in_progress=1), Worker("w1", STARTING, 1)],
)
def test_limits_always_hold(
    function: FunctionView, demand: Demand | None, workers: list[Worker]
) -> None:
    found = plan(function, demand, workers)

    stopped = [one for one in workers if one.name in found.stop]
    current = [one for one in workers if one.generation == function.generation]
    serving = [one for one in current if one.state in {STARTING, READY}]
    left = [one for one in serving if one not in stopped]
    assert not found.start or len(workers) + found.start <= function.max_workers
    assert len(left) >= min(function.min_workers, len(serving))
    assert not [one for one in stopped if one in serving and one.in_progress]
    assert not [one for one in stopped if one.state == DRAINING]
    assert len(found.stop) == len(set(found.stop))
    paused = function.starts_after is not None and function.starts_after > NOW
    assert not (paused and found.start and not [one for one in serving if one.state == READY])
    if demand is None:
        assert (found.start, found.stop) == (0, ())
    elif not [one for one in workers if one.state == FAILED]:
        assert not (found.start and [one for one in stopped if one in serving])


def test_peak_is_known_for_idle_timeout() -> None:
    peaks = Peaks()

    seen = [peaks.add(1, need, now=at, seconds=10) for at, need in enumerate([3, 1, 2] + [1] * 12)]

    assert seen[:10] == [None] * 10
    assert seen[10:] == [3, 2, 2, 1, 1]
    assert peaks.add(2, 5, now=14, seconds=10) is None


def test_a_worker_that_waits_for_stock_counts_as_capacity_and_explains_the_status() -> None:
    waiting = [Worker("w0", WorkerState.WAITING, 1, message="No stock.")]

    found = plan(view(), Demand(pending=1), waiting)

    assert (found.start, found.stop) == (0, ())
    assert status_of(found) == (FunctionPhase.PROGRESSING, FunctionReason.NO_CAPACITY)


def test_a_worker_that_waits_for_stock_is_stopped_before_the_others() -> None:
    workers = [
        Worker("w0", WorkerState.READY, 1),
        Worker("w1", WorkerState.STARTING, 1),
        Worker("w2", WorkerState.WAITING, 1),
    ]

    found = plan(view(max_workers=3), Demand(pending=1, peak=1), workers)

    assert found.stop == ("w2", "w1")


def test_a_failed_start_outweighs_a_worker_that_waits_for_stock() -> None:
    assert without_stock(BROKEN, [], "g1.1", NOW).cause == CAUSE
    assert without_stock(view(), [], "g1.1", NOW).reason == FunctionReason.NO_CAPACITY
