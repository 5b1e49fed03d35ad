"""The elector on an API server: at most one candidate leads at a time, despite connection faults.

The candidates share one clock that the test advances; each has its own connection through its own
proxy. `GPUPLATFORM_TEST_HANDOVERS=200` runs the long test.
"""

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuplatform.kube.elector import Elector
from gpuplatform.kube.kinds import LEASE
from tests.cluster.world import World
from tests.fakes.fault_proxy import FaultProxy, Upstream
from tests.fakes.faults import Cut, Fault, Hold, Refuse, Rule, StaleRead

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

HANDOVERS = int(os.environ.get("GPUPLATFORM_TEST_HANDOVERS", "30"))
CANDIDATES = ("a", "b", "c")
TICK_SECONDS = 0.5
RETRY_TICKS = 4
MOST_TICKS = 200
PATIENCE_SECONDS = 30
WRITES = ("create", "update")


class Race:
    """Three candidates for one lease, and the invariant of one leader."""

    def __init__(self, proxies: dict[str, FaultProxy], namespace: str) -> None:
        self.now = 0.0
        self.proxies = proxies
        self.clusters = {name: proxy.cluster() for name, proxy in proxies.items()}
        self.electors = {
            name: Elector(
                cluster,
                namespace=namespace,
                name="controller",
                identity=name,
                clock=lambda: self.now,
            )
            for name, cluster in self.clusters.items()
        }
        self.busy: set[str] = set()
        """Candidates whose step currently hangs."""
        self._ticks = itertools.count()

    def leader(self) -> str | None:
        acting = [name for name, elector in self.electors.items() if elector.may_act()]
        assert len(acting) <= 1, acting
        return acting[0] if acting else None

    def tick(self) -> None:
        """Advance the clock by half a second; each candidate takes a step every two seconds."""
        self.now += TICK_SECONDS
        self.leader()
        turn = next(self._ticks)
        for number, name in enumerate(CANDIDATES):
            if (turn + number) % RETRY_TICKS == 0 and name not in self.busy:
                self.electors[name].step()
                self.leader()

    def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(MOST_TICKS):
            if holds():
                return
            self.tick()
        pytest.fail(f"no hand-over within {MOST_TICKS * TICK_SECONDS} s")

    def until_another_leads(self, old: str) -> None:
        self.until(lambda: self.leader() not in {None, old})

    def close(self) -> None:
        for cluster in self.clusters.values():
            cluster.close()


@pytest.fixture
def race(world: World, kubeconfig: Path) -> Iterator[Race]:
    with contextlib.ExitStack() as stack:
        proxies = {
            name: stack.enter_context(FaultProxy(Upstream.of(kubeconfig)).running())
            for name in CANDIDATES
        }
        race = Race(proxies, world.namespace)
        yield race
        race.close()


def released(race: Race, old: str) -> None:
    """The leader releases the lease and stops, so that it does not acquire it again."""
    race.electors[old].release()
    race.busy.add(old)
    race.until_another_leads(old)
    race.busy.remove(old)


def cut_off(*faults: Rule) -> Callable[[Race, str], None]:
    def hand_over(race: Race, old: str) -> None:
        race.proxies[old].add(*(Rule(r.fault, r.verbs, r.resource, r.times) for r in faults))
        race.until_another_leads(old)

    return hand_over


def always(fault: Fault, *verbs: str) -> Rule:
    return Rule(fault, verbs=verbs, times=None)


def held(*, is_after: bool) -> Callable[[Race, str], None]:
    """The renewal hangs, executed or not, until long after another candidate leads."""

    def hand_over(race: Race, old: str) -> None:
        gate = threading.Event()
        race.proxies[old].add(Rule(Hold(gate, is_after=is_after), verbs=WRITES))
        asked = race.proxies[old].count("update")
        step = threading.Thread(target=race.electors[old].step)
        race.busy.add(old)
        step.start()
        wait_until(race.proxies[old], asked + 1)
        race.until_another_leads(old)
        gate.set()
        step.join(PATIENCE_SECONDS)
        race.busy.remove(old)
        race.leader()

    return hand_over


def wait_until(proxy: FaultProxy, updates: int) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE_SECONDS * 100):
        if proxy.count("update") >= updates:
            return
        pause.wait(0.01)
    pytest.fail("the renewal was never sent")


WAYS: dict[str, Callable[[Race, str], None]] = {
    "released": released,
    "cut before": cut_off(always(Cut())),
    "answers lost, then cut": cut_off(
        Rule(Cut(is_after=True), verbs=WRITES, times=3), always(Cut())
    ),
    "held before": held(is_after=False),
    "held after": held(is_after=True),
    "500": cut_off(always(Refuse(500))),
    "503 for writes": cut_off(always(Refuse(503), *WRITES)),
    "429": cut_off(always(Refuse(429, retry_after=1))),
    "409 for writes": cut_off(always(Refuse(409, "Conflict"), *WRITES)),
    "stale reads and no writes": cut_off(always(StaleRead(), "get"), always(Cut(), *WRITES)),
}


def test_two_candidates_never_lead_at_the_same_time(race: Race, world: World) -> None:
    race.until(lambda: race.leader() is not None)
    ways = itertools.cycle(WAYS.values())

    for _ in range(HANDOVERS):
        old = race.leader()
        assert old is not None
        for name in CANDIDATES:
            if name != old:  # a stale cache must not cause an acquisition of a held lease
                race.proxies[name].add(Rule(StaleRead(), verbs=("get",), times=3))
        next(ways)(race, old)
        race.until_another_leads(old)
        for proxy in race.proxies.values():
            proxy.clear()

    lease = world.get(LEASE, "controller")
    assert lease["spec"]["leaseTransitions"] == HANDOVERS
    assert lease["spec"]["holderIdentity"] == race.leader()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_lease_changes_hands_when_its_holder_is(
    way: Callable[[Race, str], None], race: Race
) -> None:
    race.until(lambda: race.leader() is not None)
    old = race.leader()
    assert old is not None

    way(race, old)
    race.until_another_leads(old)
    race.proxies[old].clear()
    new = race.leader()
    for _ in range(40):
        race.tick()

    assert race.leader() == new
