"""A node loses GPUs while its pods run: stock is not claimable, active units are degraded."""

from typing import Any

import pytest

from gpuplatform.errors import InsufficientCapacity
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import GPU_UNIT, NODE, POD
from gpuplatform.samples.capacity import SpecCapacity
from gpuplatform.workloads.causes import StartupCause
from tests.factories.nodes import node_manifest
from tests.fakes.unit_world import UnitWorld, stock_rows, unit_row
from units.comparison import compare_all
from units.models import GpuUnit, UnitHistory
from units.nodes import compare_nodes
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitReason
from units.selectors import capacity_by_spec, stock_withheld

pytestmark = pytest.mark.django_db

GPU = "nvidia.com/gpu"


@pytest.fixture
def placed(world: UnitWorld) -> UnitWorld:
    """Two stock units and an active unit with one GPU each, on a node of three."""
    world.seed(3)
    world.create("a")
    world.work()
    offer(world, 3)
    for pod in world.cluster.list(POD).items:
        on = {"nodeName": "n1", "containers": [{"resources": {"limits": {GPU: "1"}}}]}
        world.cluster.put(POD, {**pod, "spec": on})
    look(world)
    return world


def offer(world: UnitWorld, gpus: int, **state: Any) -> None:
    world.cluster.put(NODE, node_manifest("n1", gpus, capacity=3, **state))


def look(world: UnitWorld) -> None:
    """Compare the nodes, and reconcile the units that are marked due."""
    compare_nodes(world.cluster)
    world.reconcile()
    world.copy()


def free() -> list[GpuUnit]:
    return [row for row in stock_rows() if not row.consumed_by]


def conditions(row: GpuUnit) -> dict[str, str]:
    return {one["type"]: one["status"] for one in row.conditions}


def counted() -> SpecCapacity:
    [found] = capacity_by_spec()
    parts = (
        found.ready
        + found.withheld
        + found.claimed
        + found.starting
        + found.failed
        + found.deleting
    )
    assert parts == found.total == found.seeded - found.consumed - found.deleted
    return found


def test_stock_on_lost_gpus_cannot_be_claimed_and_comes_back(placed: UnitWorld) -> None:
    offer(placed, 2)
    look(placed)

    for row in free():
        assert (row.phase, row.reason) == (UnitPhase.PROGRESSING, UnitReason.STOCK_WITHHELD)
        assert row.cause == StartupCause.GPUS_MISSING
    assert stock_withheld("g1.1") == {StartupCause.GPUS_MISSING: 2}
    with pytest.raises(InsufficientCapacity):
        placed.create("b")
    assert (counted().ready, counted().withheld, counted().total) == (0, 2, 2)

    offer(placed, 3)
    look(placed)
    assert [row.phase for row in free()] == [UnitPhase.READY] * 2
    assert (counted().ready, counted().total) == (2, 2)
    assert placed.create("b").phase == "Pending"


def test_an_active_unit_is_degraded_until_the_gpus_are_back(placed: UnitWorld) -> None:
    offer(placed, 2)
    look(placed)

    unit = unit_row("a")
    assert (unit.phase, unit.reason) == (UnitPhase.READY, UnitReason.GPUS_MISSING)
    assert "'n1' offers 2 GPUs and its pods hold 3" in unit.message
    assert conditions(unit) == {"Ready": "True", "Degraded": "True"}

    offer(placed, 3)
    look(placed)
    unit = unit_row("a")
    assert (unit.phase, unit.reason) == (UnitPhase.READY, UnitReason.UNIT_READY)
    assert conditions(unit) == {"Ready": "True", "Degraded": "False"}
    reported = [
        (row.phase, row.reason) for row in UnitHistory.objects.filter(unit=unit).order_by("id")
    ]
    assert reported[-2:] == [("Ready", "GPUsMissing"), ("Ready", "UnitReady")]


def test_only_units_on_a_changed_node_are_marked_once(placed: UnitWorld) -> None:
    assert compare_nodes(placed.cluster) == []
    offer(placed, 2)

    first, second = compare_nodes(placed.cluster), compare_nodes(placed.cluster)

    assert sorted(first) == sorted(row.pk for row in [*free(), unit_row("a")])
    assert second == []


def test_ineligible_stock_costs_no_write_in_a_comparison(
    placed: UnitWorld,
) -> None:
    offer(placed, 2)
    look(placed)
    before = placed.cluster.version_number

    look(placed)

    assert placed.cluster.version_number == before
    assert compare_all(placed.cluster) == []


def test_a_comparison_finds_units_that_were_not_marked(placed: UnitWorld) -> None:
    offer(placed, 2)
    compare_nodes(placed.cluster)
    GpuUnit.objects.update(due_at=None)

    expected = sorted(row.pk for row in [*free(), unit_row("a")])
    assert sorted(compare_all(placed.cluster)) == expected


@pytest.mark.parametrize("kind", [POD, NODE], ids=["pods", "nodes"])
def test_a_read_that_fails_changes_nothing(
    placed: UnitWorld, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    listed = placed.cluster.list

    def fails(asked: Any, **how: Any) -> Any:
        if asked == kind:
            raise ClusterUnavailable("cut")
        return listed(asked, **how)

    for gpus, phase in ((2, UnitPhase.READY), (3, UnitPhase.PROGRESSING)):
        offer(placed, gpus)
        with monkeypatch.context() as patch:
            patch.setattr(placed.cluster, "list", fails)
            with pytest.raises(ClusterUnavailable):
                compare_nodes(placed.cluster)
        placed.reconcile()
        placed.copy()
        assert {row.phase for row in free()} == {phase}
        look(placed)


def test_a_lost_node_deletes_nothing(placed: UnitWorld) -> None:
    placed.cluster.remove(NODE, "n1", namespace="")

    look(placed)
    look(placed)

    assert {row.reason for row in free()} == {UnitReason.STOCK_WITHHELD}
    assert {row.cause for row in free()} == {StartupCause.NODE_MISSING}
    assert len(placed.cluster.list(GPU_UNIT, namespace=STOCK_NAMESPACE).items) == 2
    assert not any(row.deletion_requested_at for row in free())
