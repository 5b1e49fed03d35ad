"""The use of the GPUs of nodes. Pure.

This module is the only place where GPUs are counted. For each resource of each node, and therefore
for each sum of nodes, this holds at any time:

    free + units + stock + pools + others = allocatable

A pod holds GPUs only on its node. If the pods of a node hold more than the node offers, because
devices failed or the node was deleted, the excess is counted separately.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gpuplatform.workloads.holders import Holder, NodeRecord, Owner
from gpuplatform.workloads.nodes import PodRequirements, node_rejection

HELD_BY_POOLS: Final = "held_by_pools"
ACTIVE: Final = "active"
OTHERS: Final = "others"
"""The uses of GPUs, besides the states of stock units."""

_BACKED_FIRST: Final = frozenset({HELD_BY_POOLS, ACTIVE, OTHERS})
"""The uses that are counted first if a node offers too little: stock is withheld then."""

Uses: TypeAlias = Mapping[str, str]
"""The use of the GPUs of each unit and pool, by UID. Pods of unknown owners are of others."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """The use of one resource of a node, or of several nodes.

    `free` and the sum of `held` always equal `allocatable`.
    """

    total: int = 0
    """The number of GPUs, including GPUs that are not allocatable."""
    allocatable: int = 0
    free: int = 0
    unschedulable: int = 0
    """The part of `free` on nodes that accept no pods."""
    largest_free: int = 0
    """The largest number of free GPUs of a node that accepts pods."""
    nodes: int = 0
    """The number of nodes that have the resource."""
    held: Mapping[str, int] = field(default_factory=dict)
    """The number of GPUs by use."""
    excess: Mapping[str, int] = field(default_factory=dict)
    """The number of GPUs by use that pods hold beyond what their nodes offer."""

    def __add__(self, other: "GpuUse") -> "GpuUse":
        """Return the use of the nodes of both."""
        return GpuUse(
            total=self.total + other.total,
            allocatable=self.allocatable + other.allocatable,
            free=self.free + other.free,
            unschedulable=self.unschedulable + other.unschedulable,
            largest_free=max(self.largest_free, other.largest_free),
            nodes=self.nodes + other.nodes,
            held=_sum(self.held, other.held),
            excess=_sum(self.excess, other.excess),
        )


def backing_order(use: str) -> tuple[bool, str]:
    """Return the sort key of a use. Of too few GPUs of a node, the first uses get theirs."""
    return use not in _BACKED_FIRST, use


def use_of(holder: Holder, uses: Uses) -> str:
    """Return the use of the GPUs that a pod holds."""
    return OTHERS if holder.owner is Owner.OTHER else uses.get(holder.owner_uid, OTHERS)


def node_use(record: NodeRecord, uses: Uses) -> dict[str, GpuUse]:
    """Return the use of each resource of a node, by resource."""
    total, offered = record.state.total_gpus, record.state.gpus
    by_resource: dict[str, Counter[str]] = {name: Counter() for name in {*total, *offered}}
    for holder in record.holders:
        for name, number in holder.gpus.items():
            by_resource.setdefault(name, Counter())[use_of(holder, uses)] += number
    return {
        name: _use(total.get(name, 0), offered.get(name, 0), wanted, record)
        for name, wanted in sorted(by_resource.items())
    }


def use_by_product(records: Iterable[NodeRecord], uses: Uses) -> dict[tuple[str, str], GpuUse]:
    """Return the use by GPU product and resource. The product is the label of the node."""
    found: dict[tuple[str, str], GpuUse] = {}
    for record in records:
        for name, use in node_use(record, uses).items():
            key = (record.state.product, name)
            found[key] = found.get(key, GpuUse()) + use
    return found


def held_by_spec(records: Iterable[NodeRecord], uses: Uses) -> dict[str, dict[str, Counter[str]]]:
    """Return the number of GPUs that bound pods hold, by GPU spec, resource and use."""
    found: dict[str, dict[str, Counter[str]]] = {}
    for record in records:
        for holder in record.holders:
            use = use_of(holder, uses)
            if use == OTHERS:
                continue
            of_spec = found.setdefault(holder.spec_name, {})
            for name, number in holder.gpus.items():
                of_spec.setdefault(name, Counter())[use] += number
    return found


def units_that_fit(records: Iterable[NodeRecord], pod: PodRequirements) -> int:
    """Return the number of pods that the nodes would accept now. A pod must request a GPU."""
    wanted = {name: number for name, number in pod.resources.items() if number > 0}
    number = 0
    for record in records if wanted else ():
        room = record.room
        if node_rejection(record.state, pod, room) is None:
            number += min(room.get(name, 0) // each for name, each in wanted.items())
    return number


def _use(total: int, offered: int, wanted: Mapping[str, int], record: NodeRecord) -> GpuUse:
    left, held, excess = offered, Counter[str](), Counter[str]()
    for use, number in sorted(wanted.items(), key=lambda pair: backing_order(pair[0])):
        backed = min(left, number)
        held[use], excess[use], left = backed, number - backed, left - backed
    state = record.state
    return GpuUse(
        total=max(total, offered),
        allocatable=offered,
        free=left,
        unschedulable=0 if state.accepts_pods else left,
        largest_free=left if state.accepts_pods else 0,
        nodes=1 if max(total, offered) else 0,
        held=+held,
        excess=+excess,
    )


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return Counter(one) + Counter(other)
