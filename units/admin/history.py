"""The changes of all units, newest first: what happened here lately."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import phase_badge
from gpuplatform.adminkit.display.causes import why_of
from gpuplatform.adminkit.display.text import operation_id_html
from gpuplatform.adminkit.lists.filters import AgeFilter, RecentValuesFilter
from gpuplatform.adminkit.lists.readonly import ReadOnlyAdmin
from gpuplatform.operations.admin import operation_url
from gpuplatform.operations.models import Operation
from units.admin.detail import RIGHTS, unit_url
from units.models import GpuUnit, UnitHistory
from units.phases import UnitPhase, UnitRole

MOST_FOUND: Final = 1_000
"""So many units, and jobs, that a search names are looked for."""


class PhaseFilter(admin.SimpleListFilter):
    """The phase that it changed to."""

    title = "phase"
    parameter_name = "phase"
    template = "admin/choice_filter.html"

    @override
    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(phase.value, str(phase.label)) for phase in UnitPhase]

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(phase=self.value()) if self.value() else queryset


class ReasonFilter(RecentValuesFilter):
    """Why it changed."""

    title = "why"
    parameter_name = "why"
    fields = ("reason",)
    are_reasons = True


class ChangedFilter(AgeFilter):
    """How long ago it changed."""

    field = "at"


@admin.register(UnitHistory)
class UnitHistoryAdmin(ReadOnlyAdmin):
    """Seen by whoever may see the units; changes of the other role are left out."""

    list_display = ("phase_column", "unit_column", "operation_column", "why_column", "since")
    list_display_links = None
    list_filter = (PhaseFilter, ReasonFilter, ChangedFilter)
    search_fields = ("unit__name",)
    search_help_text = "unit or operationID"
    row_nouns = "change,changes"
    empty_text = "Nothing has changed yet. Each change of a unit's phase is kept here for 30 days."
    sortable_by: ClassVar[tuple[str, ...]] = ()

    @admin.display(description="Phase")
    def phase_column(self, row: UnitHistory) -> SafeString:
        """Return the badge."""
        return phase_badge(row.phase)

    @admin.display(description="Unit")
    def unit_column(self, row: UnitHistory) -> SafeString:
        """Return the unit, with its page."""
        return format_html(
            '<a href="{}" title="{}"><b>{}</b></a>',
            unit_url(row.unit),
            row.unit,
            row.unit.name,
        )

    @admin.display(description="Job")
    def operation_column(self, row: UnitHistory) -> SafeString | str:
        """Return the job that caused it, if one did."""
        job = row.operation
        if job is None:
            return ""
        return format_html(
            '<a href="{}">{}</a>', operation_url(job), operation_id_html(job.operation_id)
        )

    @admin.display(description="Why", empty_value="")
    def why_column(self, row: UnitHistory) -> SafeString:
        """Return reason and message on one line."""
        return why_of(row)

    @admin.display(description="Ago")
    def since(self, row: UnitHistory) -> SafeString:
        """Return how long ago it was."""
        return age_html(row.at)

    @override
    def offered_permissions(self) -> Mapping[str, str]:
        return {}  # Those of the units and of the stock are asked for.

    @override
    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    @override
    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(_seen(request))

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[UnitHistory]:
        rows: QuerySet[UnitHistory] = super().get_queryset(request)
        seen = _seen(request)
        if len(seen) < len(RIGHTS):
            rows = rows.filter(unit__role__in=seen)
        return rows.select_related("unit", "operation")

    @override
    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find the changes of units, and by jobs, whose names contain the text."""
        if not search_term:
            return queryset, False
        units = GpuUnit.objects.filter(name__icontains=search_term)
        jobs = Operation.objects.filter(operation_id__icontains=search_term)
        of_unit, by_job = (
            list(found.order_by("-id").values_list("pk", flat=True)[:MOST_FOUND])
            for found in (units, jobs)
        )
        return queryset.filter(Q(unit__in=of_unit) | Q(operation__in=by_job)), False

    @override
    def page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Lead to the unit, whose page has its whole history."""
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404
        return HttpResponseRedirect(unit_url(row.unit))


def _seen(request: HttpRequest) -> list[UnitRole]:
    return [role for role, right in RIGHTS.items() if request.user.has_perm(right)]
