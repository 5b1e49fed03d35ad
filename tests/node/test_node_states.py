"""The states of real nodes: cordoned, tainted, not ready, with a failed GPU, and drained."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.kinds import NODE
from gpuplatform.workloads.causes import StartupCause
from inventory.models import NodeDrain
from inventory.services.cordons import node_cordon, node_uncordon
from tests.cluster.tenant_units import SPEC, Units
from tests.cluster.test_drains import drain, pods_on, state_of, work
from tests.cluster.test_nodes import free_stock, see
from tests.node.cluster import NodeCluster
from tests.node.images import APP
from tests.node.node import GPUS, Node
from tests.node.pods import HTTP, address, describe
from units.drain_states import DrainState
from units.models import GpuUnit
from units.phases import UnitPhase, UnitReason
from units.selectors import stock_withheld

pytestmark = [
    pytest.mark.node,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

MEMORY = "64Mi"
NOT_READY_SECONDS = 150.0
"""The node controller marks a node about 50 seconds after its last heartbeat."""


@pytest.fixture
def restored(units: Units, nodes: NodeCluster) -> Iterator[Units]:
    """The units; afterwards, all nodes are ready, and neither cordoned nor tainted."""
    yield units
    for node in nodes.nodes:
        patch(units, node, unschedulable=None, taints=None)
    nodes.wait_until_ready()


def patch(units: Units, node: Node, **spec: Any) -> None:
    units.cluster.merge_patch(NODE, node.name, {"spec": spec})


def seen(units: Units, cause: StartupCause | None, seconds: float = 60.0) -> None:
    """Compare the nodes until the only stock unit is withheld for the cause, or for none."""

    def reached() -> bool:
        see(units)
        return list(stock_withheld(SPEC)) == ([cause] if cause else [])

    units.until(reached, seconds=seconds)


def explained(units: Units, name: str, reason: UnitReason) -> None:
    """Compare the nodes until the unit has the reason."""

    def reached() -> bool:
        see(units)
        return units.row(name).reason == reason

    units.until(reached)


def place_of(units: Units, nodes: NodeCluster) -> Node:
    """Return the node of the only stock unit."""
    see(units)
    [stock] = free_stock()
    return next(node for node in nodes.nodes if node.name == stock.node)


def test_the_stock_of_a_cordoned_node_is_withheld_until_the_uncordon(
    restored: Units, nodes: NodeCluster
) -> None:
    restored.seed(1, memory=MEMORY)
    node = place_of(restored, nodes)

    accepted = node_cordon(tenant=restored.tenant, name=node.name, operation_id="cordon")
    restored.finish(accepted)
    seen(restored, StartupCause.NODE_CORDONED)
    accepted = node_uncordon(tenant=restored.tenant, name=node.name, operation_id="uncordon")
    restored.finish(accepted)

    seen(restored, None)


def test_the_stock_of_a_tainted_node_is_withheld_and_keeps_running(
    restored: Units, nodes: NodeCluster
) -> None:
    restored.seed(1, memory=MEMORY)
    node = place_of(restored, nodes)

    patch(restored, node, taints=[{"key": "maintenance", "effect": "NoSchedule"}])

    seen(restored, StartupCause.NODE_TAINTED)
    assert len(pods_on(restored, node.name)) >= 1
    patch(restored, node, taints=None)
    seen(restored, None)


@pytest.mark.timeout(300)
def test_a_stopped_kubelet_withholds_stock_and_the_unit_answers(
    restored: Units, nodes: NodeCluster
) -> None:
    restored.seed(2, memory=MEMORY)
    restored.create("a", image=APP, template=HTTP)
    row = restored.settle("a", "Ready")
    [pod] = restored.pods(row)
    node = place_of(restored, nodes)

    node.kill("kubelet")
    try:
        seen(restored, StartupCause.NODE_NOT_READY, NOT_READY_SECONDS)
        assert describe(address(pod))["hostname"] == pod["metadata"]["name"]
    finally:
        node.start_kubelet()

    nodes.wait_until_ready()
    seen(restored, None)


def test_a_failed_gpu_withholds_stock_and_the_unit_on_it_keeps_running(
    restored: Units, nodes: NodeCluster
) -> None:
    """A unit needs all GPUs of a node, so that each node has one stock unit."""
    restored.seed(2, gpu=GPUS, memory=MEMORY)
    see(restored)
    first, other = free_stock()
    node = next(one for one in nodes.nodes if one.name == first.node)

    node.set_gpu_health(3, is_healthy=False)
    try:
        seen(restored, StartupCause.GPUS_MISSING)
        restored.create("a", image=APP, template=HTTP)
        row = restored.settle("a", "Ready")
        assert GpuUnit.objects.get(consumed_by=row.uid).node == other.node
    finally:
        node.set_gpu_health(3, is_healthy=True)
    seen(restored, None)

    node = next(one for one in nodes.nodes if one.name == other.node)
    node.set_gpu_health(0, is_healthy=False)
    try:
        explained(restored, "a", UnitReason.GPUS_MISSING)
        [pod] = restored.pods(row)
        assert restored.row("a").phase == "Ready"
        assert describe(address(pod))["hostname"] == pod["metadata"]["name"]
    finally:
        node.set_gpu_health(0, is_healthy=True)
    explained(restored, "a", UnitReason.UNIT_READY)


def test_a_drained_node_becomes_empty_and_its_unit_runs_on_the_other_one(
    restored: Units, nodes: NodeCluster
) -> None:
    restored.seed(3, memory=MEMORY)
    restored.create("a", image=APP, template=HTTP)
    restored.settle("a", "Ready")
    see(restored)
    node = restored.row("a").node

    drain(restored, node, units="stop", noticeMinutes=10)
    work(restored, lambda: len(NodeDrain.objects.get().notified) == 1)
    assert restored.row("a").phase == "Ready"
    NodeDrain.objects.update(deadline=Now() - timedelta(seconds=1))
    work(restored, lambda: restored.row("a").phase == "Stopped")
    work(restored, lambda: [row.phase for row in free_stock()] == ["Ready"] * 2)
    restored.start("a")
    work(restored, lambda: restored.row("a").phase == "Ready")
    see(restored)

    row = restored.row("a")
    assert row.node not in {"", node}
    [pod] = restored.pods(row)
    assert describe(address(pod))["hostname"] == pod["metadata"]["name"]
    assert state_of(node) == DrainState.DRAINED


@pytest.mark.timeout(400)
def test_a_drain_of_a_node_that_is_not_ready_continues_when_it_returns(
    restored: Units, nodes: NodeCluster
) -> None:
    restored.seed(1, memory=MEMORY)
    node = place_of(restored, nodes)
    node.kill("kubelet")
    try:
        seen(restored, StartupCause.NODE_NOT_READY, NOT_READY_SECONDS)
        drain(restored, node.name)
        # The first stock unit remains until the kubelet reports the end of its pod.
        others = GpuUnit.objects.exclude(node=node.name)
        work(restored, others.filter(phase=UnitPhase.READY).exists)
    finally:
        node.start_kubelet()

    work(restored, lambda: [row.phase for row in free_stock()] == ["Ready"])
    see(restored)
    assert free_stock()[0].node not in {"", node.name}
    work(restored, lambda: state_of(node.name) == DrainState.DRAINED)
