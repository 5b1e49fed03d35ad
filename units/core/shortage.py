"""Nodes that offer fewer GPUs than the pods on them hold: a card is lost, or the node is. Pure.

Whoever took over stock there would not start: its GPU is among those that are handed out too much.
"""

from collections import Counter
from collections.abc import Sequence

from gpuplatform.formats.quantity import Quantity
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.pods import GPU_RESOURCE
from units.core.observed import Shortage, holds_gpu


def shortages(pods: Sequence[Manifest], nodes: Sequence[Manifest]) -> list[Shortage]:
    """Return the nodes that are short of GPUs; one that pods are on and nobody lists offers none.

    A pod counts whoever it belongs to.
    """
    held = Counter[str]()
    for pod in pods:
        if (node := _node_of(pod)) and holds_gpu(pod):
            held[node] += _held(pod)
    offered = {str(field(node, "metadata", "name")): gpus_offered(node) for node in nodes}
    found = (Shortage(node, offered.get(node, 0), number) for node, number in held.items())
    return [one for one in found if one.held > one.offered]


def shortage_of(pods: Sequence[Manifest], short: Sequence[Shortage]) -> Shortage | None:
    """Return the shortage of the node that one of these pods holds a GPU of, if there is one."""
    nodes = {_node_of(pod) for pod in pods if holds_gpu(pod) and _held(pod)}
    return next((one for one in short if one.node in nodes), None)


def gpus_offered(node: Manifest) -> int:
    """Return how many GPUs a node can hand out at present."""
    return _count(field(node, "status", "allocatable", GPU_RESOURCE))


def _node_of(pod: Manifest) -> str:
    return str(field(pod, "spec", "nodeName") or "")


def _held(pod: Manifest) -> int:
    return sum(
        _count(field(one, "resources", "limits", GPU_RESOURCE))
        for one in items(pod, "spec", "containers")
    )


def _count(amount: object) -> int:
    try:
        return int(Quantity.parse(str(amount or "0")))
    except ValueError:
        return 0
