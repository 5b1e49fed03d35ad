"""Invocations in the admin."""

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import admin
from django.contrib.auth import get_permission_codename
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.panels import Detail, RelatedRow
from gpuplatform.adminkit.display.causes import cause_of, title_of
from gpuplatform.adminkit.display.text import message_html, visible
from gpuplatform.adminkit.lists.filters import (
    PhaseTabs,
    RecentValuesFilter,
    TenantFilter,
    recent_values,
)
from gpuplatform.adminkit.lists.model_admin import ModelAdmin, column
from gpuplatform.audit.services.entries import page_read
from serverless.admin.actions import INVOCATION_ACTIONS
from serverless.admin.invocation_detail import invocation_detail, revealed
from serverless.admin.lines import (
    failure_title,
    invocation_line,
    invocation_since,
    state_badge,
)
from serverless.admin.webhooks import WebhookFilter
from serverless.models import Invocation
from serverless.services.names import INVOCATION_KIND


class FailureFilter(RecentValuesFilter):
    """A filter by failure class."""

    title = "reason"
    parameter_name = "reason"
    fields = ("failure_class",)

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [
            (value, failure_title(value)) for value, _ in super().lookups(request, model_admin)
        ]


class StateTabs(PhaseTabs):
    """Tabs that filter by state."""

    title = "state"
    parameter_name = "state"
    field = "state"


def _message(row: Invocation) -> SafeString:
    """Return the failure of an invocation, or the reason why its function cannot process it."""
    function = row.function
    if row.is_blocked:
        title = f"Waiting: {title_of(function.reason, cause_of(function))}"
        return message_html(function.reason, function.message, title, is_title_shown=True)
    return message_html(row.failure_class, row.error, failure_title(row.failure_class))


REVEAL: Final = "reveal"
"""The verb of the permission to read payloads, headers and results of invocations."""


@admin.register(Invocation)
class InvocationAdmin(ActionAdmin):
    """The list and the pages of invocations."""

    row_actions = INVOCATION_ACTIONS
    empty_text = "No invocations yet. This list shows each request to a function with its outcome."
    search_order = 8
    object_kind = INVOCATION_KIND
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
    list_filter = (
        recent_values("function", "function__request_id"),
        FailureFilter,
        WebhookFilter,
        TenantFilter,
        StateTabs,
    )
    search_fields = ("invocation_id",)
    search_help_text = "invocationID"

    state_column = column("State", state_badge)
    id_column = column("invocationID", lambda row: visible(row.invocation_id))
    tenant_column = column("Tenant", lambda row: row.tenant.name)
    worker_column = column("Worker", lambda row: visible(row.worker), empty="")
    why_column = column("Message", _message, empty="")
    since = column("Since", invocation_since)

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

    @override
    def offered_permissions(self) -> Mapping[str, str]:
        return {**super().offered_permissions(), REVEAL: "Read payloads and results"}

    @override
    def page_context(self, request: HttpRequest, row: Invocation) -> dict[str, Any]:
        context = super().page_context(request, row)
        if request.user.has_perm(f"serverless.{get_permission_codename(REVEAL, self.opts)}"):
            place = {"kind": INVOCATION_KIND, "tenant": row.tenant.name}
            page_read("read-result", {**place, "name": row.invocation_id})
            context["detail"] = revealed(context["detail"], row)
        return context
