"""What the lists and pages of the catalogue say of an entry, and how its units stand."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.generics import ModelAdmin
from gpuplatform.samples.capacity import SpecCapacity
from inventory.models import GpuSpec
from units.admin.detail import LISTS
from units.admin.units import STATE_SHAPES
from units.phases import UnitRole
from units.selectors import StockState, capacity_by_spec
from units.services.stock import top_up_obstacle


class SpecColumns(ModelAdmin):
    """The columns and read-only fields of the catalogue."""

    @admin.display(description="State")
    def state(self, row: GpuSpec) -> SafeString:
        """Return whether it is enabled."""
        if row.is_enabled:
            return shape_badge(Shape.READY, "Enabled")
        return shape_badge(Shape.OFF, "Disabled")

    @admin.display(description="GPUs")
    def gpus(self, row: GpuSpec) -> int:
        """Return the GPUs of one unit."""
        return row.gpu

    @admin.display(description="CPU, memory", empty_value="")
    def size(self, row: GpuSpec) -> str:
        """Return what else one unit gets."""
        cpu = f"{row.cpu} CPU" if row.cpu else ""
        return " · ".join(part for part in (cpu, row.memory) if part)

    @admin.display(description="Warm target")
    def target(self, row: GpuSpec) -> int:
        """Return how many ready stock units are kept."""
        return row.warm_target

    @admin.display(description="Top-up")
    def top_up(self, row: GpuSpec) -> SafeString:
        """Return whether stock is made by itself."""
        if not row.warm_target:
            return shape_badge(Shape.OFF, "By hand")
        if row.is_top_up_paused:
            return shape_badge(Shape.WAITING, "Paused")
        return shape_badge(Shape.READY, "On")

    @admin.display(description="Stock")
    def stock(self, row: GpuSpec) -> SafeString:
        """Return the counts of its stock, each with the list behind it."""
        return _stock_counts(_counts_of(row))

    @admin.display(description="In use")
    def in_use(self, row: GpuSpec) -> SafeString:
        """Return how many units there are of it."""
        url = f"{reverse(LISTS[UnitRole.ACTIVE])}?spec={row.name}"
        return format_html('<a href="{}">{}</a>', url, _counts_of(row).active)

    @admin.display(description="Changed", ordering="-updated_at")
    def changed(self, row: GpuSpec) -> SafeString:
        """Return when it last changed."""
        return age_html(row.updated_at)

    @admin.display(description="Now")
    def standing(self, row: GpuSpec) -> SafeString:
        """Return the counts in one line."""
        counts = _counts_of(row)
        return format_html(
            "{} · {} in use · {} seeded, {} taken, {} removed: {} in stock",
            _stock_counts(counts),
            counts.active,
            counts.seeded,
            counts.consumed,
            counts.deleted,
            counts.total,
        )

    @admin.display(description="Top-up now")
    def obstacle(self, row: GpuSpec) -> str:
        """Return what keeps stock from being made by itself, if anything."""
        if not row.warm_target:
            return "The warm target is 0: only what is seeded."
        return top_up_obstacle(row) or "Nothing is in its way."


def put_counts(rows: Iterable[Any]) -> None:
    """Put on each row of the catalogue how its units stand: one query for all of them."""
    counts = {one.name: one for one in capacity_by_spec()}
    for row in rows:
        row.counts = counts.get(row.name) or SpecCapacity(name=row.name)


def _counts_of(row: Any) -> SpecCapacity:
    """Return the counts that the list has put on the row, or those of this moment."""
    if not hasattr(row, "counts"):
        put_counts([row])
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
