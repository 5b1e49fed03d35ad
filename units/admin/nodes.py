"""The nodes in the admin: their GPUs, the pods that hold them, and drains."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from django.contrib import admin
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.panels import Copy, Detail, Document, Fact, Related, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.text import NONE, as_yaml, gpus_text, visible
from gpuplatform.adminkit.display.urls import list_url, page_url
from gpuplatform.adminkit.lists.filters import ChoiceFilter, recent_values
from gpuplatform.adminkit.lists.model_admin import ModelAdmin, column
from gpuplatform.operations.admin import operations_of
from gpuplatform.samples.capacity import ProductCapacity
from gpuplatform.workloads.nodes import PRESSURES
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import Node, NodeDrain
from inventory.selectors import node_record
from inventory.services.cordons import NODE_KIND
from units.admin.drain_actions import DRAIN_ACTIONS
from units.admin.drain_parts import drain_facts, drain_related
from units.admin.node_actions import CORDON_ACTIONS
from units.admin.node_parts import (
    all_squares,
    capacity_badge,
    free_text,
    node_badge,
    node_legend,
    node_note,
    node_panel,
    node_squares,
    offered,
    own_taints,
    pod_lines,
)
from units.models import ActiveUnit, StockUnit
from units.node_capacity import NodeCapacity, node_capacities

_DRAINS: Final = NodeDrain.objects.filter(node=OuterRef("name"))
_STATES: Final = {
    "ready": ("Ready", Q(is_present=True, is_ready=True, is_schedulable=True, pressures=[])),
    "cordoned": ("Cordoned", Q(is_present=True, is_schedulable=False)),
    "draining": (
        "Draining or drained",
        Q(Exists(NodeDrain.objects.filter(node=OuterRef("name")))),
    ),
    "notready": ("Not ready", Q(is_present=True, is_ready=False)),
    "pressure": ("Under pressure", Q(is_present=True) & ~Q(pressures=[])),
    "deleted": ("Deleted", Q(is_present=False)),
}
"""The label and the condition of each choice of the filter. A node can match several."""


class StateFilter(ChoiceFilter):
    """A filter by the scheduling state of nodes."""

    title = "state"
    parameter_name = "state"

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [(value, label) for value, (label, _) in _STATES.items()]

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = _STATES.get(self.value() or "")
        return queryset.filter(chosen[1]) if chosen else queryset


def _set_capacities(rows: Sequence[Any]) -> None:
    for row, found in zip(rows, node_capacities(rows), strict=True):
        row.capacity_found = found


def _capacity_of(row: Any) -> NodeCapacity:
    """Return the capacity that the list has set on a row, or the current capacity."""
    if not hasattr(row, "capacity_found"):
        _set_capacities([row])
    found: NodeCapacity = row.capacity_found
    return found


def _each(row: Node, value: Any) -> SafeString | str:
    """Return a value of each resource of a node on separate lines."""
    shown = [value(one) for one in offered(_capacity_of(row))]
    if not shown:
        return NONE
    return format_html_join("", '<span class="line">{}</span>', ((one,) for one in shown))


@admin.register(Node)
class NodeAdmin(ActionAdmin):
    """The list and the pages of nodes."""

    row_actions = (*CORDON_ACTIONS, *DRAIN_ACTIONS)
    empty_text = (
        "No nodes yet. The controller copies the nodes of the cluster, and the pods that hold"
        " their GPUs."
    )
    search_order = 9
    line_fields = (
        *("name", "product", "labels", "capacity", "allocatable", "is_present", "is_ready"),
        *("is_schedulable", "taints", "pressures", "holders", "changed_at"),
    )
    object_kind = NODE_KIND
    list_display = ("state", "name", "product", "squares", "free", "largest", "note", "changed")
    list_display_links = ("name",)
    list_filter = (StateFilter, recent_values("product", "product"))
    search_fields = ("name", "product")
    search_help_text = "name or product"
    ordering = ("name",)
    sortable_by = ("name", "product", "changed")

    state = column("State", lambda row: capacity_badge(_capacity_of(row)))
    squares = column("GPUs", lambda row: all_squares(_capacity_of(row)) or NONE)
    free = column("Free", lambda row: _each(row, free_text))
    largest = column("Largest block", lambda row: _each(row, lambda one: one.largest_free))
    note = column("Note", lambda row: node_note(_capacity_of(row)), empty="")
    changed = column("Changed", lambda row: age_html(row.changed_at), ordering="-changed_at")

    @override
    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        _set_capacities(rows)

    @override
    def line(self, row: Node) -> RelatedRow:
        """Return a node as a line; without queries, because pages show several lines."""
        record = node_record(row)
        offered_gpus, room = record.state.gpus, record.room
        free = [
            f"{max(room[name], 0)} of {gpus_text(number, name)} free"
            for name, number in sorted(offered_gpus.items())
        ]
        return RelatedRow(
            badge=node_badge(record.state),
            name=visible(row.name),
            url=page_url(row),
            text=visible(" · ".join(one for one in (row.product, *free) if one)),
            since=age_html(row.changed_at),
        )

    @override
    def detail(self, row: Node) -> Detail:
        node = _capacity_of(row)
        return Detail(
            title=row.name,
            badge=capacity_badge(node),
            since=age_html(row.changed_at),
            panel=node_panel(node),
            facts=[fact for fact in _facts(node) if fact.value],
            copies=[Copy("Describe", visible(f"kubectl describe node {row.name}"))],
            related=[
                *drain_related(node.drain),
                Related("Pods that hold GPUs", list(pod_lines(node))),
                operations_of(NODE_KIND, row.pk),
            ],
            documents=[Document("Labels", visible(as_yaml(row.labels)))] if row.labels else [],
        )


def _facts(node: NodeCapacity) -> Iterable[Fact]:
    row, state = node.row, node.record.state
    yield Fact("GPU product", visible(row.product))
    for one in offered(node):
        yield Fact(_label(one), node_squares(node, one, links=True))
        yield Fact("Use", node_legend(one))
        yield Fact("Free", free_text(one))
        yield Fact("Largest free block", str(one.largest_free))
    yield Fact("Units", _links(row))
    yield Fact("Cordoned", "no" if row.is_schedulable else "yes")
    yield from drain_facts(node.drain)
    yield Fact("Pressure", visible(", ".join(one for one in PRESSURES if one in row.pressures)))
    yield Fact("Taints", visible(", ".join(map(str, own_taints(state)))))
    yield Fact("CPU", visible(str(row.allocatable.get("cpu", ""))))
    yield Fact("Memory", visible(str(row.allocatable.get("memory", ""))))
    yield Fact.time("Changed", row.changed_at)


def _label(resource: ProductCapacity) -> str:
    return "GPUs" if resource.resource_name == GPU_RESOURCE else visible(resource.resource_name)


def _links(row: Node) -> SafeString:
    """Return links to the units and the stock on a node."""
    return format_html(
        '<a href="{}?node={}">GPU units</a> · <a href="{}?node={}">Stock units</a>',
        *(list_url(ActiveUnit), row.name, list_url(StockUnit), row.name),
    )
