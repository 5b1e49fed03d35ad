"""The two lists of GPU units: stock, and units in use."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Case, Q, QuerySet, When
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
from gpuplatform.adminkit.display.generics import ModelAdmin
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
from gpuplatform.adminkit.lists.usage import Usage
from gpuplatform.operations.admin import operation_url
from gpuplatform.reconciliation.inspection import Subject
from units.admin.actions import SEED, STOCK_ACTIONS, UNIT_ACTIONS
from units.admin.detail import (
    HEALTHY_PHASES,
    PAGES,
    RIGHTS,
    unit_detail,
    unit_line,
    unit_steps,
    unit_subject,
    unit_url,
)
from units.models import ActiveUnit, GpuUnit, StockUnit
from units.phases import UNIT_REASONS, UnitPhase, UnitRole
from units.selectors import StockState, stock_in, usage_by_tenant
from units.services.names import UNIT_KIND

MOST_OF_A_SEEDING = 50

STATE_SHAPES = {
    StockState.STARTING: Shape.PROGRESS,
    StockState.READY: Shape.READY,
    StockState.CLAIMED: Shape.WAITING,
    StockState.FAILED: Shape.FAILED,
    StockState.DELETING: Shape.PROGRESS,
}


class UnitReasonFilter(ReasonFilter):
    """Why the phase is what it is."""

    reasons = UNIT_REASONS


class StateFilter(admin.SimpleListFilter):
    """How stock counts in the capacity."""

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
    """The shape of both lists and their pages."""

    role: ClassVar[UnitRole]
    search_order = 1
    well = HEALTHY_PHASES
    list_display_links = ("name",)
    search_fields = ("name", "image", "uid")
    sortable_by: ClassVar[tuple[str, ...]] = ("name", "spec_column", "since")

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[GpuUnit]:
        rows: QuerySet[GpuUnit] = super().get_queryset(request)
        return rows.filter(role=self.role).select_related("tenant", "operation", "claimed_by")

    @override
    def failed_rows(self) -> QuerySet[GpuUnit]:
        return super().failed_rows().filter(role=self.role)

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
    """Capacity held ready: who may have it, and why it is not ready."""

    role = UnitRole.STOCK
    row_actions = STOCK_ACTIONS
    search_order = 2
    empty_text = (
        "There is no stock yet. Stock is capacity held ready, so that a unit starts within"
        " seconds: seed some, or give a GPU spec a warm target."
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

    @admin.display(description="Set aside", empty_value="")
    def claim_column(self, row: GpuUnit) -> SafeString:
        """Return for which job it is set aside, or that a unit took it; nothing while it is free.

        What it counts as beyond that is its phase in other words.
        """
        if row.consumed_by:
            return shape_badge(Shape.OFF if row.deleted_at else Shape.PROGRESS, "Taken")
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
    """What users run."""

    role = UnitRole.ACTIVE
    row_actions = UNIT_ACTIONS
    empty_text = (
        "There are no GPU units yet. Users ask for them through the API, POST /api/v1/gpu-units;"
        " each takes one ready stock unit."
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
        """Return the image with its project, and the whole of it as the title."""
        name = "/".join(row.image.split("/")[-2:]).removeprefix("library/")
        title = shortened(row.image, TITLE_LENGTH)
        return format_html('<span title="{}">{}</span>', title, shortened(name, 40))

    @override
    def usage(self, tenants: Collection[int]) -> Mapping[int, Usage]:
        found = usage_by_tenant(tenants)
        return {tenant: Usage(**found.get(tenant, {})) for tenant in tenants}

    @override
    def page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a unit; of stock, which links by kind lead here for, show its own page."""
        stock = self._stock(object_id)
        return HttpResponseRedirect(unit_url(stock)) if stock else super().page(request, object_id)

    def _stock(self, object_id: str) -> GpuUnit | None:
        if not (object_id.isascii() and object_id.isdecimal() and len(object_id) < 19):
            return None
        return GpuUnit.objects.filter(pk=int(object_id), role=UnitRole.STOCK).first()


def _rows(number: int) -> Sequence[RelatedRow]:
    """Return the unit of a row; of a seeding, which names its first, all that it made.

    Those that failed come first.
    """
    failed_first = Case(When(phase=UnitPhase.FAILED, then=0), default=1)
    made = GpuUnit.objects.filter(_of_object(number))
    rows = made.order_by(failed_first, "id")[:MOST_OF_A_SEEDING]
    return [unit_line(row) for row in rows]


def _of_object(number: int) -> Q:
    """Return what finds a job's units: the one it names, or all that its seeding made."""
    first = GpuUnit.objects.filter(pk=number, role=UnitRole.STOCK, operation__object_row=number)
    seeding = first.values_list("operation", flat=True).first()
    return Q(operation=seeding, role=UnitRole.STOCK) if seeding else Q(pk=number)


def _steps(number: int) -> Sequence[Step]:
    """Return how an active unit came to be; a seeding's page has its own progress."""
    unit = GpuUnit.objects.filter(pk=number, role=UnitRole.ACTIVE).first()
    return list(unit_steps(unit)) if unit else ()


def _subject(request: HttpRequest, number: int) -> Subject | None:
    """Return a unit's subject; of a seeding that of the first unit which is not well."""
    made = GpuUnit.objects.filter(_of_object(number), deleted_at__isnull=True).exclude(uid="")
    ill_first = made.order_by(Case(When(phase__in=HEALTHY_PHASES, then=1), default=0), "id")
    unit = ill_first.first()
    if unit is None or not request.user.has_perm(RIGHTS[UnitRole(unit.role)]):
        return None
    return unit_subject(unit)


register_reasons(UNIT_REASONS)
register_object_page(UNIT_KIND, ObjectPage(PAGES[UnitRole.ACTIVE], _rows, _steps, _subject))
