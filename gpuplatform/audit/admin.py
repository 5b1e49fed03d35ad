"""The pages of the audit log: a list with filters, and a page for each entry."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.detail.panels import Copy, Detail, Document, Fact, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import as_yaml, visible
from gpuplatform.adminkit.display.urls import list_url, page_url
from gpuplatform.adminkit.lists.filters import AgeFilter, ChoiceFilter, recent_values
from gpuplatform.adminkit.lists.journal import register_observer
from gpuplatform.adminkit.lists.model_admin import ObjectAdmin, column
from gpuplatform.audit.exports import CSV_TYPE, csv_lines
from gpuplatform.audit.models import AuditEntry, Outcome
from gpuplatform.audit.selectors import export
from gpuplatform.audit.services.admin_entries import AdminAudit
from gpuplatform.audit.services.entries import secret_read
from gpuplatform.audit.services.seals import ENTRY_KIND
from gpuplatform.tenancy.models import Tenant

SHOWN_CHANGES: Final = 3
"""Number of changed fields that a row of the list shows."""

_SHAPES: Final = {
    Outcome.ACCEPTED: Shape.READY,
    Outcome.REJECTED: Shape.FAILED,
    Outcome.READ: Shape.OFF,
    Outcome.OBSERVED: Shape.PROGRESS,
}


class OutcomeFilter(ChoiceFilter):
    """A filter by the outcome."""

    title = "outcome"
    parameter_name = "outcome"
    field = "outcome"

    @override
    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(value), str(label)) for value, label in Outcome.choices]


class AtFilter(AgeFilter):
    """A filter by the age of the entry."""

    field = "at"


def _outcome(row: AuditEntry) -> SafeString:
    outcome = Outcome(row.outcome)
    return shape_badge(_SHAPES[outcome], str(outcome.label))


def _actor(row: AuditEntry) -> str:
    return visible(row.actor or row.get_actor_kind_display())


def _object(row: AuditEntry) -> SafeString:
    return format_html(
        '<span title="{} {}">{} <small class="off">{}</small></span>',
        row.object_kind,
        row.object_namespace,
        visible(row.object_name),
        row.object_kind,
    )


def _details(row: AuditEntry) -> str:
    if row.code:
        return row.code
    fields = [str(one.get("field") or one.get("message") or "") for one in row.changes]
    more = len(fields) - SHOWN_CHANGES
    shown = ", ".join(visible(one) for one in fields[:SHOWN_CHANGES] if one)
    return f"{shown} and {more} more" if more > 0 else shown


@admin.register(AuditEntry)
class AuditAdmin(ObjectAdmin):
    """The list and the pages of the audit log, which is read-only."""

    list_display = (
        *("outcome_column", "verb_column", "object_column", "actor_column"),
        *("address_column", "details_column", "since"),
    )
    list_display_links = ("verb_column",)
    list_filter = (
        OutcomeFilter,
        recent_values("verb", "verb"),
        recent_values("kind", "object_kind"),
        recent_values("tenant", "tenant"),
        recent_values("actor", "actor"),
        AtFilter,
    )
    search_fields = ("object_name",)
    search_help_text = "exact name of an object"
    row_nouns = "entry,entries"
    export_view = "entries"
    empty_text = (
        "No entries yet. Each accepted write, rejected request, login and read of something secret"
        " is an entry."
    )

    outcome_column = column("Outcome", _outcome)
    verb_column = column("Verb", lambda row: visible(row.verb))
    object_column = column("Object", _object)
    actor_column = column("Actor", _actor)
    address_column = column("Address", lambda row: visible(row.address), empty="")
    details_column = column("Details", _details, empty="")
    since = column("Age", lambda row: age_html(row.at))

    @override
    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Return the entries about an object. Only its exact name uses an index."""
        return queryset.filter(object_name=search_term) if search_term else queryset, False

    @override
    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.entries)
        return [path("entries.csv", view, name=self.url_name("entries")), *super().get_urls()]

    def entries(self, request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        """Return the entries of the current filter as CSV, oldest first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            page = self.get_changelist_instance(request)
        except IncorrectLookupParameters:  # The list explains it.
            return HttpResponseRedirect(f"{list_url(AuditEntry)}?{request.GET.urlencode()}")
        secret_read("export", ENTRY_KIND, tenant=request.GET.get("tenant", ""))
        rows = page.get_queryset(request).order_by()
        headers = {"Content-Disposition": 'attachment; filename="audit.csv"'}
        lines = csv_lines(export(rows))
        return StreamingHttpResponse(lines, content_type=CSV_TYPE, headers=headers)

    @override
    def tenant_facts(self, tenant: Tenant) -> Sequence[Fact]:
        """Return a link to the entries of the tenant."""
        url = (
            f"{reverse('admin:audit_auditentry_changelist')}?{urlencode({'tenant': tenant.name})}"
        )
        return [Fact("Audit", "Entries of the tenant", url)]

    @override
    def line(self, row: AuditEntry) -> RelatedRow:
        return RelatedRow(_outcome(row), str(row), page_url(row), _actor(row), age_html(row.at))

    @override
    def detail(self, row: AuditEntry) -> Detail:
        same = {"q": row.object_name}
        facts = [
            Fact("Time", f"{row.at:%Y-%m-%d %H:%M:%S} UTC"),
            Fact("Actor", _actor(row)),
            Fact("Kind of actor", row.get_actor_kind_display()),
            Fact("Tenant", row.tenant),
            Fact("Address", visible(row.address)),
            Fact("Verb", visible(row.verb)),
            Fact("Object kind", row.object_kind),
            Fact("Namespace", row.object_namespace),
            Fact("Object", visible(row.object_name), f"{list_url(AuditEntry)}?{urlencode(same)}"),
            Fact("UID", row.object_uid),
            Fact("Error code", row.code),
        ]
        copies = [Copy("traceID", row.trace_id), Copy("operationID", row.operation_id)]
        changes = [Document("Changes", as_yaml(row.changes))] if row.changes else []
        return Detail(
            title=str(row),
            badge=_outcome(row),
            since=age_html(row.at),
            facts=[one for one in facts if one.value],
            copies=[one for one in copies if one.text],
            documents=changes,
        )


# The web process alone loads this module, and only it has logins and forms to record.
register_observer(AdminAudit())
