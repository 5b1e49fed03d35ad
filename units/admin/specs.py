"""The catalogue in the admin: entries are changed through the services, as by the API."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.action import ActionAdmin
from gpuplatform.adminkit.detail.links import ObjectPage, register_object_page
from gpuplatform.adminkit.detail.panels import Detail, Document, Fact, Panel, Related, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import as_yaml, shortened, visible
from gpuplatform.adminkit.lists.filters import YesNoFilter
from gpuplatform.operations.admin import RELATED_JOBS, operations_of
from gpuplatform.operations.models import Operation
from gpuplatform.samples.selectors import latest_capacity
from inventory.models import GpuSpec
from units.admin.detail import HEALTHY_PHASES, LISTS, SPEC_URL, unit_line
from units.admin.spec_actions import CREATE, SPEC_ACTIONS
from units.admin.spec_columns import SpecColumns, put_counts
from units.models import GpuUnit
from units.phases import UnitPhase, UnitRole
from units.services.names import UnitOperation

SPEC_KIND = "GPUSpec"
SMALLER_OR_LARGER = "Ask for less in one unit, correct its placement, or add a node that fits it."
SHOWN_UNITS = 6
MOST_BATCHES = 1_000
"""So many of the newest seedings, and of the newest removals, are looked through."""


class EnabledFilter(YesNoFilter):
    """Whether anything is claimed or seeded."""

    title = "state"
    parameter_name = "enabled"
    field = "is_enabled"
    words = ("Enabled", "Disabled")


class PausedFilter(YesNoFilter):
    """Whether the warm target is left alone."""

    title = "top-up"
    parameter_name = "paused"
    field = "is_top_up_paused"
    words = ("Paused", "Not paused")


@admin.register(GpuSpec)
class GpuSpecAdmin(SpecColumns, ActionAdmin):
    """What a GPU spec gives, how much stock is kept of it, and how its units stand."""

    row_actions = SPEC_ACTIONS
    empty_text = (
        "There are no GPU specs yet. A spec says what one unit gets, and how much stock is kept"
        " of it. Enter one; the first seeding of a name enters it, too."
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
    search_help_text = "name, text or product"
    ordering = ("name",)
    sortable_by = ("name", "product", "changed")

    @override
    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        put_counts(changelist.result_list)
        return changelist

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
        yield Fact("Stock", self.standing(row))
        yield Fact("Warm target", str(row.warm_target))
        yield Fact("Top-up", self.obstacle(row))
        yield Fact("GPUs", str(row.gpu))
        yield Fact("CPU", row.cpu)
        yield Fact("Memory", row.memory)
        yield Fact("GPU product", row.product)
        yield Fact("Restock", "on delete" if row.restocks_on_delete else "never by itself")
        yield Fact("Preemption", "may evict others" if row.may_preempt else "evicts nobody")
        yield Fact.time("Entered", row.created_at)
        yield Fact.time("Changed", row.updated_at)


def _documents(row: GpuSpec) -> Sequence[Document]:
    return (Document("Placement", visible(as_yaml(row.placement))),) if row.placement else ()


def _misfit(row: GpuSpec) -> Panel | None:
    """Say that no node can ever hold one of it, as the last sample saw the nodes."""
    _, seen = latest_capacity()
    found = next((one for one in seen.specs if one.name == row.name), None) if seen else None
    if found is None or not found.misfit:
        return None
    return Panel(
        shape=Shape.FAILED,
        title="No node can ever hold it",
        text=visible(found.misfit),
        since=SafeString(""),
        next_step=SMALLER_OR_LARGER,
    )


def _not_ready(row: GpuSpec) -> Iterable[Related]:
    """Yield the newest of its stock, and of its units in use, that are not well."""
    titles = {UnitRole.STOCK: "Stock that is not ready", UnitRole.ACTIVE: "Units not ready"}
    ill = [phase for phase in UnitPhase if phase not in HEALTHY_PHASES]
    for role, title in titles.items():
        live = GpuUnit.objects.filter(role=role, spec_name=row.name, deleted_at__isnull=True)
        newest = live.filter(phase__in=ill).select_related("tenant").order_by("-id")
        url = f"{reverse(LISTS[role])}?spec={row.name}"
        yield Related(title, [unit_line(unit) for unit in newest[:SHOWN_UNITS]], url)


def _batches(row: GpuSpec) -> Iterable[int]:
    """Return the newest seedings and removals of its stock, looked for among the newest of all."""
    newest = [
        Operation.objects.filter(kind=kind).order_by("-id").values("pk")[:MOST_BATCHES]
        for kind in (UnitOperation.SEED, UnitOperation.REMOVE)
    ]
    among = Q(pk__in=newest[0]) | Q(pk__in=newest[1])
    found = Operation.objects.filter(among, payload__specName=row.name).order_by("-id")
    return list(found.values_list("pk", flat=True)[:RELATED_JOBS])


def _line(row: GpuSpec) -> RelatedRow:
    return RelatedRow(
        badge=shape_badge(Shape.READY if row.is_enabled else Shape.OFF, "GPU spec"),
        name=visible(row.name),
        url=reverse(SPEC_URL, args=[row.pk]),
        text=visible(row.description),
        since=age_html(row.updated_at),
    )


def _rows(number: int) -> Sequence[RelatedRow]:
    return [_line(row) for row in GpuSpec.objects.filter(pk=number)]


register_object_page(SPEC_KIND, ObjectPage(SPEC_URL, _rows))
