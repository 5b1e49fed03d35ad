"""Computes the capacity: units by GPU spec, and GPUs by GPU product and resource.

The mirror of the nodes shows which GPUs exist and which pods hold them, and the rows of units and
pools show for which use. GPUs that are requested and that no node holds are *wanted*. Each
extended resource is counted separately: a node can offer whole GPUs and MIG slices.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuplatform.kube.kinds import Manifest
from gpuplatform.samples.capacity import Capacity, ProductCapacity, SpecCapacity
from gpuplatform.workloads.holders import NodeRecord
from gpuplatform.workloads.placement import PRODUCT_LABEL
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import GpuSpec
from inventory.selectors import (
    node_records_known,
    pods_held,
    pool_uids,
    spec_requirements,
    specs_all,
)
from units.core.capacity import (
    ACTIVE,
    HELD_BY_POOLS,
    OTHERS,
    GpuUse,
    held_by_spec,
    units_that_fit,
    use_by_product,
)
from units.core.fit import misfit
from units.selectors import StockState, capacity_by_spec, quantities_of, uses_by_owner

SPEC_USES: Final = (HELD_BY_POOLS, *(state.value for state in StockState), ACTIVE)
"""The uses of the GPUs of a GPU spec."""

USES: Final = (*SPEC_USES, OTHERS)
"""The uses of GPUs; each GPU that a pod holds counts for exactly one use."""


def capacity() -> Capacity:
    """Return the current capacity. Runs at most seven queries, and reads only rows."""
    records = node_records_known()
    entries = {entry.name: entry for entry in specs_all()}
    found = None if records is None else [*records.values()]
    uses = owner_uses() if found else {}
    specs = _specs(entries, found, uses)
    if found is None:
        return Capacity(specs=specs)
    return Capacity(specs=specs, products=_products(found, uses, entries))


def owner_uses() -> dict[str, str]:
    """Return the use of the GPUs of each unit and stock pool by its UID."""
    return {**dict.fromkeys(pool_uids(), HELD_BY_POOLS), **uses_by_owner()}


def _specs(
    entries: Mapping[str, GpuSpec], records: Sequence[NodeRecord] | None, uses: Mapping[str, str]
) -> list[SpecCapacity]:
    counts = {spec.name: spec for spec in capacity_by_spec()}
    pods, requested = Counter[str](), dict[str, Counter[str]]()
    for held in pods_held():
        pods[held.spec_name] += held.pods
        of_spec = requested.setdefault(held.spec_name, Counter())
        of_spec[held.resource_name] += held.pods * held.gpu
    for name, counted in counts.items():
        for resource, by_use in counted.gpus_by_resource.items():
            requested.setdefault(name, Counter())[resource] += sum(by_use.values())
    on_nodes = held_by_spec(records or (), uses)
    manifests = [_manifest(record) for record in records or () if record.state.is_present]
    found = []
    for name in sorted(counts.keys() | entries.keys() | pods.keys()):
        counted, entry = counts.get(name) or SpecCapacity(name=name), entries.get(name)
        held_here, wanted = on_nodes.get(name, {}), requested.get(name, Counter())
        resource = entry.resource_name if entry else min(wanted, default=GPU_RESOURCE)
        columns = {
            **_catalogued(entry, records, manifests),
            "resource_name": resource,
            "pods_of_pools": pods[name],
            "gpus_by_resource": {
                one: {use: held_here.get(one, Counter())[use] for use in SPEC_USES}
                for one in sorted({resource, *held_here, *wanted})
            },
            "wanted_by_resource": {
                one: max(number - held_here.get(one, Counter()).total(), 0)
                for one, number in sorted(wanted.items())
            },
        }
        found.append(counted.model_copy(update=columns))
    return found


def _catalogued(
    entry: GpuSpec | None, records: Sequence[NodeRecord] | None, nodes: Sequence[Manifest]
) -> dict[str, Any]:
    """Return the fields of a GPU spec that come from the catalogue, and where it fits."""
    if entry is None:
        return {"is_catalogued": False, "is_enabled": False}
    pod = spec_requirements(entry)
    is_known = records is not None and entry.gpu > 0
    return {
        "gpu": entry.gpu,
        "product": pod.node_selector.get(PRODUCT_LABEL, ""),
        "is_enabled": entry.is_enabled,
        "warm_target": entry.warm_target,
        "is_top_up_paused": entry.is_top_up_paused,
        "misfit": misfit(quantities_of(entry), pod.node_selector, nodes),
        "free": units_that_fit(records or (), pod) if is_known else None,
    }


def _manifest(record: NodeRecord) -> Manifest:
    """Return the fields of the node object that decide whether a unit fits the empty node."""
    state = record.state
    return {
        "metadata": {"name": state.name, "labels": dict(state.labels)},
        "status": {"capacity": dict(state.capacity), "allocatable": dict(state.allocatable)},
    }


def _products(
    records: Sequence[NodeRecord], uses: Mapping[str, str], entries: Mapping[str, GpuSpec]
) -> list[ProductCapacity]:
    """Return the capacity of the default resource, and of all resources of GPU specs and pods."""
    by_product = use_by_product(records, uses)
    counted = {GPU_RESOURCE, *(entry.resource_name for entry in entries.values())}
    counted |= {resource for (_, resource), use in by_product.items() if _is_ours(use)}
    return [
        product_capacity(product, resource, use)
        for (product, resource), use in sorted(by_product.items())
        if resource in counted and (use.nodes or use.excess)
    ]


def _is_ours(use: GpuUse) -> bool:
    return any(
        number
        for held in (use.held, use.excess)
        for name, number in held.items()
        if name != OTHERS
    )


def product_capacity(product: str, resource: str, use: GpuUse) -> ProductCapacity:
    """Return the capacity of a resource of a GPU product."""
    return ProductCapacity(
        name=product,
        resource_name=resource,
        nodes=use.nodes,
        total=use.total,
        allocatable=use.allocatable,
        free=use.free,
        free_unschedulable=use.unschedulable,
        largest_free=use.largest_free,
        gpus={one: use.held.get(one, 0) for one in USES},
        excess=sum(use.excess.values()),
    )
