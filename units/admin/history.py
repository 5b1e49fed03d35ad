"""The changes of all units, newest first."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import phase_badge, phase_title
from gpuplatform.adminkit.display.causes import message_of
from gpuplatform.adminkit.display.text import operation_id_html
from gpuplatform.adminkit.lists.filters import AgeFilter, RecentValuesFilter
from gpuplatform.adminkit.lists.model_admin import ReadOnlyAdmin
from gpuplatform.operations.admin import operation_url
from gpuplatform.operations.models import Operation
from units.admin.detail import PERMISSIONS, unit_url
from units.models import GpuUnit, UnitHistory
from units.phases import UnitPhase, UnitRole

MAX_MATCHES: Final = 1_000
"""Maximum number of units, and of operations, that a search matches."""


class PhaseFilter(admin.SimpleListFilter):
    """The new phase."""

    title = "phase"
    parameter_name = "phase"
    template = "admin/choice_filter.html"

    @override
    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(phase.value, phase_title(phase.value)) for phase in UnitPhase]

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(phase=self.value()) if self.value() else queryset


class ReasonFilter(RecentValuesFilter):
    """The reason of the change."""

    title = "reason"
    parameter_name = "reason"
    fields = ("reason",)
    are_reasons = True


class ChangedFilter(AgeFilter):
    """The time since the change."""

    field = "at"


@admin.register(UnitHistory)
class UnitHistoryAdmin(ReadOnlyAdmin):
    """Shows the changes of the roles whose units the user may view."""

    list_display = ("phase_column", "unit_column", "operation_column", "why_column", "since")
    list_display_links = None
    list_filter = (PhaseFilter, ReasonFilter, ChangedFilter)
    search_fields = ("unit__name",)
    search_help_text = "unit or operationID"
    row_nouns = "change,changes"
    empty_text = "No changes yet. Phase changes of units are retained for 30 days."
    sortable_by: ClassVar[tuple[str, ...]] = ()

    @admin.display(description="Phase")
    def phase_column(self, row: UnitHistory) -> SafeString:
        """Return the badge."""
        return phase_badge(row.phase)

    @admin.display(description="Unit")
    def unit_column(self, row: UnitHistory) -> SafeString:
        """Return the unit as a link to its page."""
        return format_html(
            '<a href="{}" title="{}"><b>{}</b></a>',
            unit_url(row.unit),
            row.unit,
            row.unit.name,
        )

    @admin.display(description="Operation")
    def operation_column(self, row: UnitHistory) -> SafeString | str:
        """Return the operation that caused the change."""
        operation = row.operation
        if operation is None:
            return ""
        return format_html(
            '<a href="{}">{}</a>',
            operation_url(operation),
            operation_id_html(operation.operation_id),
        )

    @admin.display(description="Message", empty_value="")
    def why_column(self, row: UnitHistory) -> SafeString:
        """Return reason and message on one line."""
        return message_of(row)

    @admin.display(description="Age")
    def since(self, row: UnitHistory) -> SafeString:
        """Return the time since the change."""
        return age_html(row.at)

    @override
    def offered_permissions(self) -> Mapping[str, str]:
        return {}  # The permissions of units and stock apply.

    @override
    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    @override
    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(_visible_roles(request))

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[UnitHistory]:
        rows: QuerySet[UnitHistory] = super().get_queryset(request)
        roles = _visible_roles(request)
        if len(roles) < len(PERMISSIONS):
            rows = rows.filter(unit__role__in=roles)
        return rows.select_related("unit", "operation")

    @override
    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find the changes of units, and by operations, whose names contain the text."""
        if not search_term:
            return queryset, False
        units = GpuUnit.objects.filter(name__icontains=search_term)
        operations = Operation.objects.filter(operation_id__icontains=search_term)
        of_units, by_operations = (
            list(found.order_by("-id").values_list("pk", flat=True)[:MAX_MATCHES])
            for found in (units, operations)
        )
        return queryset.filter(Q(unit__in=of_units) | Q(operation__in=by_operations)), False

    @override
    def page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Redirect to the unit, whose page has its history."""
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404
        return HttpResponseRedirect(unit_url(row.unit))


def _visible_roles(request: HttpRequest) -> list[UnitRole]:
    return [role for role, permission in PERMISSIONS.items() if request.user.has_perm(permission)]
