"""The pods that hold extended resources of nodes. Pure.

A pod holds its GPUs from the time at which it is bound to a node until it has ended. What a pod
without a node requests is not held by anyone. Each pod has exactly one owner: a GPU unit, a stock
pool, or a program that is not part of the platform.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpuplatform.kube.fields import field, text
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.ownership import POOL_UID_LABEL, UNIT_UID_LABEL
from gpuplatform.workloads.labels import SPEC_LABEL
from gpuplatform.workloads.nodes import NodeState
from gpuplatform.workloads.resources import held_by


class Owner(StrEnum):
    """The kind of object for which a pod was created, according to its labels."""

    UNIT = "unit"
    POOL = "pool"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that holds extended resources of its node."""

    uid: str
    """UID of the pod."""
    namespace: str
    name: str
    owner: Owner
    gpus: Mapping[str, int]
    """The number of each extended resource that the pod holds."""
    owner_uid: str = ""
    """UID of the GPU unit or the stock pool. Empty for pods of other programs."""
    spec_name: str = ""
    """The GPU spec in the label of the pod."""
    is_ending: bool = False
    """For pods of units: whether the pod is being deleted, so that another pod can replace it."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node, and the pods that hold its extended resources, sorted by namespace and name."""

    state: NodeState
    holders: tuple[Holder, ...] = ()

    @property
    def held(self) -> Counter[str]:
        """The number of each extended resource that the pods hold. It can exceed the offer."""
        held = Counter[str]()
        for holder in self.holders:
            held.update(holder.gpus)
        return held

    @property
    def room(self) -> dict[str, int]:
        """The number of each extended resource that is free; negative if too many are held."""
        held, offered = self.held, self.state.gpus
        return {name: offered.get(name, 0) - held[name] for name in {*held, *offered}}


@dataclass(frozen=True, slots=True)
class PlacedHolder:
    """A holder, and the name of its node."""

    node: str
    holder: Holder


def holds_gpu(pod: Manifest) -> bool:
    """Return whether `pod` holds its GPUs. A pod that has ended holds none, but may still exist.

    Source: Kubernetes documentation, "Pod Lifecycle": a pod in phase Succeeded or Failed no longer
    uses resources of its node.
    """
    return field(pod, "status", "phase") not in {"Succeeded", "Failed"}


def holder_of(pod: Manifest) -> PlacedHolder | None:
    """Return the holder of a pod, or `None` if the pod holds no extended resource of a node."""
    node = text(pod, "spec", "nodeName")
    if not node or not holds_gpu(pod):
        return None
    gpus = held_by(pod)
    if not gpus:
        return None
    labels = {
        key: text(pod, "metadata", "labels", key)
        for key in (UNIT_UID_LABEL, POOL_UID_LABEL, SPEC_LABEL)
    }
    owner, owner_uid = Owner.OTHER, ""
    if labels[UNIT_UID_LABEL]:
        owner, owner_uid = Owner.UNIT, labels[UNIT_UID_LABEL]
    elif labels[POOL_UID_LABEL]:
        owner, owner_uid = Owner.POOL, labels[POOL_UID_LABEL]
    holder = Holder(
        uid=text(pod, "metadata", "uid"),
        namespace=text(pod, "metadata", "namespace"),
        name=text(pod, "metadata", "name"),
        owner=owner,
        gpus=dict(sorted(gpus.items())),
        owner_uid=owner_uid,
        spec_name="" if owner is Owner.OTHER else labels[SPEC_LABEL],
        is_ending=owner is Owner.UNIT and bool(field(pod, "metadata", "deletionTimestamp")),
    )
    return PlacedHolder(node, holder)


def node_records(
    nodes: Iterable[NodeState], placed: Iterable[PlacedHolder]
) -> dict[str, NodeRecord]:
    """Return the record of each node by name. A pod that is given repeatedly counts once.

    A node that does not exist, but to which pods are bound, has a record without resources.
    """
    states = {node.name: node for node in nodes}
    by_node: dict[str, dict[str, Holder]] = {name: {} for name in states}
    for one in placed:
        by_node.setdefault(one.node, {})[one.holder.uid] = one.holder
    return {
        name: NodeRecord(
            states.get(name) or NodeState(name, is_present=False, is_ready=False),
            tuple(sorted(holders.values(), key=lambda one: (one.namespace, one.name, one.uid))),
        )
        for name, holders in by_node.items()
    }
