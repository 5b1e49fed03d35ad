"""Records the nodes, the node of each unit, and the images of nodes, and marks their units due."""

from collections.abc import Mapping

from django.db import transaction

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import NODE, POD
from gpuplatform.reconciliation.mirror import version_number
from gpuplatform.usage.services.intervals import database_time
from gpuplatform.workloads.holders import NodeRecord, Owner, holder_of, node_records
from gpuplatform.workloads.nodes import NodeState
from inventory.services.nodes import nodes_update
from units.core.nodes import changes_units, images_by_node, is_restricted, nodes_of_units
from units.mirror import units_placed_marked
from units.services.nodes import node_images_update, unit_nodes_update
from units.services.usage import usage_seen


def compare_nodes(cluster: Cluster) -> list[int]:
    """Record the nodes of the cluster, the nodes of units, and the images of these nodes.

    The usage ledger gets the same lists, which extend the intervals of all running units. The
    controller records the nodes, too, from the events that it receives.

    Returns:
        The ids of the units on nodes whose state changed. Their reconcilers report it; no unit is
        deleted or stopped.

    Raises:
        ClusterError: If the cluster cannot be read; the recorded values are then unchanged.
    """
    at = database_time()
    # The pods are read before the nodes, so that the list of nodes contains the node of each pod.
    pods, nodes = cluster.list(POD), cluster.list(NODE)
    placed = [one for pod in pods.items if (one := holder_of(pod))]
    records = node_records(map(NodeState.of, nodes.items), placed)
    unit_nodes = nodes_of_units(pods.items)
    version = version_number(pods.resource_version)
    due = _recorded(records, unit_nodes, version=version, is_complete=True)
    usage_seen(pods.items, nodes.items, at)
    held = set(unit_nodes.values())
    found = images_by_node(nodes.items)
    node_images_update({name: images for name, images in found.items() if name in held})
    return due


def nodes_recorded(
    records: Mapping[str, NodeRecord | None], *, version: int, is_complete: bool
) -> list[int]:
    """Record nodes and the nodes of units, and mark the units due on nodes whose state changed.

    Args:
        records: The records by name, or `None` for a node of which nothing is left.
        version: The resource version of the cluster that the records describe.
        is_complete: Whether `records` contains all nodes of the cluster.

    Returns:
        The ids of the units to enqueue.
    """
    unit_nodes = {
        holder.owner_uid: name
        for name, record in records.items()
        for holder in (record.holders if record else ())
        if holder.owner is Owner.UNIT and not holder.is_ending
    }
    return _recorded(records, unit_nodes, version=version, is_complete=is_complete)


def _recorded(
    records: Mapping[str, NodeRecord | None],
    unit_nodes: Mapping[str, str],
    *,
    version: int,
    is_complete: bool,
) -> list[int]:
    moves = unit_nodes_update(unit_nodes)
    moved = [one.row_id for one in moves if one.before or is_restricted(records.get(one.after))]
    with transaction.atomic():
        changed = nodes_update(records, version=version, is_complete=is_complete)
        names = [name for name, pair in changed.items() if changes_units(*pair)]
        return units_placed_marked(names, moved)
