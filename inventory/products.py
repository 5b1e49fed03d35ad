"""The GPU products that the units of a GPU spec can get, from the mirror of the nodes.

A GPU spec that requires no GPU product runs on any node that offers its resource.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from gpuplatform.kube.fields import field
from gpuplatform.workloads.nodes import NodeState
from gpuplatform.workloads.placement import PRODUCT_LABEL
from inventory.models import GpuSpec
from inventory.selectors import cluster_seen, nodes_all

Offered: TypeAlias = Mapping[str, Sequence[str]]
"""The GPU products of the nodes by the resource that the nodes offer, sorted."""


def offered_products() -> Offered | None:
    """Return the GPU products of the nodes, or `None` if they are not known.

    Runs at most two queries.
    """
    nodes = nodes_all().filter(is_present=True)
    rows = list(nodes.values_list("product", "capacity", "allocatable"))
    if not rows and not cluster_seen():
        return None
    found: dict[str, set[str]] = {}
    for product, capacity, allocatable in rows:
        node = NodeState("", capacity=capacity, allocatable=allocatable)
        for resource, number in node.total_gpus.items():
            if number and product:
                found.setdefault(resource, set()).add(product)
    return {resource: sorted(names) for resource, names in found.items()}


def required_product(product: str, placement: Any) -> str:
    """Return the GPU product that nodes must have, or an empty string for any GPU product."""
    return product or str(field(placement, "nodeSelector", PRODUCT_LABEL) or "")


def possible_products(spec: GpuSpec, offered: Offered | None) -> Sequence[str] | None:
    """Return the GPU products that a unit of a GPU spec can get.

    Several products mean that the GPU spec requires none of them. Returns `None` if the products
    of the nodes are not known, and no product if a unit has no GPUs.
    """
    if not spec.gpu:
        return ()
    required = required_product(spec.product, spec.placement)
    if required:
        return (required,)
    return None if offered is None else offered.get(spec.resource_name, ())
