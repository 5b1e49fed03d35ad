"""Stock pools in the admin."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import Shape, phase_badge
from gpuplatform.adminkit.counts import capped, phase_counts
from gpuplatform.adminkit.dashboard import Count, Failure, Tile, register_dashboard_part
from gpuplatform.adminkit.detail import (
    Comparison,
    Detail,
    Document,
    Fact,
    Panel,
    RelatedRow,
    condition_lines,
)
from gpuplatform.adminkit.filters import HistoryFilter, PhaseTabs, RecentValues
from gpuplatform.adminkit.generics import ModelAdmin
from gpuplatform.adminkit.links import ObjectPage, register_object_page
from gpuplatform.adminkit.readonly import ReadOnlyAdmin
from gpuplatform.adminkit.text import as_yaml, shortened, visible, why, words
from gpuplatform.operations.models import Operation
from inventory.models import StockPool
from inventory.phases import NEXT_STEPS, PoolPhase, PoolReason

KIND = "StockPool"
LIST_URL = "admin:inventory_stockpool_changelist"
PAGE_URL = "admin:inventory_stockpool_change"
DASHBOARD_FAILURES = 8
RELATED_OPERATIONS = 10


class SpecFilter(RecentValues):
    """The GPU spec."""

    title = "spec"
    parameter_name = "spec"
    fields = ("spec_name",)


class NamespaceFilter(RecentValues):
    """The namespace."""

    title = "namespace"
    parameter_name = "namespace"
    fields = ("namespace",)


class ReasonFilter(admin.SimpleListFilter):
    """Why the phase is what it is."""

    title = "why"
    parameter_name = "why"
    template = "admin/choice_filter.html"

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [(reason.value, words(reason.value)) for reason in PoolReason]

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(reason=self.value()) if self.value() else queryset


@admin.register(StockPool)
class StockPoolAdmin(ReadOnlyAdmin):
    """The pools that operators keep, and how they are."""

    list_display = (
        "phase_column",
        "name",
        "namespace",
        "spec_column",
        "replicas",
        "why_column",
        "since",
    )
    list_display_links = ("name",)
    list_filter = (SpecFilter, ReasonFilter, NamespaceFilter, HistoryFilter, PhaseTabs)
    search_fields = ("name", "operation__operation_id")
    search_help_text = "name or operationID"
    sortable_by = ("name", "namespace", "spec_column", "since")

    @admin.display(description="Phase")
    def phase_column(self, row: StockPool) -> SafeString:
        """Return the badge."""
        return _badge(row)

    @admin.display(description="Spec", ordering="spec_name")
    def spec_column(self, row: StockPool) -> str:
        """Return the GPU spec."""
        return row.spec_name

    @admin.display(description="Ready")
    def replicas(self, row: StockPool) -> str:
        """Return how many of the wanted pods run."""
        return f"{row.available_replicas}/{row.desired_replicas}"

    @admin.display(description="Why", empty_value="")
    def why_column(self, row: StockPool) -> SafeString:
        """Return reason and message on one line; nothing for a pool that is well."""
        return why(row.reason, row.message) if row.phase != PoolPhase.READY else SafeString("")

    @admin.display(description="Since", ordering="-phase_since")
    def since(self, row: StockPool) -> SafeString:
        """Return how long phase and reason are what they are."""
        return age_html(row.deleted_at or row.phase_since)

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[StockPool]:
        return super().get_queryset(request).select_related("tenant", "operation")

    @override
    def detail(self, row: StockPool) -> Detail:
        failed = row.phase == PoolPhase.FAILED
        operations = Operation.objects.filter(object_kind=KIND, object_row=row.pk).order_by("-id")
        return Detail(
            title=row.name,
            badge=_badge(row),
            since=age_html(row.deleted_at or row.phase_since),
            panel=_panel(row),
            facts=_facts(row),
            comparisons=_comparisons(row),
            comparison_note=_comparison_note(row),
            conditions=condition_lines(row.conditions, failed=failed),
            has_conditions=True,
            related_title="Jobs",
            related=[_operation_row(each) for each in operations[:RELATED_OPERATIONS]],
            documents=(Document("Spec", visible(as_yaml(row.spec))),),
        )


def _badge(row: StockPool) -> SafeString:
    return phase_badge("Deleted" if row.deleted_at else row.phase)


def _panel(row: StockPool) -> Panel | None:
    if row.deleted_at or row.phase == PoolPhase.READY or not row.reason:
        return None
    failed = row.phase == PoolPhase.FAILED
    known = row.reason in set(PoolReason)
    return Panel(
        shape=Shape.FAILED if failed else Shape.WAITING,
        title=words(row.reason),
        text=visible(row.message),
        since=age_html(row.phase_since),
        next_step=NEXT_STEPS[PoolReason(row.reason)] if known else "",
    )


def _facts(row: StockPool) -> Sequence[Fact]:
    spec = row.spec if isinstance(row.spec, dict) else {}
    facts = [
        Fact("GPU spec", row.spec_name),
        Fact("GPUs a pod", str(spec.get("gpu", ""))),
        Fact("Memory a pod", visible(str(spec.get("memory", "")))),
        Fact("Image", shortened(str(spec.get("image", "")), 512)),
        Fact("Namespace", row.namespace),
        Fact("UID", row.uid),
        Fact("Tenant", row.tenant.name if row.tenant else ""),
        Fact.time("Asked for", row.created_at),
        Fact.time("Last copied", row.last_sync_at),
        Fact.time("Deletion asked", row.deletion_requested_at),
        Fact.time("Deleted", row.deleted_at),
        Fact.time("Next look", row.due_at),
        Fact("Failed tries", str(row.failures) if row.failures else ""),
    ]
    return [fact for fact in facts if fact.value]


def _comparisons(row: StockPool) -> Sequence[Comparison]:
    if row.deleted_at:
        return ()
    spec = row.spec if isinstance(row.spec, dict) else {}
    template = spec.get("template")
    ports = template.get("ports") if isinstance(template, dict) else None
    lines = [
        Comparison("Replicas", str(row.desired_replicas), str(row.available_replicas)),
        Comparison("Generation", str(row.generation), str(row.observed_generation)),
    ]
    if ports or row.service_name:
        wanted = "yes" if ports else "none"
        seen = "none" if not row.service_name else row.service_name
        differs = bool(ports) != bool(row.service_name)
        lines.append(Comparison("Service", seen if not differs else wanted, seen))
    return lines


def _comparison_note(row: StockPool) -> str:
    if row.deleted_at:
        return "It is deleted; nothing is wanted any more."
    if not row.uid:
        return "The resource is not in the cluster yet."
    if row.generation != row.observed_generation:
        return "The last change of the spec has not been worked on yet."
    return ""


def _rows(number: int) -> Sequence[RelatedRow]:
    return [
        RelatedRow(
            badge=_badge(row),
            name=str(row),
            url=reverse(PAGE_URL, args=[row.pk]),
            text=shortened(row.message),
            since=age_html(row.phase_since),
        )
        for row in StockPool.objects.filter(pk=number)
    ]


def _operation_row(row: Operation) -> RelatedRow:
    return RelatedRow(
        badge=phase_badge(row.phase),
        name=visible(row.operation_id),
        url=reverse("admin:operations_operation_change", args=[row.pk]),
        text=row.kind,
        since=age_html(row.created_at),
    )


class StockPoolsOnDashboard:
    """The number of ready pools, and the pools that have failed."""

    def tiles(self, request: HttpRequest) -> Sequence[Tile]:
        """Return the tile of all existing pools."""
        if not request.user.has_perm("inventory.view_stockpool"):
            return ()
        counts = phase_counts(StockPool.objects.filter(deleted_at__isnull=True), PoolPhase.values)
        url = reverse(LIST_URL)
        return (
            Tile(
                title="Stock pools",
                number=capped(counts[PoolPhase.READY]),
                of=f"of {capped(sum(counts.values()))} ready",
                url=url,
                counts=[
                    Count(phase_badge(phase), capped(counts[phase]), f"{url}?phase={phase}")
                    for phase in PoolPhase.values
                    if counts[phase]
                ],
            ),
        )

    def failures(self, request: HttpRequest) -> Sequence[Failure]:
        """Return the pools that failed last."""
        if not request.user.has_perm("inventory.view_stockpool"):
            return ()
        rows = StockPool.objects.filter(deleted_at__isnull=True, phase=PoolPhase.FAILED)
        return [_failure(row) for row in rows.order_by("-phase_since")[:DASHBOARD_FAILURES]]


def _failure(row: StockPool) -> Failure:
    return Failure(
        badge=phase_badge(row.phase, "Pool"),
        name=str(row),
        url=reverse(PAGE_URL, args=[row.pk]),
        why=shortened(f"{row.reason}: {row.message}"),
        since=age_html(row.phase_since),
        order=row.phase_since.timestamp(),
    )


register_object_page(KIND, ObjectPage(PAGE_URL, _rows))
register_dashboard_part(StockPoolsOnDashboard())
