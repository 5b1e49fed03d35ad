"""The lists and pages of stock units and active units."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.resources import ResourceAdmin
from gpuplatform.adminkit.detail.panels import Detail, Related, RelatedRow
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import TITLE_LENGTH, operation_id_html, shortened, visible
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.adminkit.lists.filters import (
    AgeFilter,
    ChoiceFilter,
    HistoryFilter,
    NamespaceFilter,
    PhaseTabs,
    ReasonFilter,
    SpecFilter,
    TenantFilter,
    recent_values,
)
from gpuplatform.adminkit.lists.model_admin import ModelAdmin, Usage, column
from gpuplatform.adminkit.overview.failing import FailingRows
from gpuplatform.kube.kinds import GPU_UNIT, JOB
from gpuplatform.operations.admin import operations_of
from gpuplatform.operations.admin_display import operation_steps
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.reconciliation.inspection import Subject
from gpuplatform.workloads.causes import StartupCause
from inventory.models import Node
from inventory.selectors import is_spec_catalogued, spec_row
from units.admin.actions import SEED, STOCK_ACTIONS, UNIT_ACTIONS
from units.admin.detail import (
    HEALTHY_PHASES,
    MODELS,
    SHOWN_HISTORY,
    change_line,
    counterparts,
    hand_over,
    node_url,
    shown_history,
    unit_badge,
    unit_comparisons,
    unit_facts,
    unit_line,
    unit_steps,
    unit_url,
    warm_start,
)
from units.admin.drain_parts import notice_facts
from units.admin.queue import queue_facts
from units.core.child import kind_of
from units.core.names import object_name
from units.group_members import first_member
from units.models import ActiveUnit, GpuUnit, StockUnit
from units.phases import UNIT_REASONS, UnitPhase, UnitReason, UnitRole
from units.quota_waits import units_barred
from units.selectors import (
    StockState,
    stock_in,
)
from units.tenant_usage import TenantUsage, usage_by_tenant
from units.waiting_display import show_waiting
from units.waiting_units import preemption_time, with_waits

MAX_SEEDED_UNITS: Final = 50
"""Maximum number of units on the page of a seeding."""

STATE_SHAPES: Final = {
    StockState.STARTING: Shape.PROGRESS,
    StockState.READY: Shape.READY,
    StockState.WITHHELD: Shape.WAITING,
    StockState.CLAIMED: Shape.WAITING,
    StockState.FAILED: Shape.FAILED,
    StockState.DELETING: Shape.PROGRESS,
}


class StateFilter(ChoiceFilter):
    """A filter by the state of stock."""

    title = "state"
    parameter_name = "state"

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [(state.value, state.value.capitalize()) for state in StockState]

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in set(StockState):
            return queryset
        of_state = stock_in(StockState(self.value() or "")).order_by()
        return queryset.filter(pk__in=of_state.values("pk"))


class WaitTabs(PhaseTabs):
    """The phase tabs, with a tab of the units that wait for capacity, even if they are stopped."""

    field = "tab"
    waiting: ClassVar[tuple[str, str]] = (
        UnitReason.WAITING_FOR_CAPACITY.value,
        UNIT_REASONS[UnitReason.WAITING_FOR_CAPACITY].title,
    )

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        pending, *others = UnitPhase.choices
        return [pending, self.waiting, *others]


NodeFilter = recent_values("node", "node")


def _node(row: Any) -> SafeString | str:
    """Return the name of the node of a row, as a link to its page."""
    url = node_url(row)
    return format_html('<a href="{}">{}</a>', url, visible(row.node)) if url else visible(row.node)


class UnitAdmin(ResourceAdmin):
    """The common part of the lists and pages of stock units and active units."""

    role: ClassVar[UnitRole]
    related_title: ClassVar[str]
    """The title of the table with the source stock, or with the unit that consumed the stock."""
    resource_kind = GPU_UNIT
    owner_label = UNIT_LABEL
    search_order = 1
    healthy_phases = HEALTHY_PHASES
    reasons = UNIT_REASONS
    search_fields = ("name", "image", "uid")

    node_column = column("Node", _node, empty="")
    tenant_column = column("Tenant", lambda row: visible(row.tenant.name) if row.tenant else "")

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[GpuUnit]:
        rows: QuerySet[GpuUnit] = super().get_queryset(request)
        node = Node.objects.filter(name=OuterRef("node")).values("pk")
        marked = rows.annotate(  # type: ignore[no-redef]  # declared
            is_spec_catalogued=is_spec_catalogued(), spec_row=spec_row(), node_row=Subquery(node)
        )
        return marked.filter(role=self.role).select_related("claimed_by")

    @override
    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        super().annotate_rows(request, rows)
        show_waiting(rows)

    @override
    def live_rows(self) -> QuerySet[GpuUnit]:
        return GpuUnit.objects.filter(deleted_at__isnull=True, role=self.role)

    @override
    def failing(self) -> list[FailingRows]:
        """Return the units that failed or lost GPUs, and the units in a transient phase."""
        failed, transient = super().failing()
        # If no node lacks GPUs, the database reads no units for this condition.
        short = Exists(Node.objects.filter(is_short=True))
        has_lost_gpus = Q(reason=UnitReason.GPUS_MISSING) | Q(cause=StartupCause.GPUS_MISSING)
        on_lost_gpus = self.live_rows().filter(short, has_lost_gpus)
        others = transient.rows.exclude(has_lost_gpus)
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
        others = counterparts(row)
        barred = units_barred([row])
        is_waiting = row.waits_since is not None
        waits = queue_facts(row, is_barred=row.pk in barred) if is_waiting else ()
        comparisons = list(unit_comparisons(row))
        show_waiting([row], barred)
        history = shown_history(row)
        detail = self.resource_detail(
            row,
            facts=(*notice_facts(row), *waits, *unit_facts(row), *warm_start(row, others)),
            steps=(
                *operation_steps(row.operation),
                *hand_over(row, others),
                *unit_steps(row, history),
            ),
            comparisons=comparisons,
            related=[
                Related(self.related_title, [unit_line(one) for one in others]),
                operations_of(GPU_UNIT.kind, row.pk, row.operation_id, row.claimed_by_id),
                Related("History", [change_line(one) for one in history[:SHOWN_HISTORY]]),
            ],
        )
        return replace(detail, badge=unit_badge(row))

    @override
    def deployment_of(self, row: GpuUnit) -> str:
        return object_name(row.name)

    @override
    def has_job(self, _row: GpuUnit) -> bool:
        return kind_of({"spec": _row.spec}) == JOB


def _claim(row: GpuUnit) -> SafeString:
    """Return the operation that claimed a stock unit, or a badge if a unit consumed it."""
    if row.consumed_by:
        return shape_badge(Shape.OFF if row.deleted_at else Shape.PROGRESS, "Consumed")
    claim = row.claimed_by
    if claim is None or row.deleted_at:
        return SafeString("")
    return format_html(
        '{} <a href="{}">{}</a>',
        shape_badge(Shape.WAITING, "Claimed"),
        page_url(claim),
        operation_id_html(claim.operation_id),
    )


def _image(row: GpuUnit) -> SafeString:
    """Return the last two parts of the image's name, with the complete reference as tooltip."""
    name = "/".join(row.image.split("/")[-2:]).removeprefix("library/")
    title = shortened(row.image, TITLE_LENGTH)
    return format_html('<span title="{}">{}</span>', title, shortened(name, 40))


@admin.register(StockUnit)
class StockUnitAdmin(UnitAdmin):
    """The list and the pages of stock units."""

    role = UnitRole.STOCK
    related_title = "Consumed by"
    noun = "stock unit"
    sampled = UnitRole.STOCK
    row_actions = STOCK_ACTIONS
    search_order = 2
    empty_text = (
        "No stock yet. Units start within seconds if stock is ready. Seed stock, or set the warm"
        " target of a GPU spec."
    )
    creation = SEED
    list_display = (
        "phase_column",
        "name",
        "spec_column",
        "tenant_column",
        "node_column",
        "claim_column",
        "why_column",
        "since",
    )
    list_filter = (
        StateFilter,
        SpecFilter,
        NodeFilter,
        ReasonFilter,
        AgeFilter,
        HistoryFilter,
        PhaseTabs,
    )
    search_help_text = "name, operationID or UID"
    sortable_by = ("name", "spec_column", "since")

    claim_column = column("Claimed by", _claim, empty="")


@admin.register(ActiveUnit)
class ActiveUnitAdmin(UnitAdmin):
    """The list and the pages of active units."""

    role = UnitRole.ACTIVE
    related_title = "Source stock"
    object_kind = GPU_UNIT.kind
    noun = "unit"
    sampled = UnitRole.ACTIVE
    row_actions = UNIT_ACTIONS
    empty_text = (
        "No GPU units yet. Users create them through the API (POST /api/v1/gpu-units). Each unit"
        " claims one ready stock unit."
    )
    list_display = (
        "phase_column",
        "name",
        "namespace",
        "spec_column",
        "tenant_column",
        "node_column",
        "image_column",
        "why_column",
        "since",
    )
    list_filter = (
        SpecFilter,
        NodeFilter,
        ReasonFilter,
        TenantFilter,
        NamespaceFilter,
        AgeFilter,
        HistoryFilter,
        WaitTabs,
    )
    search_help_text = "name, operationID, image or UID"

    image_column = column("Image", _image)

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[GpuUnit]:
        rows = super().get_queryset(request)
        waits = Q(waits_since__isnull=False, deletion_requested_at__isnull=True)
        return with_waits(rows).annotate(  # type: ignore[no-redef]  # declared
            tab=Case(When(waits, then=Value(WaitTabs.waiting[0])), default=F("phase")),
            group_row=Case(When(~Q(group_name=""), then=Subquery(first_member()))),
            preempted_at=Case(When(is_preemptible=True, then=Subquery(preemption_time()))),
        )

    @override
    def usage(self, tenants: Collection[int]) -> Mapping[int, Usage]:
        found = usage_by_tenant(tenants)
        usages = {tenant: found.get(tenant) or TenantUsage() for tenant in tenants}
        return {tenant: Usage(one.units, one.failed, one.gpus) for tenant, one in usages.items()}

    @override
    def page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the page of a unit, or redirect to the page of stock, which has the same kind."""
        try:
            return super().page(request, object_id)
        except (Http404, PermissionDenied):
            stock = self._stock(object_id)
            if stock is None:
                raise
            return HttpResponseRedirect(unit_url(stock))

    def _stock(self, object_id: str) -> GpuUnit | None:
        if not (object_id.isascii() and object_id.isdecimal() and len(object_id) < 19):
            return None
        return GpuUnit.objects.filter(pk=int(object_id), role=UnitRole.STOCK).first()

    @override
    def rows_of_object(self, row_id: int) -> Sequence[RelatedRow]:
        """Return the unit or, for the first unit of a seeding, all of its units, failed first."""
        failed_first = Case(When(phase=UnitPhase.FAILED, then=0), default=1)
        units = GpuUnit.objects.filter(_of_object(row_id)).order_by(failed_first, "id")
        return [unit_line(row) for row in units[:MAX_SEEDED_UNITS]]

    @override
    def steps_of_object(self, row_id: int) -> Sequence[Step]:
        """Return the timeline of an active unit; the page of a seeding has progress instead."""
        unit = GpuUnit.objects.filter(pk=row_id, role=UnitRole.ACTIVE).first()
        return list(unit_steps(unit, shown_history(unit))) if unit else ()

    @override
    def subject_of_object(self, request: HttpRequest, row_id: int) -> Subject | None:
        """Return the resource of the unit, or of the first unhealthy unit of a seeding."""
        units = GpuUnit.objects.filter(_of_object(row_id), deleted_at__isnull=True).exclude(uid="")
        healthy_last = Case(When(phase__in=HEALTHY_PHASES, then=1), default=0)
        unit = units.order_by(healthy_last, "id").first()
        if unit is None:
            return None
        page = self.admin_site.get_model_admin(MODELS[UnitRole(unit.role)])
        return self.subject(request, unit) if page.has_view_permission(request) else None


def _of_object(row_id: int) -> Q:
    """Return the condition for the units of an operation: one unit, or all units of a seeding."""
    first = GpuUnit.objects.filter(pk=row_id, role=UnitRole.STOCK, operation__object_row=row_id)
    seeding = first.values_list("operation", flat=True).first()
    return Q(operation=seeding, role=UnitRole.STOCK) if seeding else Q(pk=row_id)
