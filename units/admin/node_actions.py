"""The admin actions that cordon and uncordon nodes, which call the services of the API."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from gpuplatform.adminkit.actions.action import Action, Values
from gpuplatform.adminkit.display.text import all_gpus_text, counted
from gpuplatform.operations.admin_actions import service_call
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import Node
from inventory.services.cordons import node_cordon, node_uncordon
from units.admin.node_parts import FREE, sums
from units.core.capacity import ACTIVE, HELD_BY_POOLS, OTHERS
from units.node_capacity import NodeCapacity, node_capacities
from units.selectors import StockState


def node_address(node: Node) -> dict[str, Any]:
    """Return the arguments of the services that identify a node."""
    return {"tenant": tenant_by_name(), "name": node.name}


def _cordon_obstacle(node: Node) -> str:
    if not node.is_present:
        return "It no longer exists."
    return "" if node.is_schedulable else "It is already cordoned."


def _uncordon_obstacle(node: Node) -> str:
    if not node.is_present:
        return "It no longer exists."
    return "It is not cordoned." if node.is_schedulable else ""


def _cordon_consequence(rows: Sequence[Node], _: Values) -> str:
    nodes = node_capacities(rows)
    stock = pods_of(nodes, {StockState.READY.value})
    units = pods_of(nodes, {ACTIVE})
    tenants = {
        pod.owner.tenant for node in nodes for pod in node.pods if pod.use == ACTIVE and pod.owner
    } - {""}
    rest = pods_of(nodes, {HELD_BY_POOLS, OTHERS})
    return (
        f"Cordons {counted(len(rows), 'node')}: no further pod is scheduled there."
        f" Free and no longer usable: {all_gpus_text(sums(nodes, FREE))}."
        f" Withheld: {counted(stock, 'ready stock unit')}."
        f" Not affected: {counted(units, 'unit')} of {counted(len(tenants), 'tenant')}, and"
        f" {counted(rest, 'other pod')} with GPUs."
    )


def _uncordon_consequence(rows: Sequence[Node], _: Values) -> str:
    nodes = node_capacities(rows)
    stock = pods_of(nodes, {StockState.WITHHELD.value})
    drains = sum(node.drain is not None for node in nodes)
    ends = f" Ends {counted(drains, 'drain')}." if drains else ""
    return (
        f"Uncordons {counted(len(rows), 'node')}: pods are scheduled there again. Usable again,"
        " unless a node has another problem:"
        f" {all_gpus_text(sums(nodes, FREE))} and {counted(stock, 'withheld stock unit')}.{ends}"
    )


def pods_of(nodes: Sequence[NodeCapacity], uses: Collection[str]) -> int:
    """Return the number of pods on nodes that hold GPUs for one of the uses."""
    return sum(pod.use in uses for node in nodes for pod in node.pods)


CORDON_ACTIONS: Final = (
    Action(
        name="cordon",
        label="Cordon",
        consequence=_cordon_consequence,
        obstacle=_cordon_obstacle,
        service=service_call(node_cordon, node_address),
    ),
    Action(
        name="uncordon",
        label="Uncordon",
        consequence=_uncordon_consequence,
        obstacle=_uncordon_obstacle,
        service=service_call(node_uncordon, node_address),
        permission="cordon",
    ),
)
