"""How much capacity there is: by GPU spec in units, by GPU product in GPUs.

Who has it is read from the rows; which GPUs exist, from the nodes of the cluster. GPUs of a spec
that asks for no product count as those of the only product, where the cluster has only one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from gpuplatform.errors import ClusterError, OperatorUnavailable
from gpuplatform.formats.quantity import Quantity
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import NODE, Manifest
from gpuplatform.kube.modes import get_cluster
from gpuplatform.workloads.pods import GPU_RESOURCE
from inventory.models import GpuSpec
from inventory.selectors import pods_held, specs_all
from units.core.fit import misfit
from units.selectors import SpecCapacity, StockState, capacity_by_spec, gpus_by_spec

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"

READ_SECONDS: Final = 2.0

HELD_BY_POOLS: Final = "held_by_pools"
ACTIVE: Final = "active"
USES: Final = (HELD_BY_POOLS, *(state.value for state in StockState), ACTIVE)
"""What holds or wants a GPU; each GPU is counted once."""


@dataclass(frozen=True, slots=True)
class SpecStanding:
    """A GPU spec and how its units stand."""

    name: str
    counts: SpecCapacity
    entry: GpuSpec | None
    """None for a spec that only hand-made objects name."""
    product: str
    """Empty: any."""
    pods_of_pools: int
    gpus: Mapping[str, int]
    """GPUs by what holds them, a key for each of `USES`."""
    misfit: str = ""
    """Why no node can ever hold a unit of it, as a sentence; empty where one can."""


@dataclass(frozen=True, slots=True)
class ProductStanding:
    """A GPU product and who has its GPUs."""

    name: str
    """Empty: nodes or specs that name none."""
    nodes: int
    total: int
    """GPUs that are built in; some may not be allocatable."""
    allocatable: int
    gpus: Mapping[str, int]

    @property
    def free(self) -> int:
        """GPUs that nothing of the platform holds; stock that could not be made holds none."""
        held = sum(self.gpus.values()) - self.gpus[StockState.FAILED.value]
        return max(self.allocatable - held, 0)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Both views; `products` is None when the cluster did not say which nodes it has."""

    specs: Sequence[SpecStanding]
    products: Sequence[ProductStanding] | None


def capacity() -> Capacity:
    """Return how the capacity stands: four queries and one list of nodes."""
    nodes = _nodes()
    named = {_product_of(node) for node in nodes or ()} - {""}
    specs = _specs(named.pop() if len(named) == 1 else "", nodes or ())
    return Capacity(specs, None if nodes is None else _products(specs, nodes))


def _specs(only_product: str, nodes: Sequence[Manifest]) -> list[SpecStanding]:
    counts = {one.spec_name: one for one in capacity_by_spec()}
    entries = {entry.name: entry for entry in specs_all()}
    gpus = gpus_by_spec()
    pods, gpus_of_pools = Counter[str](), Counter[str]()
    for held in pods_held():
        pods[held.spec_name] += held.pods
        gpus_of_pools[held.spec_name] += held.pods * held.gpu
    return [
        SpecStanding(
            name=name,
            counts=counts.get(name) or SpecCapacity(name, *[0] * 9),
            entry=entries.get(name),
            product=_wanted_product(entries.get(name)) or only_product,
            pods_of_pools=pods[name],
            gpus=dict.fromkeys(USES, 0)
            | gpus.get(name, {})
            | {HELD_BY_POOLS: gpus_of_pools[name]},
            misfit=_misfit(entries.get(name), nodes),
        )
        for name in sorted(counts.keys() | entries.keys() | pods.keys())
    ]


def _misfit(entry: GpuSpec | None, nodes: Sequence[Manifest]) -> str:
    if entry is None:
        return ""
    labels = dict(field(entry.placement, "nodeSelector") or {})
    if entry.product:
        labels[PRODUCT_LABEL] = entry.product
    asked = {"cpu": entry.cpu, "memory": entry.memory, GPU_RESOURCE: str(entry.gpu)}
    return misfit({name: amount for name, amount in asked.items() if amount}, labels, nodes)


def _products(specs: Sequence[SpecStanding], nodes: Sequence[Manifest]) -> list[ProductStanding]:
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
    return [
        ProductStanding(
            name=name,
            nodes=of_product[name],
            total=total[name],
            allocatable=allocatable[name],
            gpus={use: held.get(name, Counter())[use] for use in USES},
        )
        for name in sorted({name for name in of_product if of_product[name]} | in_use)
    ]


def _on_nodes(spec: SpecStanding) -> dict[str, int]:
    """Return the GPUs that it holds or waits for; what fits no node waits for none there is."""
    nowhere = {StockState.STARTING.value, StockState.FAILED.value} if spec.misfit else set()
    return {use: number for use, number in spec.gpus.items() if use not in nowhere}


def _nodes() -> list[Manifest] | None:
    with suppress(ClusterError, OperatorUnavailable), deadline(READ_SECONDS):
        return get_cluster().list(NODE).items
    return None


def _product_of(node: Manifest) -> str:
    return str(field(node, "metadata", "labels", PRODUCT_LABEL) or "")


def _gpus_of(node: Manifest, what: str) -> int:
    with suppress(ValueError):
        return int(Quantity.parse(str(field(node, "status", what, GPU_RESOURCE) or "0")))
    return 0


def _wanted_product(entry: GpuSpec | None) -> str:
    if entry is None:
        return ""
    return entry.product or str(field(entry.placement, "nodeSelector", PRODUCT_LABEL) or "")
