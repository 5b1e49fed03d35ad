"""The list of functions."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.mirrors import MirrorAdmin
from gpuplatform.adminkit.detail.links import ObjectPage, register_object_page
from gpuplatform.adminkit.detail.panels import Detail, RelatedRow
from gpuplatform.adminkit.display.age import age_html, ago_html
from gpuplatform.adminkit.display.causes import register_reasons
from gpuplatform.adminkit.display.text import shortened
from gpuplatform.adminkit.lists.filters import (
    AgeFilter,
    HistoryFilter,
    PhaseTabs,
    ReasonFilter,
    SpecFilter,
    TenantFilter,
)
from serverless.admin.actions import FUNCTION_ACTIONS
from serverless.admin.function_detail import (
    HEALTHY_PHASES,
    PAGE,
    function_detail,
    function_line,
    success_rate,
)
from serverless.admin.lines import failure_title, invocation_url
from serverless.models import Function, Invocation
from serverless.phases import FUNCTION_REASONS, FunctionPhase
from serverless.recent import Recent, recent_outcomes
from serverless.selectors import with_oldest
from serverless.services import FUNCTION_KIND

TRANSIENT_PHASES: Final = frozenset(
    {FunctionPhase.PENDING, FunctionPhase.PROGRESSING, FunctionPhase.TERMINATING}
)
"""Phases that usually pass within a minute or so."""


class FunctionReasonFilter(ReasonFilter):
    """Why the phase is what it is."""

    reasons = FUNCTION_REASONS


class FunctionList(ChangeList):
    """A page of functions with the outcomes of their newest invocations."""

    @override
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)
        found = recent_outcomes([row.pk for row in rows])
        for row in rows:
            row.recent = found.get(row.pk, Recent())
        self.result_list = rows


@admin.register(Function)
class FunctionAdmin(MirrorAdmin):
    """What is invoked: what waits for it, who serves it, and how that goes."""

    row_actions = FUNCTION_ACTIONS
    empty_text = (
        "There are no functions yet. A function is an image that answers requests on GPU units"
        " which are there only while there is something to do; the API makes one:"
        " POST /api/v1/serverless/functions."
    )
    search_order = 7
    well = HEALTHY_PHASES
    list_display = (
        "phase_column",
        "name_column",
        "tenant_column",
        "spec_column",
        "backlog",
        "workers_column",
        "oldest_column",
        "success_column",
        "why_column",
        "since",
    )
    list_display_links = ("name_column",)
    list_filter = (
        SpecFilter,
        FunctionReasonFilter,
        TenantFilter,
        AgeFilter,
        HistoryFilter,
        PhaseTabs,
    )
    search_fields = ("request_id",)
    search_help_text = "name or operationID"
    sortable_by: ClassVar[tuple[str, ...]] = ("name_column", "backlog", "since")

    @admin.display(description="Name", ordering="request_id")
    def name_column(self, row: Function) -> str:
        """Return its name."""
        return row.request_id

    @admin.display(description="Tenant")
    def tenant_column(self, row: Function) -> str:
        """Return whose it is: names are unique in a tenant only."""
        return row.tenant.name

    @admin.display(description="Workers")
    def workers_column(self, row: Function) -> str:
        """Return how many serve, with those on their way."""
        parts = [f"{row.workers_ready} ready"]
        if row.workers_starting:
            parts.append(f"{row.workers_starting} starting")
        if row.workers_draining:
            parts.append(f"{row.workers_draining} draining")
        return ", ".join(parts)

    @admin.display(description="Oldest")
    def oldest_column(self, row: Any) -> SafeString:
        """Return how long the oldest open invocation waits."""
        return age_html(row.oldest_open_at)

    @admin.display(description="Success")
    def success_column(self, row: Any) -> str:
        """Return the part of the newest invocations that succeeded."""
        return success_rate(row.recent)

    @override
    @admin.display(description="Message", empty_value="")
    def why_column(self, row: Any) -> SafeString:
        """Return why it is not well; of one that is, the newest of its invocations that failed."""
        failure: Invocation | None = row.recent.last_failure
        if row.phase not in HEALTHY_PHASES or failure is None or failure.completed_at is None:
            return super().why_column(row)
        return format_html(
            '<span class="why" title="{}">Last failure: <a href="{}">{}</a>, {}</span>',
            f"{failure.failure_class}: {shortened(failure.error)}",
            invocation_url(failure),
            failure_title(failure.failure_class or failure.state),
            ago_html(failure.completed_at),
        )

    @override
    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return FunctionList

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Function]:
        rows: QuerySet[Function] = super().get_queryset(request)
        return with_oldest(rows)

    @override
    def line(self, row: Function) -> RelatedRow:
        return function_line(row)

    @override
    def detail(self, row: Function) -> Detail:
        return function_detail(row)


def _rows(number: int) -> Sequence[RelatedRow]:
    return [function_line(row) for row in Function.objects.filter(pk=number)]


register_reasons(FUNCTION_REASONS)
register_object_page(FUNCTION_KIND, ObjectPage(PAGE, _rows))
