"""Cases from users of comparable systems, for units: nodes, capacity, names, deletions."""

import pytest

from gpuplatform.errors import InsufficientCapacity, NameConflict
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, SERVICE
from gpuplatform.samples.capacity import SpecCapacity
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec
from tests.cluster.control import Control
from tests.cluster.pools import Pools
from tests.cluster.tenant_units import Units
from tests.factories.unit_rows import catalogued_for
from units.models import GpuUnit
from units.nodes import compare_nodes
from units.phases import STOCK_NAMESPACE
from units.requests import GpuUnitUpdate, StockSeed
from units.selectors import capacity_by_spec
from units.services.stock import stock_seed
from units.services.units import unit_update

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

LONGEST = 58
OTHER_NODE = "gpu-node-3"
"""The fixture `control` uses another node to detect that the kubelets have read it."""


def capacity(spec_name: str = "g1.1") -> SpecCapacity:
    [found] = [spec for spec in capacity_by_spec() if spec.name == spec_name]
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


def seeded(units: Units, spec_name: str, gpu: int, replicas: int = 1) -> list[GpuUnit]:
    """Request stock with any resources, without waiting for it."""
    asked = {
        "operationID": f"seed-{spec_name}",
        "specName": spec_name,
        "gpu": gpu,
        "replicas": replicas,
    }
    catalogued_for(asked)
    operation = units.finish(stock_seed(tenant=units.tenant, body=StockSeed.parse(asked)))
    return list(operation.gpu_units.order_by("id"))


def on_one_node(name: str) -> None:
    """Add the GPU spec to the catalogue so that its units run on this node."""
    placement = {"nodeSelector": {"kubernetes.io/hostname": name}}
    GpuSpec.objects.create(name="g1.1", gpu=1, placement=placement)


def test_a_unit_deleted_amid_its_start_can_be_made_again_once_it_is_gone(
    units: Units, control: Control
) -> None:
    units.seed(2)
    control(startDelaySeconds=3600)
    units.create("a")
    units.until(lambda: units.pods(units.row("a")))
    first = units.row("a")
    control(startDelaySeconds=3600, holdTerminating=True)

    units.delete("a")
    units.until(lambda: units.live(DEPLOYMENT, first) is None)
    with pytest.raises(NameConflict):
        units.accept("a", operationID="again")
    assert capacity().active == 1
    control.clear()
    units.until(lambda: units.row("a").deleted_at)

    units.finish(units.accept("a", operationID="again"))
    second = units.settle("a", "Ready")
    assert second.uid != first.uid
    assert len(units.pods(second)) == 1
    assert (capacity().total, capacity().consumed, capacity().active) == (0, 2, 1)


def test_a_spec_that_fits_no_node_is_never_claimable_and_holds_nobody_up(units: Units) -> None:
    [never] = seeded(units, "g64", gpu=64)
    units.until(lambda: GpuUnit.objects.get(pk=never.pk).phase == "Failed")
    never.refresh_from_db()

    [fits] = units.seed(1)

    assert never.reason == "PodStartupFailed"
    assert "Insufficient nvidia.com/gpu" in never.message
    assert (capacity("g64").ready, capacity("g64").failed) == (0, 1)
    with pytest.raises(InsufficientCapacity):
        units.accept("b", specName="g64")
    assert fits.phase == "Ready"
    units.create("a")
    units.settle("a", "Ready")


def test_stock_that_does_not_fit_on_the_nodes_reports_the_cause(units: Units) -> None:
    rows = seeded(units, "g8", gpu=8, replicas=5)
    numbers = [row.pk for row in rows]
    found = GpuUnit.objects.filter(pk__in=numbers)

    units.until(lambda: found.filter(phase="Ready").count() == 3)
    units.until(lambda: found.filter(phase="Failed").count() == 2)

    for row in found.filter(phase="Failed"):
        assert "Insufficient nvidia.com/gpu" in row.message
    assert (capacity("g8").ready, capacity("g8").failed, capacity("g8").total) == (3, 2, 5)


def test_stock_whose_gpus_vanish_cannot_be_claimed_until_they_are_back(
    units: Units, control: Control
) -> None:
    on_one_node(OTHER_NODE)
    [stock, kept] = units.seed(2)
    control.node(OTHER_NODE, gpus=1)
    [pod] = units.pods(stock)
    units.cluster.delete(POD, pod["metadata"]["name"], namespace=STOCK_NAMESPACE)

    units.until(lambda: GpuUnit.objects.get(pk=stock.pk).phase == "Failed")
    stock.refresh_from_db()
    with pytest.raises(InsufficientCapacity):
        units.accept("a", stockName=stock.name)
    assert "Insufficient nvidia.com/gpu" in stock.message
    assert (capacity().ready, capacity().failed, capacity().total) == (1, 1, 2)

    control.clear()
    units.until(lambda: GpuUnit.objects.get(pk=stock.pk).phase == "Ready")
    assert (capacity().ready, capacity().failed, capacity().total) == (2, 0, 2)
    assert GpuUnit.objects.get(pk=kept.pk).phase == "Ready"


def test_a_unit_on_a_silent_node_goes_when_the_node_is_back_and_counts_until_then(
    units: Units, control: Control
) -> None:
    on_one_node(OTHER_NODE)
    units.seed(1)
    units.create("a")
    row = units.settle("a", "Ready")
    control.node(OTHER_NODE, failed=True)

    units.delete("a")
    units.until(lambda: units.live(DEPLOYMENT, row) is None)
    units.tick()
    row.refresh_from_db()

    assert (row.phase, row.deleted_at) == ("Terminating", None)
    assert f"its pods still run, on {OTHER_NODE}" in row.message
    assert capacity().active == 1
    control.clear()
    units.until(lambda: capacity().active == 0)
    assert units.pods(row) == []
    assert units.cluster.list(GPU_UNIT, namespace=STOCK_NAMESPACE).items == []


def see_stock(units: Units, reason: str) -> None:
    """Compare the nodes until all free stock has this reason."""
    free = GpuUnit.objects.filter(role="stock", consumed_by="")

    def reached() -> bool:
        compare_nodes(units.cluster)
        units.tick()
        return set(free.values_list("reason", flat=True)) == {reason}

    Pools.wait(reached, lambda: str(units.rows()))


def test_stock_that_runs_on_lost_gpus_is_withheld_until_they_are_back(
    units: Units, control: Control
) -> None:
    on_one_node(OTHER_NODE)
    units.seed(3)
    units.create("a")
    active = units.settle("a", "Ready")
    free = GpuUnit.objects.filter(role="stock", consumed_by="")

    control.node(OTHER_NODE, gpus=2)
    see_stock(units, "StockWithheld")

    for row in free:
        assert row.cause == StartupCause.GPUS_MISSING
        with pytest.raises(InsufficientCapacity):
            units.accept("b", stockName=row.name)
    assert (capacity().ready, capacity().withheld, capacity().total) == (0, 2, 2)
    used = units.row("a")
    assert (used.phase, used.reason) == ("Ready", "GPUsMissing")
    assert ("Degraded", "True") in [(one["type"], one["status"]) for one in used.conditions]
    assert (len(units.pods(active)), [len(units.pods(row)) for row in free]) == (1, [1, 1])

    control.clear()
    see_stock(units, "StockReady")
    assert (capacity().ready, capacity().total) == (2, 2)
    assert units.row("a").reason == "UnitReady"
    units.create("b")
    units.settle("b", "Ready")


@pytest.mark.lasts(seconds=70)
@pytest.mark.timeout(400)
def test_a_lost_nodes_stock_cannot_be_claimed_and_what_is_to_go_is_gone_with_the_node(
    units: Units, control: Control
) -> None:
    on_one_node(OTHER_NODE)
    units.seed(3)
    units.create("goes")
    units.create("stays")
    goes, stays = (units.settle(name, "Ready") for name in ("goes", "stays"))
    [left] = GpuUnit.objects.filter(role="stock", consumed_by="")
    [lost] = units.pods(stays)

    control.node(OTHER_NODE, failed=True)
    units.delete("goes")
    units.until(lambda: units.row("goes").phase == "Terminating")
    assert f"on {OTHER_NODE}" in units.row("goes").message
    control.lose(OTHER_NODE)
    compare_nodes(units.cluster)
    units.tick()

    with pytest.raises(InsufficientCapacity):
        units.accept("b", stockName=left.name)
    assert capacity().active == 2, "the GPU counts until the pod is gone"
    # The node and its pods are deleted after a minute; delays increase.
    units.until(lambda: units.row("goes").deleted_at, last_pause_seconds=3)
    assert units.pods(goes) == []
    units.until(lambda: units.row("stays").cause == StartupCause.UNSCHEDULABLE)
    assert units.row("stays").uid == stays.uid, "what nobody deleted is not deleted"
    assert (capacity().active, capacity().ready, capacity().total) == (1, 0, 1)

    control.clear()
    compare_nodes(units.cluster)
    units.until(lambda: GpuUnit.objects.get(pk=left.pk).phase == "Ready")
    back = units.settle("stays", "Ready")
    [pod] = units.pods(back)
    assert pod["metadata"]["uid"] != lost["metadata"]["uid"]
    assert len(units.cluster.list(GPU_UNIT, namespace=units.namespace).items) == 1
    assert (capacity().active, capacity().ready, capacity().total) == (1, 1, 1)


@pytest.mark.lasts(seconds=20)
@pytest.mark.real_only(reason="the simulator watches no leases: its nodes say that they fail")
def test_a_unit_names_the_node_that_does_not_answer(units: Units, control: Control) -> None:
    on_one_node(OTHER_NODE)
    units.seed(1)
    units.create("a")
    units.settle("a", "Ready")

    control.node(OTHER_NODE, failed=True)

    units.until(
        lambda: units.row("a").cause == StartupCause.NODE_UNREACHABLE,
        last_pause_seconds=2,
    )
    assert units.row("a").phase == "Progressing"
    assert OTHER_NODE in units.row("a").message
    control.clear()
    units.settle("a", "Ready")


def test_names_of_the_greatest_length_that_differ_at_the_end_are_two_units(units: Units) -> None:
    units.seed(2)
    names = ["n" * (LONGEST - 1) + letter for letter in "ab"]
    for name in names:
        units.create(name)
    first, second = (units.settle(name, "Ready") for name in names)

    assert len({first.service_name, second.service_name}) == 2
    for row in (first, second):
        service = units.live(SERVICE, row)
        assert service is not None
        host = f"{row.service_name}.{units.namespace}.svc.cluster.local"
        assert service["metadata"]["name"] == row.service_name
        assert row.access_url == f"http://{host}:8080"
        assert len(units.pods(row)) == 1

    units.delete(names[0])
    units.until(lambda: units.row(names[0]).deleted_at)
    assert units.live(SERVICE, second) is not None
    assert units.settle(names[1], "Ready").uid == second.uid


def test_an_update_reaches_the_pod_of_a_running_unit(units: Units) -> None:
    units.seed(1)
    units.create("a")
    before = units.settle("a", "Ready")
    [old] = units.pods(before)
    asked = GpuUnitUpdate.parse({"operationID": "update", "image": "busybox:1.37"})

    units.finish(unit_update(tenant=units.tenant, name="a", body=asked, etag=None))
    units.until(lambda: units.row("a").observed_generation > before.observed_generation)
    row = units.settle("a", "Ready")

    [new] = units.pods(row)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["spec"]["containers"][0]["image"] == "busybox:1.37"
    assert (row.uid, row.generation) == (before.uid, row.observed_generation)
    assert (capacity().consumed, capacity().active) == (1, 1)


def test_a_unit_without_gpus_runs_beside_those_with(units: Units) -> None:
    [stock] = seeded(units, "ui", gpu=0)
    units.until(lambda: GpuUnit.objects.get(pk=stock.pk).phase == "Ready")

    units.create("a", specName="ui")
    row = units.settle("a", "Ready")

    [pod] = units.pods(row)
    assert "nvidia.com/gpu" not in (pod["spec"]["containers"][0].get("resources") or {})
    assert row.access_url.endswith(f"unit-a.{units.namespace}.svc.cluster.local:8080")
