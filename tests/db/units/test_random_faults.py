"""Many lifecycles of units with random failures of calls: afterwards every GPU is accounted for.

The number of lifecycles is small by default; CYCLES=1000 runs that number.
"""

import os
import random
from contextlib import suppress

import pytest

from gpuplatform.errors import PlatformError
from gpuplatform.kube.errors import (
    ClusterConflict,
    ClusterError,
    ClusterForbidden,
    ClusterRejected,
    ClusterUnavailable,
)
from gpuplatform.kube.kinds import GPU_UNIT, ResourceKind
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.samples.capacity import SpecCapacity
from tests.fakes.unit_world import UnitWorld, stock_rows
from units.models import GpuUnit
from units.selectors import capacity_by_spec

pytestmark = [pytest.mark.django_db, pytest.mark.long, pytest.mark.timeout(3600)]

CYCLES = int(os.environ.get("CYCLES", "6"))
STOCK = 3
SHARE = 0.1
FAULTS: list[ClusterError] = [
    ClusterUnavailable("connection refused"),
    ClusterUnavailable("internal error", status=500),
    ClusterForbidden("exceeded quota", status=403),
    ClusterConflict("changed", reason="Conflict", status=409),
]


def capacity() -> SpecCapacity:
    [found] = [spec for spec in capacity_by_spec() if spec.name == "g1.1"]
    return found


def adds_up() -> None:
    """Check that free, claimed, starting, failed and deleting stock add up to the total."""
    spec = capacity()
    parts = spec.ready + spec.claimed + spec.starting + spec.failed + spec.deleting
    assert parts == spec.total == spec.seeded - spec.consumed - spec.deleted


class Weather:
    """Lets a share of all calls fail, before or after their effect."""

    def __init__(self, world: UnitWorld, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self.failed = 0

    def rises(self) -> None:
        self._world.cluster.on_call = self._call
        self._world.cluster.on_done = self._done

    def calms(self) -> None:
        self._world.cluster.on_call = self._world.cluster.on_done = None
        ClusterState.objects.update(failures=0, closed_until=None)

    def _call(self, _verb: str, _kind: ResourceKind | None) -> None:
        if self._chance.random() < SHARE:
            self.failed += 1
            raise self._chance.choice(FAULTS)

    def _done(self) -> None:
        if self._chance.random() < SHARE / 4:
            self.failed += 1
            raise ClusterUnavailable("the answer was lost")


def test_after_random_faults_all_stock_is_free(world: UnitWorld) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    weather = Weather(world, chance)
    world.disturbed = lambda: suppress(ClusterError)  # A failed task; the next one repeats it.
    world.seed(STOCK)
    assert capacity().ready == STOCK

    for number in range(CYCLES):
        weather.rises()
        try:
            world.create(f"u{number}", **({"image": "B"} if chance.random() < SHARE else {}))
        except PlatformError:  # A rejection must leave no row.
            assert not GpuUnit.objects.filter(role="active", name=f"u{number}").exists()
        world.work(2)
        adds_up()
        for row in GpuUnit.objects.filter(role="active", deletion_requested_at=None):
            world.delete(row.name)
        world.work(2)
        adds_up()
        weather.calms()
        world.work()
        missing = STOCK - capacity().total
        if missing:
            world.seed(missing)

    words = f"seed {seed}, {weather.failed} calls failed"
    assert weather.failed > CYCLES, words
    assert not Operation.objects.filter(phase__in=OPEN_PHASES).exists(), words
    assert not GpuUnit.objects.filter(claimed_by__isnull=False).exists(), words
    assert (capacity().ready, capacity().total, capacity().active) == (STOCK, STOCK, 0), words
    live = [row.name for row in stock_rows() if row.deleted_at is None]
    assert world.cluster.names(GPU_UNIT) == sorted(live), words
    made = Operation.objects.filter(kind="unit.create", phase="Succeeded").count()
    assert capacity().consumed == made, words


def test_a_permanent_rejection_releases_its_claim(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a")
    refused = ClusterRejected("spec: Invalid", reason="Invalid", status=422)
    world.cluster.fail("get", GPU_UNIT, FAULTS[1])
    world.cluster.fail("create", GPU_UNIT, refused)

    ended = world.finish(operation)

    assert ended.phase == "Failed"
    assert (capacity().ready, capacity().claimed, capacity().active) == (1, 0, 0)
