"""Nodes in a cluster: stock is withheld, claims take other stock, and GPUs are counted."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpuplatform.errors import InsufficientCapacity
from gpuplatform.kube.kinds import NODE, POD, Manifest
from gpuplatform.samples.capacity import ProductCapacity
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.placement import PRODUCT_LABEL
from inventory.models import GpuSpec, Node
from inventory.services.cordons import node_cordon, node_uncordon
from tests.cluster.control import Control
from tests.cluster.pools import Pools
from tests.cluster.tenant_units import Units
from units.capacity import capacity
from units.models import GpuUnit
from units.nodes import compare_nodes
from units.phases import UnitReason
from units.selectors import stock_withheld
from units.services.stock import top_up

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

FIRST, SECOND, THIRD = "gpu-node-1", "gpu-node-2", "gpu-node-3"


@pytest.fixture
def nodes(units: Units) -> Iterator[Units]:
    """The units; the changed fields of all nodes are restored at the end."""
    before = {one["metadata"]["name"]: one for one in units.cluster.list(NODE).items}
    yield units
    for name, node in before.items():
        labels = {"labels": {PRODUCT_LABEL: node["metadata"]["labels"].get(PRODUCT_LABEL)}}
        spec = {"unschedulable": None, "taints": None}
        units.cluster.merge_patch(NODE, name, {"metadata": labels, "spec": spec})
    units.until(
        lambda: all(not one["spec"].get("taints") for one in units.cluster.list(NODE).items)
    )


def patch(units: Units, name: str, **spec: Any) -> None:
    units.cluster.merge_patch(NODE, name, {"spec": spec})


def on_nodes(*names: str) -> GpuSpec:
    """Add the GPU spec, whose units run on the nodes with the label of the first one."""
    placement = {"nodeSelector": {"kubernetes.io/hostname": names[0]}} if names else {}
    return GpuSpec.objects.create(name="g1.1", gpu=1, placement=placement)


def see(units: Units) -> None:
    compare_nodes(units.cluster)
    units.tick()


def free_stock() -> list[GpuUnit]:
    return list(GpuUnit.objects.filter(role="stock", consumed_by="", deleted_at=None))


def products() -> list[ProductCapacity]:
    found = list(capacity().products or ())
    for one in found:
        assert one.free + sum(one.gpus.values()) == one.allocatable
    return found


def foreign_pod(units: Units, name: str, node: str, gpus: int) -> Manifest:
    limits = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "busybox:1.36", "resources": {"limits": limits}}
    return units.cluster.create(
        POD,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": units.namespace},
            "spec": {
                "containers": [container],
                "nodeSelector": {"kubernetes.io/hostname": node},
                "terminationGracePeriodSeconds": 0,
            },
        },
    )


def test_stock_of_a_cordoned_node_is_not_claimed_and_other_stock_is(nodes: Units) -> None:
    nodes.seed(24)
    see(nodes)
    node_cordon(tenant=nodes.tenant, name=FIRST, operation_id="cordon")
    nodes.run_operations()
    see(nodes)

    assert stock_withheld("g1.1") == {StartupCause.NODE_CORDONED: 8}
    for number in range(16):
        nodes.create(f"u{number}")
    with pytest.raises(InsufficientCapacity) as refused:
        nodes.accept("one-more")
    assert "8 stock units are withheld" in str(refused.value)
    for number in range(16):
        nodes.settle(f"u{number}", "Ready")

    node_uncordon(tenant=nodes.tenant, name=FIRST, operation_id="uncordon")
    nodes.run_operations()
    see(nodes)
    assert not stock_withheld("g1.1")
    nodes.create("one-more")
    nodes.settle("one-more", "Ready")


@pytest.mark.parametrize(
    "spec",
    [{"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}, {"unschedulable": True}],
    ids=["tainted", "cordoned"],
)
def test_a_claimed_unit_whose_place_is_lost_starts_on_another_node(
    nodes: Units, spec: dict[str, Any]
) -> None:
    """It takes other stock, or the scheduler preempts a stock unit for it."""
    nodes.seed(24)
    see(nodes)
    nodes.create("a")
    lost = GpuUnit.objects.get(consumed_by=nodes.row("a").uid)
    patch(nodes, lost.node, **spec)
    compare_nodes(nodes.cluster)

    def is_ready() -> bool:
        compare_nodes(nodes.cluster)
        nodes.run_operations()
        row = nodes.row("a")
        return row.phase == "Ready" and row.node not in {"", lost.node}

    nodes.until(is_ready)

    unit = nodes.row("a")
    assert not unit.history.filter(phase="Failed").exists()
    assert GpuUnit.objects.get(uid=unit.source_uid).consumed_by == unit.uid


def test_a_unit_without_other_stock_waits_and_starts_when_its_node_is_back(
    nodes: Units,
) -> None:
    nodes.seed(1)
    see(nodes)
    [stock] = free_stock()
    nodes.create("a")
    # No other node can run it either: a pod takes another free place otherwise.
    for name in (FIRST, SECOND, THIRD):
        patch(nodes, name, unschedulable=True)
    compare_nodes(nodes.cluster)

    nodes.until(lambda: nodes.row("a").cause == StartupCause.UNSCHEDULABLE)
    assert nodes.row("a").phase == "Progressing"
    patch(nodes, stock.node, unschedulable=None)
    nodes.settle("a", "Ready")
    assert not nodes.row("a").history.filter(phase="Failed").exists()


@pytest.mark.usefixtures("later")
def test_a_pod_that_no_node_takes_fails_after_the_grace_period(nodes: Units) -> None:
    nodes.seed(1)
    nodes.create("a")
    for name in (FIRST, SECOND, THIRD):
        patch(nodes, name, unschedulable=True)

    nodes.settle("a", "Failed", UnitReason.POD_STARTUP_FAILED)
    assert nodes.row("a").cause == StartupCause.UNSCHEDULABLE


def test_gpus_are_counted_on_the_product_of_their_node(nodes: Units, pools: Pools) -> None:
    label = {"metadata": {"labels": {PRODUCT_LABEL: "Other"}}}
    nodes.cluster.merge_patch(NODE, THIRD, label)
    on_nodes(THIRD)
    nodes.seed(3)
    nodes.create("a")
    nodes.settle("a", "Ready")
    foreign_pod(nodes, "foreign", THIRD, 2)
    nodes.until(lambda: _is_bound(nodes, "foreign"))
    see(nodes)

    other = next(one for one in products() if one.name == "Other")
    assert (other.allocatable, other.free) == (8, 3)
    assert (other.gpus["active"], other.gpus["ready"], other.gpus["others"]) == (1, 2, 2)

    nodes.cluster.delete(POD, "foreign", namespace=nodes.namespace)
    nodes.until(lambda: not _is_bound(nodes, "foreign"))
    nodes.cluster.merge_patch(NODE, THIRD, {"metadata": {"labels": {PRODUCT_LABEL: "Another"}}})
    see(nodes)
    another = next(one for one in products() if one.name == "Another")
    assert (another.free, another.gpus["others"], another.gpus["active"]) == (5, 0, 1)
    assert "Other" not in {one.name for one in products()}


def _is_bound(units: Units, name: str) -> bool:
    pod = units.cluster.get(POD, name, namespace=units.namespace)
    return bool(pod and pod["spec"].get("nodeName"))


def test_a_deleted_node_and_its_pods_are_counted_until_they_are_gone(
    nodes: Units, control: Control
) -> None:
    on_nodes(THIRD)
    nodes.seed(2)
    see(nodes)
    control.lose(THIRD)
    see(nodes)

    assert stock_withheld("g1.1") == {StartupCause.NODE_MISSING: 2}
    assert sum(one.excess for one in products()) == 2
    assert sum(one.allocatable for one in products()) == 8 + 8 - 1
    control.clear()
    see(nodes)
    assert sum(one.excess for one in products()) == 0


def test_withheld_stock_is_replaced_once_where_nodes_have_room(nodes: Units) -> None:
    spec = on_nodes()
    nodes.seed(4)
    see(nodes)
    GpuSpec.objects.filter(pk=spec.pk).update(warm_target=4)
    for name in (FIRST, SECOND, THIRD):
        patch(nodes, name, unschedulable=True)
    see(nodes)
    spec.refresh_from_db()

    assert sum(stock_withheld("g1.1").values()) == 4
    assert top_up(spec) is None, "no node has room"

    there = {row.node for row in free_stock()}
    free = next(name for name in (FIRST, SECOND, THIRD) if name in there)
    away = sum(row.node != free for row in free_stock())
    patch(nodes, free, unschedulable=None)
    see(nodes)
    seeded = top_up(spec)
    assert (seeded is not None) == (away > 0)
    if seeded:
        assert seeded.operation.progress_total == min(away, 8 - (4 - away))
    assert top_up(spec) is None


@pytest.mark.long
def test_the_controller_withholds_stock_at_once_and_writes_nothing_at_rest(
    nodes: Units, watching: threading.Event
) -> None:
    nodes.seed(2)
    watching.set()
    rows = GpuUnit.objects.filter(role="stock", consumed_by="", deleted_at=None)
    nodes.until(lambda: Node.objects.exists() and not rows.filter(node="").exists())
    [name, *_] = rows.values_list("node", flat=True)

    patch(nodes, name, unschedulable=True)

    nodes.until(
        lambda: (
            set(rows.filter(node=name).values_list("reason", flat=True))
            == {UnitReason.STOCK_WITHHELD}
        )
    )
    patch(nodes, name, unschedulable=None)
    nodes.until(lambda: not rows.exclude(reason=UnitReason.STOCK_READY).exists())
    versions = dict(Node.objects.values_list("name", "changed_at"))
    foreign = foreign_pod(nodes, "without-gpus", name, 0)
    nodes.cluster.merge_patch(
        POD,
        "without-gpus",
        {"metadata": {"annotations": {"example.com/touched": "1"}}},
        namespace=nodes.namespace,
    )
    nodes.cluster.delete(POD, foreign["metadata"]["name"], namespace=nodes.namespace)
    foreign_pod(nodes, "with-gpus", name, 1)
    nodes.until(lambda: Node.objects.filter(holders__contains=[{"name": "with-gpus"}]).exists())

    after = dict(Node.objects.values_list("name", "changed_at"))
    assert {key for key, value in after.items() if value != versions[key]} == {name}
