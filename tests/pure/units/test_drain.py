"""The steps of the drain of a node: what leaves it, when, and when the drain ends."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.planning.plan import Absent, Observation, Present, Unknown
from gpuplatform.workloads.nodes import NodeState
from tests.factories.nodes import gpu_pod
from units.core.drain import (
    DrainEnd,
    DrainPlan,
    DrainView,
    Occupants,
    drain_state,
    plan_drain,
    unit_pods,
)
from units.drain_states import DrainState

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SOON, OVER = NOW + timedelta(minutes=5), NOW - timedelta(seconds=1)
CORDONED = Present(NodeState("n1", is_schedulable=False))
OPEN = Present(NodeState("n1"))
FULL = Present(Occupants(frozenset({1}), frozenset({2}), {3: "u3", 4: "u4"}, pods=4))
KEEP = DrainView(is_cordoning=False)


def plan(
    drain: DrainView = KEEP,
    node: Observation[NodeState] = CORDONED,
    left: Observation[Occupants] = FULL,
) -> DrainPlan:
    return plan_drain(drain, node, left, NOW)


def test_stock_and_workers_leave_at_once_and_units_stay() -> None:
    assert plan() == DrainPlan(moves=frozenset({1}), replaces=frozenset({2}))


def test_units_get_one_event_each_before_the_deadline() -> None:
    found = plan(DrainView(is_cordoning=False, deadline=SOON, notified=frozenset({"u3"})))

    assert (found.notifies, found.stops) == (frozenset({4}), frozenset())


@pytest.mark.parametrize("deadline", [OVER, NOW])
def test_units_are_stopped_at_the_deadline(deadline: datetime) -> None:
    found = plan(DrainView(is_cordoning=False, deadline=deadline))

    assert (found.notifies, found.stops) == (frozenset(), frozenset({3, 4}))


@pytest.mark.parametrize("node", [OPEN, CORDONED, Absent()], ids=["open", "cordoned", "absent"])
def test_nothing_leaves_before_the_node_is_cordoned(node: Observation[NodeState]) -> None:
    assert plan(DrainView(is_cordoning=True, deadline=OVER), node) == DrainPlan()


def test_a_node_that_another_client_uncordoned_ends_the_drain() -> None:
    assert plan(DrainView(is_cordoning=False, deadline=OVER), OPEN) == DrainPlan(
        end=DrainEnd.UNCORDONED
    )


def test_a_deleted_node_ends_the_drain_with_its_last_pod() -> None:
    assert plan(node=Absent()) == DrainPlan()
    assert plan(node=Absent(), left=Present(Occupants(pods=1))) == DrainPlan()
    assert plan(node=Absent(), left=Present(Occupants())) == DrainPlan(end=DrainEnd.NODE_DELETED)


@pytest.mark.parametrize(
    ("node", "left"),
    [
        (Unknown("timeout"), Present(Occupants())),
        (Unknown("timeout"), FULL),
        (CORDONED, Unknown("timeout")),
        (Absent(), Unknown("timeout")),
    ],
)
def test_a_failed_read_plans_nothing(
    node: Observation[NodeState], left: Observation[Occupants]
) -> None:
    assert plan(DrainView(is_cordoning=False, deadline=OVER), node, left) == DrainPlan()


nodes = st.sampled_from([Unknown("timeout"), Absent(), CORDONED, OPEN])
occupants = st.builds(
    Occupants,
    st.frozensets(st.integers(1, 9)),
    st.frozensets(st.integers(11, 19)),
    st.dictionaries(st.integers(21, 29), st.text(min_size=1, max_size=3)),
    st.integers(0, 3),
)
drains = st.builds(
    DrainView,
    st.booleans(),
    st.sampled_from([None, OVER, SOON]),
    st.frozensets(st.text(min_size=1, max_size=3)),
)


@given(drains, nodes, st.one_of(st.just(Unknown("timeout")), occupants.map(Present)))
def test_only_a_cordoned_node_that_was_read_is_left(
    drain: DrainView, node: Observation[NodeState], left: Observation[Occupants]
) -> None:
    found = plan(drain, node, left)

    steps = found.moves | found.replaces | found.notifies | found.stops
    if steps:
        assert node == CORDONED
        assert isinstance(left, Present)
        assert steps <= left.value.stock | left.value.workers | left.value.units.keys()
        assert not drain.is_cordoning
    if found.end is not None:
        assert not steps
        assert not isinstance(node, Unknown)
    if drain.deadline != OVER:
        assert not found.stops
    assert plan(drain, node, left) == found


def test_only_pods_that_hold_resources_count_and_ending_ones_do_not_stay() -> None:
    ending = gpu_pod("b", unit="u2")
    ending["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    pods = [
        gpu_pod("a", unit="u1"),
        ending,
        {**gpu_pod("c", unit="u3"), "status": {"phase": "Succeeded"}},
        gpu_pod("d", pool="p1"),
        gpu_pod("e"),
    ]

    assert unit_pods(pods) == (frozenset({"u1"}), 2)


@pytest.mark.parametrize(
    ("node", "deadline", "units", "stock", "state"),
    [
        (NodeState("n", is_present=False), OVER, 1, 1, DrainState.NODE_MISSING),
        (NodeState("n"), OVER, 1, 1, DrainState.CORDONING),
        (CORDONED.value, OVER, 1, 1, DrainState.STOPPING_UNITS),
        (CORDONED.value, OVER, 0, 1, DrainState.MOVING_STOCK),
        (CORDONED.value, SOON, 1, 1, DrainState.MOVING_STOCK),
        (CORDONED.value, SOON, 1, 0, DrainState.NOTICE_GIVEN),
        (CORDONED.value, None, 1, 0, DrainState.WAITING_FOR_UNITS),
        (CORDONED.value, None, 0, 0, DrainState.DRAINED),
        (CORDONED.value, OVER, 0, 0, DrainState.DRAINED),
    ],
)
def test_the_state_follows_from_what_is_left(
    node: NodeState, deadline: datetime | None, units: int, stock: int, state: DrainState
) -> None:
    assert drain_state(node, deadline, units=units, stock=stock, now=NOW) == state
