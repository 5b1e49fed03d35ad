"""The list of the phase changes of all units."""

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
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.adminkit.lists.filters import AgeFilter, ChoiceFilter, recent_values
from gpuplatform.adminkit.lists.model_admin import ReadOnlyAdmin, column
from gpuplatform.operations.models import Operation
from units.admin.detail import MODELS, unit_url
from units.models import GpuUnit, UnitHistory
from units.phases import UnitPhase, UnitRole

MAX_MATCHES: Final = 1_000
"""Maximum number of units, and of operations, that match a search."""


class PhaseFilter(ChoiceFilter):
    """A filter by the new phase."""

    title = "phase"
    parameter_name = "phase"
    field = "phase"

    @override
    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(phase.value, phase_title(phase.value)) for phase in UnitPhase]


class ChangedFilter(AgeFilter):
    """A filter by the time since the change."""

    field = "at"


def _unit_link(row: UnitHistory) -> SafeString:
    link = '<a href="{}" title="{}"><b>{}</b></a>'
    return format_html(link, unit_url(row.unit), row.unit, row.unit.name)


def _operation_link(row: UnitHistory) -> SafeString | str:
    operation = row.operation
    if operation is None:
        return ""
    key = operation_id_html(operation.operation_id)
    return format_html('<a href="{}">{}</a>', page_url(operation), key)


@admin.register(UnitHistory)
class UnitHistoryAdmin(ReadOnlyAdmin):
    """The list of the changes of the stock units and active units that the user may view."""

    list_display = ("phase_column", "unit_column", "operation_column", "why_column", "since")
    list_display_links = None
    list_filter = (
        PhaseFilter,
        recent_values("reason", "reason", are_reasons=True),
        ChangedFilter,
    )
    search_fields = ("unit__name",)
    search_help_text = "unit or operationID"
    row_nouns = "change,changes"
    empty_text = "No changes yet. Phase changes of units are retained for 30 days."
    sortable_by: ClassVar[tuple[str, ...]] = ()

    phase_column = column("Phase", lambda row: phase_badge(row.phase))
    unit_column = column("Unit", _unit_link)
    operation_column = column("Operation", _operation_link)
    why_column = column("Message", message_of, empty="")
    since = column("Age", lambda row: age_html(row.at))

    @override
    def offered_permissions(self) -> Mapping[str, str]:
        return {}  # The permissions for units and stock apply.

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
        if len(roles) < len(MODELS):
            rows = rows.filter(unit__role__in=roles)
        return rows.select_related("unit", "operation")

    @override
    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the changes whose unit name or operationID contains the search term."""
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
        """Redirect to the page of the unit, which contains its history."""
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404
        return HttpResponseRedirect(unit_url(row.unit))


def _visible_roles(request: HttpRequest) -> list[UnitRole]:
    pages = {role: admin.site.get_model_admin(model) for role, model in MODELS.items()}
    return [role for role, page in pages.items() if page.has_view_permission(request)]
