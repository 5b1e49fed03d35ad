"""Computes the capacity: units by GPU spec, and GPUs by GPU product.

The rows show which GPUs are in use, and the nodes of the cluster show which GPUs exist. If the
cluster has exactly one GPU product, GPU specs without a product belong to it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from gpuplatform.errors import ClusterError, OperatorUnavailable
from gpuplatform.formats.quantity import Quantity
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import NODE, Manifest
from gpuplatform.kube.modes import get_cluster
from gpuplatform.samples.capacity import Capacity, ProductCapacity, SpecCapacity
from gpuplatform.workloads.pods import GPU_RESOURCE
from inventory.models import GpuSpec
from inventory.selectors import pods_held, specs_all
from units.core.fit import misfit
from units.selectors import StockState, capacity_by_spec

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"

READ_SECONDS: Final = 2.0

HELD_BY_POOLS: Final = "held_by_pools"
ACTIVE: Final = "active"
USES: Final = (HELD_BY_POOLS, *(state.value for state in StockState), ACTIVE)
"""The uses of GPUs; each GPU that is held or requested counts for exactly one use."""


def capacity() -> Capacity:
    """Return the current capacity. Runs three queries and lists the nodes."""
    nodes = _nodes()
    specs = _specs(nodes or ())
    if nodes is None:
        return Capacity(specs=specs)
    products = _products(specs, nodes)
    free = {product.name: product.free for product in products}
    return Capacity(specs=[_with_free(spec, free) for spec in specs], products=products)


def _specs(nodes: Sequence[Manifest]) -> list[SpecCapacity]:
    products = {_product_of(node) for node in nodes} - {""}
    only_product = products.pop() if len(products) == 1 else ""
    counts = {spec.name: spec for spec in capacity_by_spec()}
    entries = {entry.name: entry for entry in specs_all()}
    pods, gpus_of_pools = Counter[str](), Counter[str]()
    for held in pods_held():
        pods[held.spec_name] += held.pods
        gpus_of_pools[held.spec_name] += held.pods * held.gpu
    found = []
    for name in sorted(counts.keys() | entries.keys() | pods.keys()):
        counted = counts.get(name) or SpecCapacity(name=name)
        columns = {
            **_catalogued(entries.get(name), nodes),
            "product": _wanted_product(entries.get(name)) or only_product,
            "pods_of_pools": pods[name],
            "gpus": {
                **dict.fromkeys(USES, 0),
                **counted.gpus,
                HELD_BY_POOLS: gpus_of_pools[name],
            },
        }
        found.append(counted.model_copy(update=columns))
    return found


def _catalogued(entry: GpuSpec | None, nodes: Sequence[Manifest]) -> dict[str, Any]:
    """Return the fields of a GPU spec that come from the catalogue."""
    if entry is None:
        return {"is_catalogued": False}
    return {
        "gpu": entry.gpu,
        "is_enabled": entry.is_enabled,
        "warm_target": entry.warm_target,
        "is_top_up_paused": entry.is_top_up_paused,
        "misfit": _misfit(entry, nodes),
    }


def _with_free(spec: SpecCapacity, free_gpus: Mapping[str, int]) -> SpecCapacity:
    free = free_gpus.get(spec.product)
    if free is None or not spec.gpu:
        return spec
    return spec.model_copy(update={"free": free // spec.gpu})


def _misfit(entry: GpuSpec, nodes: Sequence[Manifest]) -> str:
    labels = dict(field(entry.placement, "nodeSelector") or {})
    if entry.product:
        labels[PRODUCT_LABEL] = entry.product
    requested = {"cpu": entry.cpu, "memory": entry.memory, GPU_RESOURCE: str(entry.gpu)}
    return misfit({name: amount for name, amount in requested.items() if amount}, labels, nodes)


def _products(specs: Sequence[SpecCapacity], nodes: Sequence[Manifest]) -> list[ProductCapacity]:
    held: dict[str, Counter[str]] = {}
    for spec in specs:
        held.setdefault(spec.product, Counter()).update(_on_nodes(spec))
    of_product, total, allocatable = Counter[str](), Counter[str](), Counter[str]()
    for node in nodes:
        name, offered = _product_of(node), _gpus_of(node, "allocatable")
        built_in = max(_gpus_of(node, "capacity"), offered)
        of_product[name] += 1 if built_in else 0
        total[name] += built_in
        allocatable[name] += offered
    in_use = {name for name, uses in held.items() if any(uses.values())}
    names = sorted({name for name in of_product if of_product[name]} | in_use)
    return [
        ProductCapacity(
            name=name,
            nodes=of_product[name],
            total=total[name],
            allocatable=allocatable[name],
            free=max(allocatable[name] - _placed(held.get(name, Counter())), 0),
            gpus={use: held.get(name, Counter())[use] for use in USES},
        )
        for name in names
    ]


def _placed(gpus: Mapping[str, int]) -> int:
    """Return the number of GPUs that are held. Failed stock units hold none."""
    return sum(gpus.values()) - gpus[StockState.FAILED.value]


def _on_nodes(spec: SpecCapacity) -> dict[str, int]:
    """Return the number of GPUs by use, without pending requests if the GPU spec fits no node."""
    unplaced = {StockState.STARTING.value, StockState.FAILED.value} if spec.misfit else set()
    return {use: number for use, number in spec.gpus.items() if use not in unplaced}


def _nodes() -> list[Manifest] | None:
    with suppress(ClusterError, OperatorUnavailable), deadline(READ_SECONDS):
        return get_cluster().list(NODE).items
    return None


def _product_of(node: Manifest) -> str:
    return str(field(node, "metadata", "labels", PRODUCT_LABEL) or "")


def _gpus_of(node: Manifest, what: str) -> int:
    return int(Quantity.parsed_or_zero(field(node, "status", what, GPU_RESOURCE)))


def _wanted_product(entry: GpuSpec | None) -> str:
    if entry is None:
        return ""
    return entry.product or str(field(entry.placement, "nodeSelector", PRODUCT_LABEL) or "")
