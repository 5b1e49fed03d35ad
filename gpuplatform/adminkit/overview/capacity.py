"""The capacity on the overview: a bar for each GPU spec and each GPU product, and the totals."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.charts import Segment, stacked_bar
from gpuplatform.adminkit.display.text import counted, gpus_text, visible
from gpuplatform.samples.capacity import Capacity, ProductCapacity, SpecCapacity
from gpuplatform.workloads.resources import GPU_RESOURCE

SHOWN_SPECS: Final = 12
SHOWN_PRODUCTS: Final = 8

USES: Final[Mapping[str, str]] = {
    "held_by_pools": "held by pools",
    "active": "in units",
    "claimed": "claimed",
    "ready": "stock ready",
    "withheld": "withheld",
    "starting": "starting",
    "failed": "failed",
    "deleting": "terminating",
    "others": "other programs",
    "free": "free",
}
"""The labels of the uses of a GPU, in the order of the segments of a bar."""

_BEFORE_READY: Final = ("held_by_pools", "active", "claimed")


@dataclass(frozen=True, slots=True)
class SpecBar:
    """A GPU spec on the overview."""

    name: str
    url: str
    about: str
    drawing: SafeString
    summary: str
    failed: int
    notes: str
    is_short: bool
    misfit: str
    """The reason why a unit does not fit on any node, or an empty string if it fits."""


@dataclass(frozen=True, slots=True)
class ProductBar:
    """A GPU product on the overview."""

    name: str
    about: str
    drawing: SafeString
    summary: str


@dataclass(frozen=True, slots=True)
class CapacityView:
    """The capacity cards of the overview."""

    specs: Sequence[SpecBar] = ()
    further_specs: int = 0
    products: Sequence[ProductBar] | None = ()
    further_products: int = 0
    total: str = "0"
    """The number of GPUs of the main resource."""
    allocatable: str = ""
    """The number of allocatable GPUs, or an empty string if all GPUs are allocatable."""
    gpu_sums: str = ""
    ready: str = "0"
    warm_target: int = 0
    stock_sums: str = ""
    idle: str = ""


def capacity_view(capacity: Capacity, spec_url: Callable[[str], str]) -> CapacityView:
    """Return the capacity cards; the specs that lack the most stock come first."""
    specs = sorted(capacity.specs, key=lambda spec: (-_lack(spec), spec.name))
    products = capacity.products or ()
    largest = sorted(products, key=lambda product: -product.total)
    main = _main_resource(products)
    of_main = [product for product in products if product.resource_name == main]
    total = sum(product.total for product in of_main)
    allocatable = sum(product.allocatable for product in of_main)
    return CapacityView(
        specs=[_spec_bar(spec, spec_url) for spec in specs[:SHOWN_SPECS]],
        further_specs=max(len(specs) - SHOWN_SPECS, 0),
        products=None
        if capacity.products is None
        else [_product_bar(product) for product in largest[:SHOWN_PRODUCTS]],
        further_products=max(len(largest) - SHOWN_PRODUCTS, 0),
        total=f"{total:,}",
        allocatable="" if allocatable == total else f"{allocatable:,}",
        gpu_sums=_gpu_sums(capacity, main),
        ready=f"{sum(spec.ready for spec in specs):,}",
        warm_target=sum(spec.warm_target for spec in specs if spec.is_enabled),
        stock_sums=_stock_sums(specs),
        idle=_hours(
            sum(spec.idle_gpu_seconds_day for spec in specs if spec.resource_name == main)
        ),
    )


def _main_resource(products: Sequence[ProductCapacity]) -> str:
    """Return the resource of the totals: the default resource, or the largest if it has none.

    Numbers of different resources are not added.
    """
    totals = Counter[str]()
    for product in products:
        totals[product.resource_name] += product.total
    if totals[GPU_RESOURCE] or not +totals:
        return GPU_RESOURCE
    return totals.most_common(1)[0][0]


def _spec_bar(spec: SpecCapacity, spec_url: Callable[[str], str]) -> SpecBar:
    per_unit = spec.gpu or 1
    numbers = dict(spec.gpus) if spec.gpu else _by_units(spec)
    if spec.gpu:
        numbers["free"] = (spec.free or 0) * spec.gpu
    text = partial(gpus_text, resource_name=spec.resource_name) if spec.gpu else _units
    segments = [_segment(use, numbers.get(use, 0), text, label) for use, label in USES.items()]
    held = sum(numbers.get(use, 0) for use in _BEFORE_READY)
    target = spec.warm_target if spec.is_enabled else 0
    shown = [segment.text for segment in segments if segment.number]
    description = (
        f"{visible(spec.name)}: {', '.join(shown) or 'nothing'}; warm target {target} units."
    )
    return SpecBar(
        name=visible(spec.name),
        url=spec_url(spec.name),
        about=_about(spec),
        drawing=stacked_bar(
            segments, description, mark=held + target * per_unit if target else None
        ),
        summary=f"{spec.ready} ready (target {target})" if target else f"{spec.ready} ready",
        notes=_notes(spec),
        is_short=_missing(spec) > 0,
        failed=spec.failed,
        misfit=visible(spec.misfit),
    )


def _product_bar(product: ProductCapacity) -> ProductBar:
    numbers = {**product.gpus, "free": product.free}
    text = partial(gpus_text, resource_name=product.resource_name)
    segments = [_segment(use, numbers.get(use, 0), text, label) for use, label in USES.items()]
    unavailable = product.total - product.allocatable
    if unavailable > 0:
        segments.append(_segment("away", unavailable, text, "not allocatable"))
    shown = ", ".join(segment.text for segment in segments if segment.number > 0)
    name = visible(product.name) or "No GPU product"
    if product.resource_name != GPU_RESOURCE:
        name = f"{name} \u00b7 {visible(product.resource_name)}"
    nodes = counted(product.nodes, "node")
    return ProductBar(
        name=name,
        about=f"{nodes}, {unavailable} not allocatable" if unavailable > 0 else nodes,
        drawing=stacked_bar(segments, f"{name}: {shown or 'nothing'}."),
        summary=_free_text(product),
    )


def _free_text(product: ProductCapacity) -> str:
    """Return the numbers of free GPUs: in total, of one node, and of nodes without new pods."""
    parts = [f"{product.free} of {product.allocatable} free"]
    if product.largest_free < product.free - product.free_unschedulable:
        parts.append(f"at most {product.largest_free} on one node")
    if product.free_unschedulable:
        parts.append(f"{product.free_unschedulable} on nodes that accept no pods")
    if product.excess:
        parts.append(f"{product.excess} held without a GPU")
    return ", ".join(parts)


def _segment(use: str, number: int, text: Callable[[int], str], label: str) -> Segment:
    return Segment(use, number, f"{text(number)} {label}")


def _units(number: int) -> str:
    return counted(number, "unit")


def _by_units(spec: SpecCapacity) -> dict[str, int]:
    return {
        "held_by_pools": spec.pods_of_pools,
        "active": spec.active,
        "claimed": spec.claimed,
        "ready": spec.ready,
        "withheld": spec.withheld,
        "starting": spec.starting,
        "failed": spec.failed,
        "deleting": spec.deleting,
    }


def _lack(spec: SpecCapacity) -> int:
    """Return the number of stock units that a spec lacks, for sorting.

    A unit that does not fit on any node counts as one more.
    """
    return _missing(spec) + spec.failed + bool(spec.misfit and spec.is_enabled)


def _missing(spec: SpecCapacity) -> int:
    """Return the number of ready units that are missing from the warm target."""
    is_topped_up = spec.is_enabled and not spec.is_top_up_paused
    return max(spec.warm_target - spec.ready, 0) if is_topped_up else 0


def _about(spec: SpecCapacity) -> str:
    if not spec.is_catalogued:
        return "not in the catalogue"
    if not spec.gpu:
        return "no GPU"
    if spec.resource_name == GPU_RESOURCE:
        return f"{spec.gpu} \u00d7 {visible(spec.product) or 'GPU'}"
    product = f" of {visible(spec.product)}" if spec.product else ""
    return f"{spec.gpu} \u00d7 {visible(spec.resource_name)}{product}"


def _notes(spec: SpecCapacity) -> str:
    waiting = gpus_text(spec.wanted, spec.resource_name)
    notes = [
        f"{spec.withheld} withheld" if spec.withheld else "",
        f"{waiting} wanted" if spec.wanted else "",
        f"{spec.starting} starting" if spec.starting else "",
        "disabled" if spec.is_catalogued and not spec.is_enabled else "",
        "top-up paused" if spec.is_top_up_paused else "",
        f"{_hours(spec.idle_gpu_seconds_day)} idle" if spec.idle_gpu_seconds_day else "",
    ]
    return " · ".join(note for note in notes if note)


def _gpu_sums(capacity: Capacity, main: str) -> str:
    """Return the uses of the main resource, and the free amounts of the other resources."""
    used, free, offered = Counter[str](), Counter[str](), Counter[str]()
    for product in capacity.products or ():
        if product.resource_name == main:
            used.update(product.gpus)
        free[product.resource_name] += product.free
        offered[product.resource_name] += product.allocatable
    used["free"] = free[main]
    always = ("active", "ready", "held_by_pools")
    further = [use for use in USES if used[use] and use not in {*always, "free"}]
    sums = [f"{used[use]:,} {USES[use]}" for use in (*always, *further, "free")]
    others = sorted(offered.keys() - {main})
    sums += [f"{free[one]:,} of {gpus_text(offered[one], one)} free" for one in others]
    return " · ".join(sums)


def _stock_sums(specs: Sequence[SpecCapacity]) -> str:
    sums = {
        "claimed": sum(spec.claimed for spec in specs),
        "starting": sum(spec.starting for spec in specs),
        "failed": sum(spec.failed for spec in specs),
    }
    return " · ".join(f"{number:,} {name}" for name, number in sums.items() if number)


def _hours(gpu_seconds: int) -> str:
    """Return GPU-seconds as a text in GPU-hours."""
    hours = gpu_seconds / 3600
    return f"{hours:,.0f} GPU-h" if hours >= 10 else f"{hours:.1f} GPU-h"
