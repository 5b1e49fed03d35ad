"""Checks whether a unit fits an empty node, and counts the units that empty nodes can have. Pure.

The size of a node is the maximum of its capacity and its allocatable resources, so that a failed
device does not make a GPU spec impossible. Taints and affinities are not checked.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gpuplatform.formats.quantity import Quantity
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest

_ENOUGH: Final = Quantity(2**127)
_EVERYWHERE: Final = frozenset({"cpu", "memory"})


def misfit(wanted: Mapping[str, str], labels: Mapping[str, str], nodes: Sequence[Manifest]) -> str:
    """Return a sentence that explains why a unit fits no node.

    Returns an empty string if the unit fits a node, or if `nodes` is empty.

    Args:
        wanted: The requested quantities, by resource name.
        labels: The labels that the node must have.
        nodes: The nodes of the cluster.
    """
    fitting = [node for node in nodes if _has(node, labels)]
    if nodes and not fitting:
        missing = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        return f"No node has the required labels: {missing}."
    if not nodes or any(_holds(node, wanted) for node in fitting):
        return ""
    excess = "; ".join(filter(None, (_excess(name, wanted[name], fitting) for name in wanted)))
    return f"One unit requests {excess}." if excess else "No node has all requested resources."


def units_on_empty_nodes(
    wanted: Mapping[str, str], labels: Mapping[str, str], nodes: Sequence[Manifest]
) -> int | None:
    """Return the maximum number of units that the nodes could have if they were empty.

    The momentary state of a node does not matter: cordons, taints and failed devices can end.
    Returns `None` if no node has the labels and all of the resources, since nodes of an unknown
    size can be added, or if a unit requests no resources.

    The arguments are the same as of `misfit`.
    """
    parsed = {name: Quantity.parsed_or_zero(amount).nanos for name, amount in wanted.items()}
    amounts = {name: nanos for name, nanos in parsed.items() if nanos > 0}
    sizes = [
        {name: _size(node, name).nanos for name in amounts} for node in nodes if _has(node, labels)
    ]
    suitable = [size for size in sizes if all(size.values())]
    if not suitable or not amounts:
        return None
    return sum(min(size[name] // amount for name, amount in amounts.items()) for size in suitable)


def _has(node: Manifest, labels: Mapping[str, str]) -> bool:
    return all(field(node, "metadata", "labels", key) == value for key, value in labels.items())


def _holds(node: Manifest, wanted: Mapping[str, str]) -> bool:
    return all(
        Quantity.parsed_or_zero(amount) <= _size(node, name) for name, amount in wanted.items()
    )


def _excess(name: str, amount: str, nodes: Sequence[Manifest]) -> str:
    largest = max(_size(node, name) for node in nodes)
    if Quantity.parsed_or_zero(amount) <= largest:
        return ""
    return f"{amount} {name}, but the largest node has {largest.canonical()}"


def _size(node: Manifest, name: str) -> Quantity:
    """Return the amount of a resource of a node; unlimited for unreported CPU and memory."""
    known = [field(node, "status", what, name) for what in ("capacity", "allocatable")]
    if name in _EVERYWHERE and not any(known):
        return _ENOUGH
    return max(map(Quantity.parsed_or_zero, known))
