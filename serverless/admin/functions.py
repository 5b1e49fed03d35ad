"""Functions in the admin."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.mirrors import MirrorAdmin, mirror_line
from gpuplatform.adminkit.detail.panels import Detail, RelatedRow
from gpuplatform.adminkit.display.age import age_html, ago_html
from gpuplatform.adminkit.display.text import shortened
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.adminkit.lists.filters import (
    AgeFilter,
    HistoryFilter,
    PhaseTabs,
    ReasonFilter,
    SpecFilter,
    TenantFilter,
)
from gpuplatform.adminkit.lists.model_admin import column
from inventory.selectors import spec_row
from serverless.admin.actions import FUNCTION_ACTIONS
from serverless.admin.function_detail import HEALTHY_PHASES, function_detail, success_rate
from serverless.admin.lines import failure_title
from serverless.admin.recent import RecentOutcomes, recent_outcomes
from serverless.models import Function, Invocation
from serverless.phases import FUNCTION_REASONS
from serverless.selectors import current_backlog, with_oldest
from serverless.services.names import FUNCTION_KIND


def _workers(row: Function) -> str:
    numbers = {
        "starting": row.workers_starting,
        "draining": row.workers_draining,
    }
    others = [f"{number} {state}" for state, number in numbers.items() if number]
    return ", ".join([f"{row.workers_ready} ready", *others])


@admin.register(Function)
class FunctionAdmin(MirrorAdmin):
    """The list and the pages of functions."""

    row_actions = FUNCTION_ACTIONS
    empty_text = (
        "No functions yet. A function is a container image that handles requests on GPU units,"
        " which run only while there is work. Users create functions through the API (POST"
        " /api/v1/serverless/functions)."
    )
    search_order = 7
    object_kind = FUNCTION_KIND
    reasons = FUNCTION_REASONS
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
        ReasonFilter,
        TenantFilter,
        AgeFilter,
        HistoryFilter,
        PhaseTabs,
    )
    search_fields = ("request_id",)
    search_help_text = "name or operationID"
    sortable_by: ClassVar[tuple[str, ...]] = ("name_column", "backlog_column", "since")

    name_column = column("Name", lambda row: row.request_id, ordering="request_id")
    tenant_column = column("Tenant", lambda row: row.tenant.name)
    backlog_column = column("Backlog", current_backlog, ordering="backlog")
    workers_column = column("Workers", _workers)
    oldest_column = column("Oldest", lambda row: age_html(row.oldest_open_at))
    success_column = column("Success", lambda row: success_rate(row.recent))

    @override
    @admin.display(description="Message", empty_value="")
    def why_column(self, row: Any) -> SafeString:
        """Return the message of a function or, if it is ready, its last failed invocation."""
        failure: Invocation | None = row.recent.last_failure
        if row.phase not in HEALTHY_PHASES or failure is None or failure.completed_at is None:
            return super().why_column(row)
        return format_html(
            '<span class="why" title="{}">Last failure: <a href="{}">{}</a>, {}</span>',
            f"{failure.failure_class}: {shortened(failure.error)}",
            page_url(failure),
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
        return with_oldest(rows).annotate(spec_row=spec_row())  # type: ignore[no-redef]  # declared

    @override
    def line(self, row: Function) -> RelatedRow:
        return mirror_line(row, shortened(row.message))

    @override
    def detail(self, row: Function) -> Detail:
        return function_detail(row)
