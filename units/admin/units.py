"""The lists of GPU units, stock and active, and their section of the overview."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.db.models import Case, Exists, Q, QuerySet, When
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.cluster_section import ClusterSectionAdmin
from gpuplatform.adminkit.actions.mirrors import MirrorAdmin
from gpuplatform.adminkit.detail.links import ObjectPage, register_object_page
from gpuplatform.adminkit.detail.panels import Detail, RelatedRow
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.causes import register_reasons
from gpuplatform.adminkit.display.text import TITLE_LENGTH, operation_id_html, shortened
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.adminkit.lists.filters import (
    AgeFilter,
    HistoryFilter,
    NamespaceFilter,
    PhaseTabs,
    ReasonFilter,
    SpecFilter,
    TenantFilter,
)
from gpuplatform.adminkit.lists.model_admin import ModelAdmin, Usage
from gpuplatform.adminkit.overview.failing import FailingRows
from gpuplatform.operations.admin import operation_url
from gpuplatform.reconciliation.inspection import Subject
from units.admin.actions import SEED, STOCK_ACTIONS, UNIT_ACTIONS
from units.admin.detail import (
    HEALTHY_PHASES,
    PAGES,
    PERMISSIONS,
    unit_detail,
    unit_line,
    unit_steps,
    unit_subject,
    unit_url,
)
from units.models import ActiveUnit, GpuUnit, ShortNode, StockUnit
from units.phases import UNIT_REASONS, UnitPhase, UnitReason, UnitRole
from units.selectors import StockState, stock_in, usage_by_tenant
from units.services.names import UNIT_KIND

MAX_SEEDED_UNITS: Final = 50
"""Maximum number of units on the page of a seeding."""

STATE_SHAPES: Final = {
    StockState.STARTING: Shape.PROGRESS,
    StockState.READY: Shape.READY,
    StockState.CLAIMED: Shape.WAITING,
    StockState.FAILED: Shape.FAILED,
    StockState.DELETING: Shape.PROGRESS,
}


class UnitReasonFilter(ReasonFilter):
    """The reason of the phase."""

    reasons = UNIT_REASONS


class StateFilter(admin.SimpleListFilter):
    """The state of stock in the capacity."""

    title = "state"
    parameter_name = "state"
    template = "admin/choice_filter.html"

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [(state.value, state.value.capitalize()) for state in StockState]

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in set(StockState):
            return queryset
        of_state = stock_in(StockState(self.value() or "")).order_by()
        return queryset.filter(pk__in=of_state.values("pk"))


class UnitAdmin(ClusterSectionAdmin, MirrorAdmin):
    """The common part of both lists and their pages."""

    role: ClassVar[UnitRole]
    search_order = 1
    healthy_phases = HEALTHY_PHASES
    list_display_links = ("name",)
    search_fields = ("name", "image", "uid")
    sortable_by: ClassVar[tuple[str, ...]] = ("name", "spec_column", "since")

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[GpuUnit]:
        rows: QuerySet[GpuUnit] = super().get_queryset(request)
        return rows.filter(role=self.role).select_related("tenant", "operation", "claimed_by")

    @override
    def live_rows(self) -> QuerySet[GpuUnit]:
        return GpuUnit.objects.filter(deleted_at__isnull=True, role=self.role)

    @override
    def failing(self) -> list[FailingRows]:
        """Return units that failed or lost GPUs, and those in a transient phase."""
        failed, transient = super().failing()
        # Without a short node the database reads no row for this.
        short = Exists(ShortNode.objects.all())
        on_lost_gpus = self.live_rows().filter(short, reason=UnitReason.GPUS_MISSING)
        others = transient.rows.exclude(reason=UnitReason.GPUS_MISSING)
        return [
            failed,
            replace(failed, rows=on_lost_gpus, cause=""),
            replace(transient, rows=others),
        ]

    @override
    def line(self, row: GpuUnit) -> RelatedRow:
        return unit_line(row)

    @override
    def detail(self, row: GpuUnit) -> Detail:
        return unit_detail(row)

    @override
    def subject(self, request: HttpRequest, row: GpuUnit) -> Subject | None:
        return unit_subject(row)


@admin.register(StockUnit)
class StockUnitAdmin(UnitAdmin):
    """Stock: which operation claimed it, and why it is not ready."""

    role = UnitRole.STOCK
    noun = "stock unit"
    sampled = UnitRole.STOCK
    row_actions = STOCK_ACTIONS
    search_order = 2
    empty_text = (
        "No stock yet. Stock is capacity that is ready, so that units start within seconds: seed"
        " stock, or set the warm target of a GPU spec."
    )
    creation = SEED
    list_display = (
        "phase_column",
        "name",
        "spec_column",
        "claim_column",
        "why_column",
        "since",
    )
    list_filter = (
        StateFilter,
        SpecFilter,
        UnitReasonFilter,
        AgeFilter,
        HistoryFilter,
        PhaseTabs,
    )
    search_help_text = "name, operationID or UID"

    @admin.display(description="Claimed by", empty_value="")
    def claim_column(self, row: GpuUnit) -> SafeString:
        """Return the operation that claimed it, or that a unit consumed it; empty otherwise."""
        if row.consumed_by:
            return shape_badge(Shape.OFF if row.deleted_at else Shape.PROGRESS, "Consumed")
        claim = row.claimed_by
        if claim is None or row.deleted_at:
            return SafeString("")
        return format_html(
            '{} <a href="{}">{}</a>',
            shape_badge(Shape.WAITING, "Claimed"),
            operation_url(claim),
            operation_id_html(claim.operation_id),
        )


@admin.register(ActiveUnit)
class ActiveUnitAdmin(UnitAdmin):
    """Active units: what users run."""

    role = UnitRole.ACTIVE
    noun = "unit"
    sampled = UnitRole.ACTIVE
    row_actions = UNIT_ACTIONS
    empty_text = (
        "No GPU units yet. Users create them through the API (POST /api/v1/gpu-units); each claims"
        " one ready stock unit."
    )
    list_display = (
        "phase_column",
        "name",
        "namespace",
        "spec_column",
        "image_column",
        "why_column",
        "since",
    )
    list_filter = (
        SpecFilter,
        UnitReasonFilter,
        TenantFilter,
        NamespaceFilter,
        AgeFilter,
        HistoryFilter,
        PhaseTabs,
    )
    search_help_text = "name, operationID, image or UID"
    sortable_by = ("name", "namespace", "spec_column", "since")

    @admin.display(description="Image")
    def image_column(self, row: GpuUnit) -> SafeString:
        """Return the image with its project, and the whole reference as tooltip."""
        name = "/".join(row.image.split("/")[-2:]).removeprefix("library/")
        title = shortened(row.image, TITLE_LENGTH)
        return format_html('<span title="{}">{}</span>', title, shortened(name, 40))

    @override
    def usage(self, tenants: Collection[int]) -> Mapping[int, Usage]:
        found = usage_by_tenant(tenants)
        return {tenant: Usage(**found.get(tenant, {})) for tenant in tenants}

    @override
    def page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer with the page of a unit; links by kind lead here for stock, too: redirect it."""
        stock = self._stock(object_id)
        return HttpResponseRedirect(unit_url(stock)) if stock else super().page(request, object_id)

    def _stock(self, object_id: str) -> GpuUnit | None:
        if not (object_id.isascii() and object_id.isdecimal() and len(object_id) < 19):
            return None
        return GpuUnit.objects.filter(pk=int(object_id), role=UnitRole.STOCK).first()


def _rows(row_id: int) -> Sequence[RelatedRow]:
    """Return the unit of a row; for the first of a seeding, the whole seeding, failed first."""
    failed_first = Case(When(phase=UnitPhase.FAILED, then=0), default=1)
    units = GpuUnit.objects.filter(_of_object(row_id))
    rows = units.order_by(failed_first, "id")[:MAX_SEEDED_UNITS]
    return [unit_line(row) for row in rows]


def _of_object(row_id: int) -> Q:
    """Return the condition for an operation's units: the one it names, or all of its seeding."""
    first = GpuUnit.objects.filter(pk=row_id, role=UnitRole.STOCK, operation__object_row=row_id)
    seeding = first.values_list("operation", flat=True).first()
    return Q(operation=seeding, role=UnitRole.STOCK) if seeding else Q(pk=row_id)


def _steps(row_id: int) -> Sequence[Step]:
    """Return the timeline of an active unit; the page of a seeding shows its progress instead."""
    unit = GpuUnit.objects.filter(pk=row_id, role=UnitRole.ACTIVE).first()
    return list(unit_steps(unit)) if unit else ()


def _subject(request: HttpRequest, row_id: int) -> Subject | None:
    """Return a unit's object in the cluster; for a seeding, that of its first unhealthy unit."""
    units = GpuUnit.objects.filter(_of_object(row_id), deleted_at__isnull=True).exclude(uid="")
    unhealthy_first = units.order_by(Case(When(phase__in=HEALTHY_PHASES, then=1), default=0), "id")
    unit = unhealthy_first.first()
    if unit is None or not request.user.has_perm(PERMISSIONS[UnitRole(unit.role)]):
        return None
    return unit_subject(unit)


register_reasons(UNIT_REASONS)
register_object_page(UNIT_KIND, ObjectPage(PAGES[UnitRole.ACTIVE], _rows, _steps, _subject))
