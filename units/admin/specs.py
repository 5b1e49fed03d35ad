"""The catalogue in the admin."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.panels import Detail, Document, Fact, Panel, Related, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, enabled_badge, shape_badge
from gpuplatform.adminkit.display.text import (
    as_yaml,
    gpu_value,
    resources_value,
    shortened,
    visible,
)
from gpuplatform.adminkit.display.urls import list_url, page_url
from gpuplatform.adminkit.lists.filters import YesNoFilter
from gpuplatform.adminkit.lists.model_admin import column
from gpuplatform.operations.admin import RELATED_OPERATIONS, operations_of
from gpuplatform.operations.models import Operation
from gpuplatform.samples.capacity import SpecCapacity
from gpuplatform.samples.selectors import latest_capacity
from inventory.models import GpuSpec
from inventory.products import offered_products, possible_products
from units.admin.detail import HEALTHY_PHASES, MODELS, unit_line
from units.admin.spec_actions import CREATE, SPEC_ACTIONS
from units.admin.units import STATE_SHAPES
from units.admin.warm_images import warm_images
from units.core.withheld import withheld_text
from units.models import ActiveUnit, GpuUnit, StockUnit
from units.phases import UnitPhase, UnitRole
from units.selectors import StockState, capacity_by_spec, stock_withheld
from units.services.names import UnitOperation
from units.services.obstacles import top_up_obstacle

SPEC_KIND = "GPUSpec"
MISFIT_NEXT_STEP = "Reduce the size of a unit, correct the placement, or add a suitable node."
WITHHELD_NEXT_STEP = "Correct the state of the nodes. Until then, other stock is claimed."
SHOWN_UNITS = 6
MAX_BATCHES = 1_000
"""Maximum number of the newest seedings, and of removals, that a page searches for its spec."""


class EnabledFilter(YesNoFilter):
    """A filter by whether the GPU spec is enabled."""

    title = "state"
    parameter_name = "enabled"
    field = "is_enabled"
    labels = ("Enabled", "Disabled")


class PausedFilter(YesNoFilter):
    """A filter by whether the top-up is paused."""

    title = "top-up"
    parameter_name = "paused"
    field = "is_top_up_paused"
    labels = ("Paused", "Not paused")


def _set_counts(rows: Iterable[Any]) -> None:
    """Set the counts of the units on each row, with one query."""
    counts = {one.name: one for one in capacity_by_spec()}
    for row in rows:
        row.counts = counts.get(row.name) or SpecCapacity(name=row.name)


def _counts_of(row: Any) -> SpecCapacity:
    """Return the counts that the list has set on a row, or the current counts."""
    if not hasattr(row, "counts"):
        _set_counts([row])
    found: SpecCapacity = row.counts
    return found


def _stock_counts(counts: SpecCapacity) -> SafeString:
    url = f"{list_url(StockUnit)}?spec={counts.name}"
    numbers = [(state, getattr(counts, state.value)) for state in StockState]
    shown = [(state, number) for state, number in numbers if number]
    if not shown:
        return SafeString('<span class="off">none</span>')
    return format_html_join(
        " ",
        '<a href="{}">{}</a>',
        (
            (f"{url}&state={state}", shape_badge(STATE_SHAPES[state], f"{number} {state}"))
            for state, number in shown
        ),
    )


def _size(row: GpuSpec) -> str:
    cpu = f"{row.cpu} CPU" if row.cpu else ""
    return " · ".join(part for part in (cpu, row.memory) if part)


def _top_up(row: GpuSpec) -> SafeString:
    if not row.warm_target:
        return shape_badge(Shape.OFF, "Manual")
    if row.is_top_up_paused:
        return shape_badge(Shape.WAITING, "Paused")
    return shape_badge(Shape.READY, "Active")


def _active(row: GpuSpec) -> SafeString:
    """Return the number of active units of a GPU spec as a link to their list."""
    url = f"{list_url(ActiveUnit)}?spec={row.name}"
    return format_html('<a href="{}">{}</a>', url, _counts_of(row).active)


@admin.register(GpuSpec)
class GpuSpecAdmin(ActionAdmin):
    """The list and the pages of GPU specs."""

    row_actions = SPEC_ACTIONS
    empty_text = (
        "No GPU specs yet. A GPU spec defines the size of a unit and the warm target of its stock."
        " Create a GPU spec, then seed stock of it."
    )
    search_order = 4
    line_fields = ("name", "description", "is_enabled", "updated_at")
    object_kind = SPEC_KIND
    creation = CREATE
    list_display = (
        "state",
        "name",
        "gpus",
        "size",
        "product",
        "target",
        "top_up",
        "stock",
        "active",
        "changed",
    )
    list_display_links = ("name",)
    list_filter = (EnabledFilter, PausedFilter)
    search_fields = ("name", "description", "product")
    search_help_text = "name, description or product"
    ordering = ("name",)
    sortable_by = ("name", "product", "changed")

    state = column("State", lambda row: enabled_badge(is_enabled=row.is_enabled))
    gpus = column("GPUs", lambda row: gpu_value(row.gpu, row.resource_name))
    size = column("CPU, memory", _size, empty="")
    target = column("Warm target", lambda row: row.warm_target)
    top_up = column("Top-up", _top_up)
    stock = column("Stock", lambda row: _stock_counts(_counts_of(row)))
    active = column("Units", _active)
    changed = column("Changed", lambda row: age_html(row.updated_at), ordering="-updated_at")

    @override
    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        _set_counts(rows)

    @override
    def line(self, row: GpuSpec) -> RelatedRow:
        return RelatedRow(
            badge=shape_badge(Shape.READY if row.is_enabled else Shape.OFF, "GPU spec"),
            name=visible(row.name),
            url=page_url(row),
            text=visible(row.description),
            since=age_html(row.updated_at),
        )

    @override
    def detail(self, row: GpuSpec) -> Detail:
        return Detail(
            title=row.name,
            badge=enabled_badge(is_enabled=row.is_enabled),
            since=age_html(row.updated_at),
            panel=_misfit(row) or _withheld(row),
            facts=[fact for fact in self._facts(row) if fact.value],
            related=[
                *_not_ready(row),
                *warm_images(row),
                operations_of(SPEC_KIND, row.pk, *_batches(row)),
            ],
            documents=_documents(row),
        )

    def _facts(self, row: GpuSpec) -> Iterable[Fact]:
        yield Fact("Description", shortened(row.description, 200))
        yield Fact("Stock", _stock_summary(row))
        yield Fact("Warm target", str(row.warm_target))
        yield Fact("Top-up", _top_up_text(row))
        yield Fact("GPUs", gpu_value(row.gpu, row.resource_name))
        yield Fact("Further resources", resources_value(row.resources))
        yield Fact("CPU", row.cpu)
        yield Fact("Memory", row.memory)
        yield Fact("GPU product", _product(row))
        yield Fact("Warm images", visible(", ".join(row.warm_images)))
        yield Fact("Pull secrets", _pull_secrets(row))
        yield Fact("Restock on delete", "yes" if row.restocks_on_delete else "no")
        yield Fact("Preemption", "allowed" if row.may_preempt else "not allowed")
        yield Fact.time("Created", row.created_at)
        yield Fact.time("Changed", row.updated_at)


def _product(row: GpuSpec) -> str:
    """Return the GPU product of a GPU spec, or the products of which a unit can get any."""
    products = possible_products(row, offered_products()) or ()
    if len(products) > 1:
        return f"any of {len(products)}: {visible(', '.join(products))}"
    return visible(row.product)


def _pull_secrets(row: GpuSpec) -> str:
    return visible(", ".join(secret["name"] for secret in row.image_pull_secrets))


def _stock_summary(row: GpuSpec) -> SafeString:
    """Return the numbers of units of a GPU spec on one line."""
    counts = _counts_of(row)
    return format_html(
        "{} · {} units · {} in stock ({} seeded, {} consumed, {} removed)",
        _stock_counts(counts),
        counts.active,
        counts.total,
        counts.seeded,
        counts.consumed,
        counts.deleted,
    )


def _top_up_text(row: GpuSpec) -> str:
    """Return the reason that prevents the top-up, or Active with the surplus of ready stock."""
    if not row.warm_target:
        return "Off, because the warm target is 0"
    surplus = _counts_of(row).ready - row.warm_target
    above = f": {surplus} ready above the target, which remain until they are claimed or removed"
    return top_up_obstacle(row) or f"Active{above if surplus > 0 else ''}"


def _documents(row: GpuSpec) -> Sequence[Document]:
    return (Document("Placement", visible(as_yaml(row.placement))),) if row.placement else ()


def _misfit(row: GpuSpec) -> Panel | None:
    """Return an explanation if a unit does not fit on any node of the last sample."""
    _, capacity = latest_capacity()
    found = (
        next((one for one in capacity.specs if one.name == row.name), None) if capacity else None
    )
    if found is None or not found.misfit:
        return None
    return Panel(
        shape=Shape.FAILED,
        title="Does not fit on any node",
        text=visible(found.misfit),
        since=SafeString(""),
        next_step=MISFIT_NEXT_STEP,
    )


def _withheld(row: GpuSpec) -> Panel | None:
    """Return the number of withheld stock units, with the states of their nodes."""
    text = withheld_text(stock_withheld(row.name)) if _counts_of(row).withheld else ""
    if not text:
        return None
    return Panel(
        shape=Shape.WAITING,
        title="Stock is withheld",
        text=text.strip(),
        since=SafeString(""),
        next_step=WITHHELD_NEXT_STEP,
    )


def _not_ready(row: GpuSpec) -> Iterable[Related]:
    """Yield the newest unhealthy stock units and active units of a GPU spec."""
    titles = {
        UnitRole.STOCK: "Stock that is not ready",
        UnitRole.ACTIVE: "Units that are not ready",
    }
    unhealthy = [phase for phase in UnitPhase if phase not in HEALTHY_PHASES]
    live = GpuUnit.objects.filter(
        spec_name=row.name, deleted_at__isnull=True, phase__in=unhealthy
    ).order_by("-id")
    stock, active = (live.filter(role=role)[:SHOWN_UNITS] for role in titles)
    found = list(stock.union(active, all=True).order_by("-id"))
    for role, title in titles.items():
        url = f"{list_url(MODELS[role])}?spec={row.name}"
        yield Related(title, [unit_line(unit) for unit in found if unit.role == role], url)


def _batches(row: GpuSpec) -> Iterable[int]:
    """Return the ids of the newest seedings and removals of a GPU spec."""
    newest = [
        Operation.objects.filter(kind=kind).order_by("-id").values("pk")[:MAX_BATCHES]
        for kind in (UnitOperation.SEED, UnitOperation.REMOVE)
    ]
    recent = Q(pk__in=newest[0]) | Q(pk__in=newest[1])
    found = Operation.objects.filter(recent, payload__specName=row.name).order_by("-id")
    return list(found.values_list("pk", flat=True)[:RELATED_OPERATIONS])
