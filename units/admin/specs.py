"""The catalogue in the admin; changes go through the services of the API."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.links import ObjectPage, register_object_page
from gpuplatform.adminkit.detail.panels import Detail, Document, Fact, Panel, Related, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import as_yaml, shortened, visible
from gpuplatform.adminkit.lists.filters import YesNoFilter
from gpuplatform.operations.admin import RELATED_OPERATIONS, operations_of
from gpuplatform.operations.models import Operation
from gpuplatform.samples.capacity import SpecCapacity
from gpuplatform.samples.selectors import latest_capacity
from inventory.models import GpuSpec
from units.admin.detail import HEALTHY_PHASES, LISTS, SPEC_URL, unit_line
from units.admin.spec_actions import CREATE, SPEC_ACTIONS
from units.admin.units import STATE_SHAPES
from units.models import GpuUnit
from units.phases import UnitPhase, UnitRole
from units.selectors import StockState, capacity_by_spec
from units.services.names import UnitOperation
from units.services.stock import top_up_obstacle

SPEC_KIND = "GPUSpec"
MISFIT_NEXT_STEP = "Request less per unit, correct the placement, or add a suitable node."
SHOWN_UNITS = 6
MAX_BATCHES = 1_000
"""Maximum number of the newest seedings, and removals, that are searched for those of a spec."""


class EnabledFilter(YesNoFilter):
    """Whether the spec is enabled."""

    title = "state"
    parameter_name = "enabled"
    field = "is_enabled"
    labels = ("Enabled", "Disabled")


class PausedFilter(YesNoFilter):
    """Whether the top-up is paused."""

    title = "top-up"
    parameter_name = "paused"
    field = "is_top_up_paused"
    labels = ("Paused", "Not paused")


@admin.register(GpuSpec)
class GpuSpecAdmin(ActionAdmin):
    """The GPU specs: size of a unit, warm target and stock."""

    row_actions = SPEC_ACTIONS
    empty_text = (
        "No GPU specs yet. A spec defines the size of one unit and the warm target of its stock."
        " Create one; seeding stock of a new name creates one, too."
    )
    search_order = 4
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
        "in_use",
        "changed",
    )
    list_display_links = ("name",)
    list_filter = (EnabledFilter, PausedFilter)
    search_fields = ("name", "description", "product")
    search_help_text = "name, description or product"
    ordering = ("name",)
    sortable_by = ("name", "product", "changed")

    @admin.display(description="State")
    def state(self, row: GpuSpec) -> SafeString:
        """Return whether it is enabled."""
        if row.is_enabled:
            return shape_badge(Shape.READY, "Enabled")
        return shape_badge(Shape.OFF, "Disabled")

    @admin.display(description="GPUs")
    def gpus(self, row: GpuSpec) -> int:
        """Return the number of GPUs of one unit."""
        return row.gpu

    @admin.display(description="CPU, memory", empty_value="")
    def size(self, row: GpuSpec) -> str:
        """Return CPU and memory of one unit."""
        cpu = f"{row.cpu} CPU" if row.cpu else ""
        return " · ".join(part for part in (cpu, row.memory) if part)

    @admin.display(description="Warm target")
    def target(self, row: GpuSpec) -> int:
        """Return the warm target."""
        return row.warm_target

    @admin.display(description="Top-up")
    def top_up(self, row: GpuSpec) -> SafeString:
        """Return whether stock is created automatically."""
        if not row.warm_target:
            return shape_badge(Shape.OFF, "Manual")
        if row.is_top_up_paused:
            return shape_badge(Shape.WAITING, "Paused")
        return shape_badge(Shape.READY, "Active")

    @admin.display(description="Stock")
    def stock(self, row: GpuSpec) -> SafeString:
        """Return the stock by state, each as a link to its list."""
        return _stock_counts(_counts_of(row))

    @admin.display(description="In use")
    def in_use(self, row: GpuSpec) -> SafeString:
        """Return the number of its active units."""
        url = f"{reverse(LISTS[UnitRole.ACTIVE])}?spec={row.name}"
        return format_html('<a href="{}">{}</a>', url, _counts_of(row).active)

    @admin.display(description="Changed", ordering="-updated_at")
    def changed(self, row: GpuSpec) -> SafeString:
        """Return the time since the last change."""
        return age_html(row.updated_at)

    @override
    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        _set_counts(rows)

    @override
    def line(self, row: GpuSpec) -> RelatedRow:
        return _line(row)

    @override
    def detail(self, row: GpuSpec) -> Detail:
        return Detail(
            title=row.name,
            badge=self.state(row),
            since=age_html(row.updated_at),
            panel=_misfit(row),
            facts=[fact for fact in self._facts(row) if fact.value],
            related=[*_not_ready(row), operations_of(SPEC_KIND, row.pk, *_batches(row))],
            documents=_documents(row),
        )

    def _facts(self, row: GpuSpec) -> Iterable[Fact]:
        yield Fact("Description", shortened(row.description, 200))
        yield Fact("Stock", _stock_summary(row))
        yield Fact("Warm target", str(row.warm_target))
        yield Fact("Top-up", _top_up_text(row))
        yield Fact("GPUs", str(row.gpu))
        yield Fact("CPU", row.cpu)
        yield Fact("Memory", row.memory)
        yield Fact("GPU product", row.product)
        yield Fact("Restock on delete", "yes" if row.restocks_on_delete else "no")
        yield Fact("Preemption", "allowed" if row.may_preempt else "not allowed")
        yield Fact.time("Created", row.created_at)
        yield Fact.time("Changed", row.updated_at)


def _set_counts(rows: Iterable[Any]) -> None:
    """Set the counts of the units on each row, from one query."""
    counts = {one.name: one for one in capacity_by_spec()}
    for row in rows:
        row.counts = counts.get(row.name) or SpecCapacity(name=row.name)


def _counts_of(row: Any) -> SpecCapacity:
    """Return the counts that the list has set on the row, or the present ones."""
    if not hasattr(row, "counts"):
        _set_counts([row])
    found: SpecCapacity = row.counts
    return found


def _stock_counts(counts: SpecCapacity) -> SafeString:
    url = f"{reverse(LISTS[UnitRole.STOCK])}?spec={counts.name}"
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


def _stock_summary(row: GpuSpec) -> SafeString:
    """Return the counts in one line."""
    counts = _counts_of(row)
    return format_html(
        "{} · {} in use · {} in stock ({} seeded, {} consumed, {} removed)",
        _stock_counts(counts),
        counts.active,
        counts.total,
        counts.seeded,
        counts.consumed,
        counts.deleted,
    )


def _top_up_text(row: GpuSpec) -> str:
    """Return what prevents the top-up, if anything."""
    if not row.warm_target:
        return "Off: the warm target is 0."
    return top_up_obstacle(row) or "Active"


def _documents(row: GpuSpec) -> Sequence[Document]:
    return (Document("Placement", visible(as_yaml(row.placement))),) if row.placement else ()


def _misfit(row: GpuSpec) -> Panel | None:
    """Return that a unit does not fit on any node of the last sample."""
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


def _not_ready(row: GpuSpec) -> Iterable[Related]:
    """Yield the newest unhealthy ones of its stock and of its active units."""
    titles = {
        UnitRole.STOCK: "Stock that is not ready",
        UnitRole.ACTIVE: "Units that are not ready",
    }
    unhealthy = [phase for phase in UnitPhase if phase not in HEALTHY_PHASES]
    for role, title in titles.items():
        live = GpuUnit.objects.filter(role=role, spec_name=row.name, deleted_at__isnull=True)
        newest = live.filter(phase__in=unhealthy).select_related("tenant").order_by("-id")
        url = f"{reverse(LISTS[role])}?spec={row.name}"
        yield Related(title, [unit_line(unit) for unit in newest[:SHOWN_UNITS]], url)


def _batches(row: GpuSpec) -> Iterable[int]:
    """Return the ids of its newest seedings and removals, among the newest of all specs."""
    newest = [
        Operation.objects.filter(kind=kind).order_by("-id").values("pk")[:MAX_BATCHES]
        for kind in (UnitOperation.SEED, UnitOperation.REMOVE)
    ]
    recent = Q(pk__in=newest[0]) | Q(pk__in=newest[1])
    found = Operation.objects.filter(recent, payload__specName=row.name).order_by("-id")
    return list(found.values_list("pk", flat=True)[:RELATED_OPERATIONS])


def _line(row: GpuSpec) -> RelatedRow:
    return RelatedRow(
        badge=shape_badge(Shape.READY if row.is_enabled else Shape.OFF, "GPU spec"),
        name=visible(row.name),
        url=reverse(SPEC_URL, args=[row.pk]),
        text=visible(row.description),
        since=age_html(row.updated_at),
    )


def _rows(row_id: int) -> Sequence[RelatedRow]:
    return [_line(row) for row in GpuSpec.objects.filter(pk=row_id)]


register_object_page(SPEC_KIND, ObjectPage(SPEC_URL, _rows))
