"""The drain of a node in a cluster: stock moves, units are stopped after a notice."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.kinds import EVENT, NODE, POD
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.reconciliation import event_writer
from inventory.models import NodeDrain
from inventory.requests.drains import NodeDrainBody
from inventory.selectors import drain_ids, node_get
from inventory.services.cordons import node_uncordon
from inventory.services.drains import node_drain, node_drain_cancel
from tests.cluster.tenant_units import COLLECTED_SECONDS, Units
from tests.cluster.test_nodes import free_stock, nodes, see
from units.drain_states import DrainState
from units.drains import drain_advance
from units.node_capacity import node_capacities
from units.nodes import compare_nodes

__all__ = ["nodes"]

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]


def drain(platform: Units, node: str, number: int = 1, **fields: Any) -> None:
    """Request a drain, and let the platform work on it until the node is cordoned."""
    body = NodeDrainBody.parse({"operationID": f"drain-{number}", **fields})
    platform.finish(node_drain(tenant=platform.tenant, name=node, body=body))


def advance(units: Units) -> None:
    """Take the next steps of all drains, and execute their operations."""
    for number in drain_ids():
        drain_advance(units.platform(), number)
    units.run_operations()
    compare_nodes(units.cluster)


def pods_on(units: Units, node: str) -> list[str]:
    """Return the names of the units with pods on a node."""
    bound = {"field_selector": f"spec.nodeName={node}", "label_selector": UNIT_LABEL}
    found = units.cluster.list(POD, **bound).items
    return [pod["metadata"]["labels"][UNIT_LABEL] for pod in found]


def work(units: Units, met: Any) -> None:
    """Advance the drains and reconcile until `met` returns true."""

    def reached() -> bool:
        advance(units)
        return bool(met())

    units.until(reached)


def state_of(node: str) -> DrainState:
    """Return the displayed state of the drain of a node."""
    [found] = node_capacities([node_get(node)])
    assert found.drain is not None
    return found.drain.state


def test_the_stock_of_a_drained_node_starts_on_other_nodes(nodes: Units) -> None:
    nodes.seed(6)
    see(nodes)
    there = {row.node for row in free_stock()}
    node = min(there)

    drain(nodes, node)
    work(nodes, lambda: not pods_on(nodes, node))

    work(
        nodes,
        lambda: (
            [row.phase for row in free_stock()] == ["Ready"] * 6
            and node not in {row.node for row in free_stock()}
        ),
    )
    assert state_of(node) == DrainState.DRAINED


def test_a_unit_gets_a_notice_and_is_stopped_and_starts_elsewhere(nodes: Units) -> None:
    nodes.seed(3)
    nodes.create("a")
    nodes.settle("a", "Ready")
    see(nodes)
    node = nodes.row("a").node

    drain(nodes, node, units="stop", noticeMinutes=30)
    work(nodes, lambda: len(NodeDrain.objects.get().notified) == 1)
    event_writer.finish(COLLECTED_SECONDS)
    about = "involvedObject.name=a,reason=NodeDrainNotice"
    [event] = nodes.cluster.list(EVENT, namespace=nodes.namespace, field_selector=about).items
    assert (event["type"], event["count"]) == ("Warning", 1)
    assert nodes.row("a").phase == "Ready"

    NodeDrain.objects.update(deadline=Now() - timedelta(seconds=1))
    work(nodes, lambda: nodes.row("a").phase == "Stopped")
    work(nodes, lambda: not pods_on(nodes, node))
    nodes.until(lambda: [row.phase for row in free_stock()] == ["Ready"] * 2)
    nodes.start("a")
    work(nodes, lambda: nodes.row("a").phase == "Ready")
    see(nodes)
    assert nodes.row("a").node != node
    assert state_of(node) == DrainState.DRAINED


def test_a_cancelled_drain_keeps_the_unit_and_the_cordon(nodes: Units) -> None:
    nodes.seed(1)
    nodes.create("a")
    nodes.settle("a", "Ready")
    see(nodes)
    node = nodes.row("a").node
    drain(nodes, node, units="stop", noticeMinutes=30)

    accepted = node_drain_cancel(tenant=nodes.tenant, name=node, operation_id="cancel")
    nodes.finish(accepted)
    advance(nodes)

    live = nodes.cluster.get(NODE, node)
    assert live is not None
    assert live["spec"]["unschedulable"] is True
    assert nodes.row("a").phase == "Ready"
    nodes.finish(node_uncordon(tenant=nodes.tenant, name=node, operation_id="uncordon"))
    nodes.settle("a", "Ready")


def test_an_uncordon_by_another_client_ends_the_drain(nodes: Units) -> None:
    nodes.seed(1)
    nodes.create("a")
    nodes.settle("a", "Ready")
    see(nodes)
    node = nodes.row("a").node
    drain(nodes, node, units="stop", noticeMinutes=30)
    nodes.cluster.merge_patch(NODE, node, {"spec": {"unschedulable": None}})

    advance(nodes)

    assert not NodeDrain.objects.exists()
    nodes.settle("a", "Ready")
