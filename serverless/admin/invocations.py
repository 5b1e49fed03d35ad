"""The list of invocations."""

from collections.abc import Sequence

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.links import ObjectPage, register_object_page
from gpuplatform.adminkit.detail.panels import Detail, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.causes import cause_of, title_of
from gpuplatform.adminkit.display.text import message_html, visible
from gpuplatform.adminkit.lists.filters import PhaseTabs, RecentValuesFilter, TenantFilter
from gpuplatform.adminkit.lists.model_admin import ModelAdmin
from serverless.admin.actions import INVOCATION_ACTIONS
from serverless.admin.invocation_detail import invocation_detail
from serverless.admin.lines import PAGE, failure_title, invocation_line, state_badge
from serverless.models import Invocation
from serverless.services.names import INVOCATION_KIND


class FunctionFilter(RecentValuesFilter):
    """Filters by function."""

    title = "function"
    parameter_name = "function"
    fields = ("function__request_id",)


class FailureFilter(RecentValuesFilter):
    """Filters by failure class."""

    title = "reason"
    parameter_name = "reason"
    fields = ("failure_class",)

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [
            (value, failure_title(value)) for value, _ in super().lookups(request, model_admin)
        ]


class StateTabs(PhaseTabs):
    """Tabs of the states."""

    title = "state"
    parameter_name = "state"
    field = "state"


@admin.register(Invocation)
class InvocationAdmin(ActionAdmin):
    """Invocations with their outcome."""

    row_actions = INVOCATION_ACTIONS
    empty_text = "No invocations yet. Each request to a function is listed here with its outcome."
    search_order = 8
    list_display = (
        "state_column",
        "id_column",
        "tenant_column",
        "function",
        "attempts",
        "worker_column",
        "why_column",
        "since",
    )
    list_display_links = ("id_column",)
    list_filter = (FunctionFilter, FailureFilter, TenantFilter, StateTabs)
    search_fields = ("invocation_id",)
    search_help_text = "invocationID"

    @admin.display(description="State")
    def state_column(self, row: Invocation) -> SafeString:
        """Return the badge."""
        return state_badge(row)

    @admin.display(description="invocationID")
    def id_column(self, row: Invocation) -> str:
        """Return the caller's key."""
        return visible(row.invocation_id)

    @admin.display(description="Tenant")
    def tenant_column(self, row: Invocation) -> str:
        """Return the tenant: an invocationID is unique only within it."""
        return row.tenant.name

    @admin.display(description="Worker", empty_value="")
    def worker_column(self, row: Invocation) -> str:
        """Return the worker of the latest delivery."""
        return visible(row.worker)

    @admin.display(description="Message", empty_value="")
    def why_column(self, row: Invocation) -> SafeString:
        """Return why it did not succeed, or why its function cannot serve it."""
        function = row.function
        if row.is_blocked:
            title = f"Waiting: {title_of(function.reason, cause_of(function))}"
            return message_html(function.reason, function.message, title, is_title_shown=True)
        return message_html(row.failure_class, row.error, failure_title(row.failure_class))

    @admin.display(description="Since")
    def since(self, row: Invocation) -> SafeString:
        """Return the time since the last change."""
        return age_html(row.completed_at or row.attempted_at or row.accepted_at)

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Invocation]:
        rows: QuerySet[Invocation] = super().get_queryset(request)
        return rows.select_related("function", "tenant").defer("payload", "result_body")

    @override
    def line(self, row: Invocation) -> RelatedRow:
        return invocation_line(row)

    @override
    def detail(self, row: Invocation) -> Detail:
        return invocation_detail(row)


def _rows(key: int) -> Sequence[RelatedRow]:
    rows = Invocation.objects.filter(pk=key).defer("payload", "result_body")
    return [invocation_line(row) for row in rows]


register_object_page(INVOCATION_KIND, ObjectPage(PAGE, _rows))
