"""Whether any empty node could hold one unit of a GPU spec. Pure.

The size of a node is the larger one of capacity and allocatable, so that a failed device does not
make a spec impossible. Taints and affinities are left to the scheduler.
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
    """Return why no node could hold a unit, as a sentence; empty if one could, or none is known.

    Args:
        wanted: requested quantities by resource name.
        labels: labels that the node must have.
        nodes: the nodes of the cluster.
    """
    fitting = [node for node in nodes if _has(node, labels)]
    if nodes and not fitting:
        missing = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        return f"No node has the required labels: {missing}."
    if not nodes or any(_holds(node, wanted) for node in fitting):
        return ""
    excess = "; ".join(filter(None, (_excess(name, wanted[name], fitting) for name in wanted)))
    return (
        f"One unit requests {excess}." if excess else "No single node has all requested amounts."
    )


def _has(node: Manifest, labels: Mapping[str, str]) -> bool:
    return all(field(node, "metadata", "labels", key) == value for key, value in labels.items())


def _holds(node: Manifest, wanted: Mapping[str, str]) -> bool:
    return all(_read(amount) <= _size(node, name) for name, amount in wanted.items())


def _excess(name: str, amount: str, nodes: Sequence[Manifest]) -> str:
    largest = max(_size(node, name) for node in nodes)
    if _read(amount) <= largest:
        return ""
    return f"{amount} {name}, but the largest node has {largest.canonical()}"


def _size(node: Manifest, name: str) -> Quantity:
    """Return a node's amount of a resource; unlimited if unknown and every node has it."""
    known = [field(node, "status", what, name) for what in ("capacity", "allocatable")]
    if name in _EVERYWHERE and not any(known):
        return _ENOUGH
    return max(map(_read, known))


def _read(text: object) -> Quantity:
    try:
        return Quantity.parse(str(text or "0"))
    except ValueError:
        return _NONE
