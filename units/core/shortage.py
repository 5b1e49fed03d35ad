"""Detects GPU shortages: nodes that offer fewer GPUs than their pods hold. Pure.

The cause is a failed GPU or a lost node. A unit that consumed stock on such a node could not
start, because the GPUs of the node are over-allocated.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from gpuplatform.formats.quantity import Quantity
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.pods import GPU_RESOURCE


@dataclass(frozen=True, slots=True)
class Shortage:
    """A node that offers fewer GPUs than the pods on it hold."""

    node: str
    offered: int
    """Number of allocatable GPUs; 0 if the node does not exist."""
    held: int
    """Number of GPUs that all pods on the node hold."""

    @override
    def __str__(self) -> str:
        """Return both numbers as a human-readable clause."""
        return f"node '{self.node}' offers {self.offered} GPUs and its pods hold {self.held}"


def shortages(pods: Sequence[Manifest], nodes: Sequence[Manifest]) -> list[Shortage]:
    """Return the shortages. A node that has pods and is not in `nodes` offers no GPUs."""
    held = Counter[str]()
    for pod in pods:
        if (node := _node_of(pod)) and holds_gpu(pod):
            held[node] += _held(pod)
    offered = {str(field(node, "metadata", "name")): gpus_offered(node) for node in nodes}
    found = (Shortage(node, offered.get(node, 0), number) for node, number in held.items())
    return [one for one in found if one.held > one.offered]


def shortage_of(pods: Sequence[Manifest], short: Sequence[Shortage]) -> Shortage | None:
    """Return the shortage of a node on which one of `pods` holds a GPU, or `None`."""
    nodes = {_node_of(pod) for pod in pods if holds_gpu(pod) and _held(pod)}
    return next((one for one in short if one.node in nodes), None)


def gpus_offered(node: Manifest) -> int:
    """Return the number of allocatable GPUs of a node."""
    return _count(field(node, "status", "allocatable", GPU_RESOURCE))


def holds_gpu(pod: Manifest) -> bool:
    """Return whether `pod` holds its GPUs. A pod that has ended holds none, but may still exist.

    Source: Kubernetes documentation, "Pod Lifecycle": a pod in phase Succeeded or Failed no longer
    uses resources of its node.
    """
    return field(pod, "status", "phase") not in {"Succeeded", "Failed"}


def _node_of(pod: Manifest) -> str:
    return str(field(pod, "spec", "nodeName") or "")


def _held(pod: Manifest) -> int:
    return sum(
        _count(field(one, "resources", "limits", GPU_RESOURCE))
        for one in items(pod, "spec", "containers")
    )


def _count(amount: object) -> int:
    return int(Quantity.parsed_or_zero(amount))
