"""Detects GPU shortages: nodes that offer fewer GPUs than their pods hold. Pure.

The cause is a failed GPU or a lost node. A unit that consumed stock on such a node could not
start, because the GPUs of the node are over-allocated. Each extended resource of a node is counted
separately.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import override

from gpuplatform.workloads.holders import NodeRecord
from gpuplatform.workloads.nodes import NodeRejection, PodRequirements, node_rejection
from gpuplatform.workloads.resources import GPU_RESOURCE


@dataclass(frozen=True, slots=True)
class Shortage:
    """A node that offers less of an extended resource than the pods on it hold."""

    node: str
    offered: int
    """Number of allocatable GPUs; 0 if the node does not exist."""
    held: int
    """Number of GPUs that all pods on the node hold."""
    resource_name: str = GPU_RESOURCE

    @override
    def __str__(self) -> str:
        """Return both numbers as a human-readable clause."""
        what = "GPUs" if self.resource_name == GPU_RESOURCE else self.resource_name
        return f"node '{self.node}' offers {self.offered} {what} and its pods hold {self.held}"


def shortages(record: NodeRecord) -> list[Shortage]:
    """Return the shortages of a node, sorted by resource."""
    offered, held = record.state.gpus, record.held
    found = (
        Shortage(record.state.name, offered.get(name, 0), held[name], name)
        for name in sorted(held)
    )
    return [one for one in found if one.held > one.offered]


def shortage_of(unit_uid: str, record: NodeRecord | None) -> Shortage | None:
    """Return the shortage of a resource that a unit holds on its node, or `None`."""
    if record is None:
        return None
    held = held_by_unit(unit_uid, record)
    return next((one for one in shortages(record) if one.resource_name in held), None)


def held_by_unit(unit_uid: str, record: NodeRecord) -> Counter[str]:
    """Return the number of each extended resource that the pods of a unit hold on a node."""
    held = Counter[str]()
    for holder in record.holders:
        if holder.owner_uid == unit_uid:
            held.update(holder.gpus)
    return held


def stock_rejection(
    unit_uid: str, spec: object, record: NodeRecord | None
) -> NodeRejection | None:
    """Return the reason for which the node of a stock unit would not accept the pod of a unit.

    The pod of the unit replaces the pod of the stock unit, and has the placement and the resources
    of its spec. Returns `None` if the node would accept it, or if the node is not known.
    """
    if record is None:
        return None
    room: Mapping[str, int] = record.room
    own = held_by_unit(unit_uid, record)
    room = {name: room.get(name, 0) + own[name] for name in {*room, *own}}
    return node_rejection(record.state, PodRequirements.of_spec(spec), room)
