"""Operations in the admin, and the registration of the periodic tasks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html, strip_tags
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.cluster_section import ClusterSectionAdmin
from gpuplatform.adminkit.detail.panels import (
    Copy,
    Detail,
    Document,
    Fact,
    Panel,
    Related,
    RelatedRow,
)
from gpuplatform.adminkit.display.age import age_html, ago_html
from gpuplatform.adminkit.display.badges import Shape, phase_badge
from gpuplatform.adminkit.display.causes import reason_html
from gpuplatform.adminkit.display.charts import progress_bar
from gpuplatform.adminkit.display.text import (
    as_yaml,
    message_html,
    operation_id_html,
    shortened,
    visible,
)
from gpuplatform.adminkit.display.timeline import timeline
from gpuplatform.adminkit.display.urls import list_url, page_url
from gpuplatform.adminkit.lists.filters import (
    ChoiceFilter,
    CreatedFilter,
    PhaseTabs,
    TenantFilter,
    recent_values,
)
from gpuplatform.adminkit.lists.model_admin import ModelAdmin
from gpuplatform.adminkit.lists.objects import object_url, page_of_kind
from gpuplatform.adminkit.overview.failing import FailingRows
from gpuplatform.adminkit.overview.sections import CountedRows, OverviewSection
from gpuplatform.adminkit.schedules.pages import register_schedules
from gpuplatform.clock import now
from gpuplatform.lifecycle.explanations import Explanation
from gpuplatform.operations.admin_actions import CANCEL, RETRY
from gpuplatform.operations.admin_display import (
    kind_title,
    operation_steps,
    operation_subject,
    operation_title,
)
from gpuplatform.operations.interventions import OPERATION_KIND, cancel_obstacle
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES, OPERATION_WAITS, OperationPhase
from gpuplatform.operations.registry import kind_names
from gpuplatform.operations.waits import waits_of
from gpuplatform.reconciliation.inspection import Subject

PAGE_URL = "admin:operations_operation_change"
LATEST_OPERATIONS = 8
FAILED_WITHIN = timedelta(hours=1)
"""Duration for which a failed operation is listed on the overview."""

RELATED_OPERATIONS = 10
RETRYABLE = "Retry the operation, or repeat the request with a new operationID."
BY_PLATFORM = "the platform"
AUTOMATIC = "The platform retries automatically."
CORRECT = "Correct the request and send it with a new operationID."


class KindFilter(ChoiceFilter):
    """A filter by the kind of operation."""

    title = "kind"
    parameter_name = "kind"
    field = "kind"

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return sorted(((name, kind_title(name)) for name in kind_names()), key=itemgetter(1))

    @override
    def has_output(self) -> bool:
        return True


@admin.register(Operation)
class OperationAdmin(ClusterSectionAdmin):
    """The list and the pages of the operations."""

    row_actions = (CANCEL, RETRY)
    empty_text = (
        "No operations yet. Every accepted request of the API or the admin is an operation. Ended"
        " operations are retained for 30 days."
    )
    search_order = 5
    object_kind = OPERATION_KIND
    list_display = (
        "phase_column",
        "job_column",
        "object_column",
        "operation_column",
        "why_column",
        "since",
    )
    list_display_links = ("job_column",)
    list_filter = (
        KindFilter,
        recent_values("reason", "reason", "error_code", are_reasons=True),
        TenantFilter,
        recent_values("namespace", "object_namespace"),
        CreatedFilter,
        PhaseTabs,
    )
    search_fields = ("operation_id", "object_name")
    search_help_text = "operationID or object"

    @admin.display(description="Phase")
    def phase_column(self, row: Operation) -> SafeString:
        """Return the badge of the phase."""
        return phase_badge(row.phase)

    @admin.display(description="Operation")
    def job_column(self, row: Operation) -> SafeString:
        """Return the kind, followed by the object for screen readers."""
        return format_html(
            '{}<span class="visually-hidden"> {}</span>',
            kind_title(row.kind),
            operation_subject(row),
        )

    @admin.display(description="operationID")
    def operation_column(self, row: Operation) -> SafeString:
        """Return the operationID, formatted for the list."""
        return operation_id_html(row.operation_id)

    @admin.display(description="Object")
    def object_column(self, row: Operation) -> SafeString:
        """Return the object with a link to its page and its namespace."""
        url = object_url(row.object_kind, row.object_row)
        name = format_html("{}", operation_subject(row))
        if url:
            name = format_html('<a href="{}">{}</a>', url, name)
        place = f"{row.object_kind} {_place(row)}"
        return format_html(
            '<span title="{}">{} <small class="off">{}</small></span>',
            place,
            name,
            row.object_namespace,
        )

    @admin.display(description="Message", empty_value="")
    def why_column(self, row: Operation) -> SafeString:
        """Return the progress of the operation, and the reason why it waits or failed."""
        progress = progress_bar(row.progress_done, row.progress_total)
        reason = message_html(row.error_code or row.reason, row.error_message or row.message)
        return format_html("{}{}", progress, reason)

    @admin.display(description="Since")
    def since(self, row: Operation) -> SafeString:
        """Return the time since the last change of the phase."""
        return age_html(_since(row))

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Operation]:
        return super().get_queryset(request).select_related("tenant")

    @override
    def line(self, row: Operation) -> RelatedRow:
        return _related_row(row)

    @override
    def subject(self, request: HttpRequest, row: Operation) -> Subject | None:
        page = page_of_kind(row.object_kind)
        if row.object_row is None or page is None:
            return None
        return page.subject_of_object(request, row.object_row)

    @override
    def page_context(self, request: HttpRequest, row: Operation) -> dict[str, Any]:
        """Omit the live data if the object of the operation does not exist."""
        context = super().page_context(request, row)
        return context if self.subject(request, row) else {**context, "cluster_url": ""}

    @override
    def overview_section(self) -> OverviewSection:
        """Return the operations by phase, recent failures, long waits, and the newest ones."""
        rows, url = Operation.objects.all(), list_url(Operation)
        failed = FailingRows(
            "operation",
            rows.filter(phase=OperationPhase.FAILED, ended_at__gt=Now() - FAILED_WITHIN),
            url,
            PAGE_URL,
            reason="error_code",
            message="error_message",
            since="ended_at",
            name="operation_id",
            order="-ended_at",
        )
        waiting = FailingRows(
            "operation",
            rows.filter(phase__in=OPEN_PHASES),
            url,
            PAGE_URL,
            since="created_at",
            name="operation_id",
            order="pk",
            waits=True,
        )
        return OverviewSection(
            counted=(CountedRows("Operations", rows, OperationPhase.values, url),),
            failing=(failed, waiting),
            latest=[_line(row) for row in rows.order_by("-id")[:LATEST_OPERATIONS]],
        )

    @override
    def detail(self, row: Operation) -> Detail:
        page, row_id = page_of_kind(row.object_kind), row.object_row
        related = page.rows_of_object(row_id) if page and row_id else ()
        is_creation = row.kind.endswith(".create")
        created = page.steps_of_object(row_id) if is_creation and page and row_id else ()
        return Detail(
            title=operation_title(row),
            badge=phase_badge(row.phase),
            since=age_html(_since(row)),
            panel=_panel(row),
            facts=_facts(row, related),
            timeline=timeline((*operation_steps(row), *created)),
            copies=(Copy("operationID", visible(row.operation_id)),),
            related=[Related("Objects", related)],
            is_right_short=True,
            documents=[Document("Request", visible(as_yaml(row.payload)))] if row.payload else (),
        )


def _place(row: Operation) -> str:
    """Return `namespace/name` of the object, or only its name if it has no namespace."""
    return "/".join(part for part in (row.object_namespace, row.object_name) if part)


def _since(row: Operation) -> Any:
    return row.ended_at or (
        row.updated_at if row.phase != OperationPhase.PENDING else row.created_at
    )


def _panel(row: Operation) -> Panel | None:
    """Return the reason why the operation failed or waits, or `None` if neither applies."""
    if row.phase == OperationPhase.FAILED:
        next_step = RETRYABLE if row.error_retryable else CORRECT
        ended = format_html("{}. ", ago_html(row.ended_at)) if row.ended_at else ""
        return Panel(
            shape=Shape.FAILED,
            title=reason_html(row.error_code),
            text=visible(row.error_message),
            since=SafeString(""),
            next_step=format_html("{}{}", ended, next_step),
        )
    if wait := waits_of([row]).get(row.pk):
        known: Mapping[Any, Explanation] = OPERATION_WAITS
        return Panel(
            shape=Shape.WAITING,
            title=reason_html(wait.reason),
            text=visible(wait.message),
            since=age_html(wait.since),
            next_step=known[wait.reason].next_step if wait.reason in known else AUTOMATIC,
        )
    return None


def _facts(row: Operation, objects: Sequence[RelatedRow]) -> Sequence[Fact]:
    url = object_url(row.object_kind, row.object_row)
    place = f"{row.object_kind} {_place(row)}"
    progress = f"{row.progress_done} of {row.progress_total}"
    is_open = row.phase in OPEN_PHASES
    facts = [
        Fact("Kind", row.kind),
        Fact("Object", place, url),
        Fact("UID", row.object_uid),
        Fact("Tenant", row.tenant.name),
        Fact("Requested by", visible(row.asked_by) or BY_PLATFORM),
        Fact("traceID", row.trace_id),
        Fact("Cancellation", cancel_obstacle(row) if is_open else ""),
        _linked("Cancelled by", row.cancelled_by),
        _linked("Retry of", row.retry_of),
        _linked("Retried by", Operation.objects.filter(retry_of=row).first()),
        Fact("Progress", progress if row.progress_total > 1 else ""),
        Fact("Current state", _states(objects) if len(objects) > 1 else ""),
        Fact.time("Accepted", row.created_at),
        Fact.time("Changed", row.updated_at),
        Fact.time("Ended", row.ended_at),
        Fact("Next attempt", _next_attempt(row.due_at) if row.due_at and row.reason else ""),
        Fact("Failed attempts", str(row.failures) if row.failures else ""),
    ]
    return [fact for fact in facts if fact.value]


def _states(rows: Sequence[RelatedRow]) -> str:
    """Return the number of objects by state, such as `2 ready, 1 starting`."""
    states = Counter(strip_tags(row.badge).lower() for row in rows)
    return ", ".join(f"{number} {state}" for state, number in states.items())


def _next_attempt(due: datetime) -> str:
    """Return the time of the next attempt as text. A due operation waits only for a worker."""
    return ago_html(due) if due > now() else "when a worker is free"


def _linked(label: str, row: Operation | None) -> Fact:
    return Fact(label, visible(str(row)), page_url(row)) if row else Fact(label, "")


def operations_of(kind: str, row: int, *further: int | None) -> Related:
    """Return the newest operations on an object. `further` are ids of other related operations."""
    about = Q(object_kind=kind, object_row=row) | Q(pk__in=[pk for pk in further if pk])
    newest = Operation.objects.filter(about).order_by("-id")[:RELATED_OPERATIONS]
    return Related("Operations", [_related_row(each) for each in newest])


def _related_row(row: Operation) -> RelatedRow:
    return RelatedRow(
        badge=phase_badge(row.phase),
        name=operation_title(row),
        url=page_url(row),
        text=operation_id_html(row.operation_id),
        since=age_html(row.created_at),
    )


def _line(row: Operation) -> RelatedRow:
    done = f"{row.progress_done} of {row.progress_total}" if row.progress_total > 1 else ""
    return RelatedRow(
        badge=phase_badge(row.phase, kind_title(row.kind)),
        name=shortened(operation_subject(row), 50),
        url=page_url(row),
        text=shortened(row.error_message or row.message or done),
        since=age_html(_since(row)),
    )


register_schedules()
