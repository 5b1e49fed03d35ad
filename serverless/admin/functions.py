"""The list of functions."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin
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
from serverless.admin.recent import RecentOutcomes, recent_outcomes
from serverless.models import Function, Invocation
from serverless.phases import FUNCTION_REASONS
from serverless.selectors import current_backlog, with_oldest
from serverless.services.names import FUNCTION_KIND


class FunctionReasonFilter(ReasonFilter):
    """Filters by reason."""

    reasons = FUNCTION_REASONS


@admin.register(Function)
class FunctionAdmin(MirrorAdmin):
    """Functions, with backlog, workers and success rate."""

    row_actions = FUNCTION_ACTIONS
    empty_text = (
        "No functions yet. A function is an image that answers requests on GPU units,"
        " which run only while there is work. Create one through the API:"
        " POST /api/v1/serverless/functions."
    )
    search_order = 7
    healthy_phases = HEALTHY_PHASES
    noun = "function"
    name_field = "request_id"
    list_display = (
        "phase_column",
        "name_column",
        "tenant_column",
        "spec_column",
        "backlog_column",
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
    sortable_by: ClassVar[tuple[str, ...]] = ("name_column", "backlog_column", "since")

    @admin.display(description="Name", ordering="request_id")
    def name_column(self, row: Function) -> str:
        """Return the name."""
        return row.request_id

    @admin.display(description="Tenant")
    def tenant_column(self, row: Function) -> str:
        """Return the tenant: names are unique only within it."""
        return row.tenant.name

    @admin.display(description="Backlog", ordering="backlog")
    def backlog_column(self, row: Function) -> int:
        """Return the number of open invocations."""
        return current_backlog(row)

    @admin.display(description="Workers")
    def workers_column(self, row: Function) -> str:
        """Return the number of workers by state."""
        parts = [f"{row.workers_ready} ready"]
        if row.workers_starting:
            parts.append(f"{row.workers_starting} starting")
        if row.workers_draining:
            parts.append(f"{row.workers_draining} draining")
        return ", ".join(parts)

    @admin.display(description="Oldest")
    def oldest_column(self, row: Any) -> SafeString:
        """Return the age of the oldest open invocation."""
        return age_html(row.oldest_open_at)

    @admin.display(description="Success")
    def success_column(self, row: Any) -> str:
        """Return the share of the newest invocations that succeeded."""
        return success_rate(row.recent)

    @override
    @admin.display(description="Message", empty_value="")
    def why_column(self, row: Any) -> SafeString:
        """Return why it is not ready; of a ready one, its last failed invocation."""
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
    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        found = recent_outcomes([row.pk for row in rows])
        for row in rows:
            row.recent = found.get(row.pk, RecentOutcomes())

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


def _rows(key: int) -> Sequence[RelatedRow]:
    return [function_line(row) for row in Function.objects.filter(pk=key)]


register_reasons(FUNCTION_REASONS)
register_object_page(FUNCTION_KIND, ObjectPage(PAGE, _rows))
