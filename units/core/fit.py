"""Whether any node could ever hold one unit of a GPU spec, were it empty. Pure.

Sizes are those that a node was built with, so that a device that is away for a while is not
taken for one that was never there. Taints and affinities are left to the scheduler's own words.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gpuplatform.formats.quantity import Quantity
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest

_NONE: Final = Quantity(0)
_ENOUGH: Final = Quantity(2**127)
_EVERYWHERE: Final = frozenset({"cpu", "memory"})


def misfit(wanted: Mapping[str, str], labels: Mapping[str, str], nodes: Sequence[Manifest]) -> str:
    """Return why no node can ever hold it, as a sentence; empty where one can, or none is known.

    Args:
        wanted: quantities by the name of the resource, as a pod asks for them.
        labels: those that the node has to have.
        nodes: as the cluster has them.
    """
    fitting = [node for node in nodes if _has(node, labels)]
    if nodes and not fitting:
        told = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        return f"No node has the labels that it asks for: {told}."
    if not nodes or any(_holds(node, wanted) for node in fitting):
        return ""
    told = "; ".join(filter(None, (_beyond(name, wanted[name], fitting) for name in wanted)))
    return f"One unit asks for {told}." if told else "No node has all that it asks for at once."


def _has(node: Manifest, labels: Mapping[str, str]) -> bool:
    return all(field(node, "metadata", "labels", key) == value for key, value in labels.items())


def _holds(node: Manifest, wanted: Mapping[str, str]) -> bool:
    return all(_read(amount) <= _size(node, name) for name, amount in wanted.items())


def _beyond(name: str, amount: str, nodes: Sequence[Manifest]) -> str:
    largest = max(_size(node, name) for node in nodes)
    if _read(amount) <= largest:
        return ""
    return f"{amount} {name}, and the largest node has {largest.canonical()}"


def _size(node: Manifest, name: str) -> Quantity:
    """Return what a node has of a resource; of one that every node has, unknown is enough."""
    told = [field(node, "status", what, name) for what in ("capacity", "allocatable")]
    if name in _EVERYWHERE and not any(told):
        return _ENOUGH
    return max(map(_read, told))


def _read(text: object) -> Quantity:
    try:
        return Quantity.parse(str(text or "0"))
    except ValueError:
        return _NONE
