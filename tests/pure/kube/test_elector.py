import threading
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.dev.embedded.processes import wait_until
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.elector import Elector
from gpuplatform.kube.errors import ClusterForbidden, ClusterRejected, ClusterUnavailable
from gpuplatform.kube.kinds import LEASE
from tests.fakes.lease_store import LeaseStore, Wire


class World:
    """Candidates for one lease, one clock, and the invariant of one leader."""

    def __init__(self, *names: str) -> None:
        self.now = 1000.0
        self.store = LeaseStore()
        self.wires = {name: Wire(self.store) for name in names}
        self.terms: list[str] = []
        """The leaders in order; a repeated election of the same leader is a new item."""
        self._leads = ""
        self.electors = {name: self.candidate(name) for name in names}

    def candidate(self, name: str) -> Elector:
        return Elector(
            cast("Cluster", self.wires[name]),
            namespace="n",
            name="controller",
            identity=name,
            clock=lambda: self.now,
        )

    def step(self, *names: str) -> None:
        for name in names:
            self.electors[name].step()
            self.leaders()

    def passes(self, seconds: float) -> None:
        """Advance the clock, and check the invariant at each tenth of a second."""
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.leaders()

    def leaders(self) -> list[str]:
        acting = [name for name, elector in self.electors.items() if elector.may_act()]
        assert len(acting) <= 1, acting
        leads = "".join(acting)
        if leads and leads != self._leads:
            self.terms.append(leads)
        self._leads = leads
        return acting

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.store.leases["controller"]["spec"]
        return spec


def test_first_candidate_leads_and_the_second_does_not() -> None:
    world = World("a", "b")

    world.step("a", "b")

    assert world.leaders() == ["a"]
    assert world.electors["a"].may_act()
    assert (world.spec["holderIdentity"], world.spec["leaseTransitions"]) == ("a", 0)
    assert world.spec["leaseDurationSeconds"] == 15


def test_leader_that_renews_keeps_its_term() -> None:
    world = World("a", "b")
    world.step("a")
    begun = world.spec["acquireTime"]

    for _ in range(30):
        world.passes(2)
        world.step("a", "b")

    assert world.leaders() == ["a"]
    assert (world.spec["acquireTime"], world.spec["leaseTransitions"]) == (begun, 0)
    assert world.terms == ["a"]


def test_leader_that_cannot_renew_stops_before_a_successor_starts() -> None:
    world = World("a", "b")
    world.step("a", "b")
    world.wires["a"].cut()

    world.passes(9.5)
    assert world.leaders() == ["a"]
    world.passes(1)
    world.step("a", "b")
    assert world.leaders() == []
    world.passes(5)
    world.step("b")
    assert world.leaders() == ["b"]

    assert world.terms == ["a", "b"]
    assert (world.spec["holderIdentity"], world.spec["leaseTransitions"]) == ("b", 1)


def test_duration_of_a_slow_renewal_counts_against_the_leader() -> None:
    world = World("a", "b")
    world.step("a", "b")
    world.passes(2)

    def hang() -> None:
        world.passes(6)

    world.wires["a"].on_the_way_back = hang
    world.step("a")
    world.passes(3.9)
    assert world.leaders() == ["a"]
    world.passes(0.2)

    assert world.leaders() == []


def test_acquisition_waits_from_the_end_of_the_read() -> None:
    world = World("a", "b")
    world.step("a")
    world.wires["b"].on_the_way_back = lambda: world.passes(3)
    world.step("b")
    world.wires["b"].on_the_way_back = lambda: None
    world.wires["a"].cut()

    world.passes(14.9)
    world.step("b")
    assert world.leaders() == []
    world.passes(0.2)
    world.step("b")

    assert world.leaders() == ["b"]


def test_wall_clock_of_the_leader_does_not_matter() -> None:
    world = World("a", "b")
    world.step("a")
    world.spec["renewTime"] = "1999-01-01T00:00:00.000000Z"

    world.step("b")
    world.passes(9)
    world.step("b")

    assert world.leaders() == ["a"]


def test_lease_with_a_longer_duration_is_respected() -> None:
    world = World("a", "b")
    world.step("a")
    world.spec["leaseDurationSeconds"] = 60
    world.wires["a"].cut()

    world.step("b")
    world.passes(59)
    world.step("b")
    assert world.leaders() == []
    world.passes(1.1)
    world.step("b")

    assert world.leaders() == ["b"]


def test_renewal_with_a_lost_response_is_recognized() -> None:
    world = World("a", "b")
    world.step("a")
    world.passes(2)
    world.wires["a"].after = ClusterUnavailable("lost")
    world.step("a")
    world.wires["a"].mend()

    for _ in range(10):
        world.passes(2)
        world.step("a", "b")

    assert world.leaders() == ["a"]
    assert world.terms == ["a"]


def test_creation_with_a_lost_response_is_recognized() -> None:
    world = World("a")
    world.wires["a"].after = ClusterUnavailable("lost")
    world.step("a")
    assert world.leaders() == []

    world.wires["a"].mend()
    world.step("a")

    assert world.leaders() == ["a"]


def test_acquisition_with_a_lost_response_is_recognized() -> None:
    world = World("a", "b")
    world.step("a", "b")
    world.electors["a"].release()
    world.wires["b"].after = ClusterUnavailable("lost")
    world.step("b")
    world.wires["b"].mend()

    world.step("b")

    assert world.leaders() == ["b"]


def test_lease_with_a_foreign_change_is_renewed_in_the_same_step() -> None:
    world = World("a")
    world.step("a")
    lease = world.store.get(LEASE, "controller")
    assert lease is not None
    lease["metadata"]["labels"] = {"by": "hand"}
    world.store.replace(LEASE, lease)
    world.passes(8)

    world.step("a")
    world.passes(5)

    assert world.leaders() == ["a"]
    assert world.store.leases["controller"]["metadata"]["labels"] == {"by": "hand"}


def test_leader_that_sees_another_holder_stops_immediately() -> None:
    world = World("a", "b")
    world.step("a")
    lease = world.store.get(LEASE, "controller")
    assert lease is not None
    lease["spec"]["holderIdentity"] = "somebody"
    world.store.replace(LEASE, lease)

    world.step("a")

    assert world.leaders() == []


def test_predecessor_with_the_same_identity_is_another_holder() -> None:
    world = World("a", "b")
    world.step("a")

    world.electors["b"] = world.candidate("a")
    world.wires["a"].before = None
    world.electors["b"].step()

    assert world.leaders() == ["a"]


def test_release_lets_a_successor_lead_immediately() -> None:
    world = World("a", "b")
    world.step("a", "b")

    world.electors["a"].release()
    assert world.leaders() == []
    assert "holderIdentity" not in world.spec
    world.step("b")

    assert world.leaders() == ["b"]
    assert world.terms == ["a", "b"]
    assert world.spec["leaseTransitions"] == 1


def test_failed_release_still_stops_the_leader() -> None:
    world = World("a", "b")
    world.step("a", "b")
    world.wires["a"].cut()

    world.electors["a"].release()
    world.step("b")

    assert world.leaders() == []
    assert world.spec["holderIdentity"] == "a"


def test_candidate_releases_nothing() -> None:
    world = World("a", "b")
    world.step("a", "b")
    calls = world.wires["b"].calls

    world.electors["b"].release()

    assert world.wires["b"].calls == calls
    assert world.leaders() == ["a"]


def test_deleted_lease_is_recreated_by_its_leader() -> None:
    world = World("a", "b")
    world.step("a", "b")
    world.store.delete("controller")

    world.step("b", "a", "b", "a", "b")

    assert world.leaders() == ["a"]
    assert world.spec["holderIdentity"] == "a"


def test_deleted_lease_admits_no_candidate_before_its_leader_has_stopped() -> None:
    world = World("a", "b")
    world.step("a", "b")
    world.wires["a"].cut()
    world.store.delete("controller")

    for _ in range(7):
        world.step("b")
        world.passes(2)
    assert world.leaders() == []
    world.passes(2)
    world.step("b")

    assert world.leaders() == ["b"]


def test_former_leader_waits_after_the_lease_was_deleted() -> None:
    world = World("a", "b")
    world.step("a", "b")
    world.wires["a"].cut()
    world.passes(16)
    world.step("b")
    assert world.leaders() == ["b"]
    world.store.delete("controller")
    world.wires["a"].mend()

    world.step("a", "a")

    assert world.leaders() == ["b"]


@pytest.mark.parametrize(
    "fault",
    [ClusterUnavailable("x"), ClusterForbidden("x"), ClusterRejected("x", reason="NotFound")],
    ids=["unavailable", "forbidden", "namespace missing"],
)
def test_no_cluster_error_ends_a_candidate(fault: Any) -> None:
    world = World("a")
    world.wires["a"].before = fault
    world.step("a")

    world.wires["a"].mend()
    world.step("a")

    assert world.leaders() == ["a"]


@pytest.mark.parametrize(
    "spans",
    [(10, 10, 2), (15, 2.3, 2), (15, 10, 0), (5, 10, 2)],
    ids=["renew not shorter", "no time for a retry", "no retry", "lease too short"],
)
def test_unsafe_durations_are_rejected(spans: tuple[float, float, float]) -> None:
    lease, renew, retry = spans

    with pytest.raises(ValueError, match="lease_seconds"):
        Elector(
            cast("Cluster", LeaseStore()),
            namespace="n",
            name="l",
            identity="a",
            lease_seconds=lease,
            renew_seconds=renew,
            retry_seconds=retry,
        )


def test_run_leads_until_it_is_stopped_and_then_releases_the_lease() -> None:
    store, stop = LeaseStore(), threading.Event()
    elector = Elector(cast("Cluster", store), namespace="n", name="l", identity="a")
    thread = threading.Thread(target=elector.run, args=(stop,))

    thread.start()
    assert wait_until(elector.may_act, 10)
    stop.set()
    thread.join(10)

    assert not thread.is_alive()
    assert not elector.may_act()
    assert "holderIdentity" not in store.leases["l"]["spec"]


def test_leader_wakes_in_time_to_stop() -> None:
    world = World("a", "b")
    world.step("a", "b")
    world.passes(9)

    assert world.electors["a"]._pause_seconds() == pytest.approx(1)
    assert 2 <= world.electors["b"]._pause_seconds() <= 2.4


MOVES = st.sampled_from(
    ["step", "step", "step", "cut", "mend", "lose answers", "release", "restart", "hang"]
)


@given(
    st.lists(st.tuples(MOVES, st.sampled_from("abc"), st.floats(0, 6)), min_size=20, max_size=120)
)
def test_two_candidates_never_lead_at_the_same_time(moves: list[tuple[str, str, float]]) -> None:
    world = World("a", "b", "c")

    for move, name, seconds in moves:
        play(world, move, name, seconds)
        world.passes(seconds)

    for wire in world.wires.values():
        wire.mend()
        wire.on_the_way = wire.on_the_way_back = lambda: None
    for _ in range(20):
        world.passes(2)
        world.step("a", "b", "c")
    assert len(world.leaders()) == 1


def play(world: World, move: str, name: str, seconds: float) -> None:
    wire = world.wires[name]
    match move:
        case "step":
            world.step(name)
        case "cut":
            wire.cut()
        case "mend":
            wire.mend()
            wire.on_the_way = wire.on_the_way_back = lambda: None
        case "lose answers":
            wire.after = ClusterUnavailable("lost")
        case "hang":
            wire.on_the_way = wire.on_the_way_back = lambda: world.passes(seconds)
        case "release":
            world.electors[name].release()
        case _:
            world.electors[name] = world.candidate(name)
            world.electors[name].identity = f"{name}-{world.now}"
    world.leaders()
