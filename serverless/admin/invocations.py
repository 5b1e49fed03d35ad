"""The list and the pages of invocations: what became of each, step by step."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions import ActingAdmin
from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import Shape, phase_badge, phase_shape, shape_badge
from gpuplatform.adminkit.causes import reason_html
from gpuplatform.adminkit.detail import Detail, Document, Fact, Panel, Related, RelatedRow
from gpuplatform.adminkit.filters import PhaseTabs, RecentValues, TenantFilter
from gpuplatform.adminkit.links import ObjectPage, object_url, register_object_page
from gpuplatform.adminkit.masking import masked_headers
from gpuplatform.adminkit.text import as_yaml, visible, why
from gpuplatform.operations.admin import jobs_of
from serverless.admin.actions import INVOCATION_ACTIONS
from serverless.admin.lines import PAGE, invocation_line
from serverless.models import Invocation
from serverless.phases import FAILED_STATES, FAILURE_NEXT_STEPS
from serverless.services import FUNCTION_KIND, INVOCATION_KIND
from units.models import GpuUnit
from units.phases import UnitRole
from units.services import UNIT_KIND

SHOWN_BYTES: Final = 4096


class FunctionFilter(RecentValues):
    """The function."""

    title = "function"
    parameter_name = "function"
    fields = ("function__request_id",)


class FailureFilter(RecentValues):
    """Why it failed."""

    title = "why"
    parameter_name = "why"
    fields = ("failure_class",)
    are_reasons = True


class StateTabs(PhaseTabs):
    """What has become of it."""

    title = "state"
    parameter_name = "state"
    field = "state"


@admin.register(Invocation)
class InvocationAdmin(ActingAdmin):
    """Every request to a function and what became of it."""

    row_actions = INVOCATION_ACTIONS
    when_empty = (
        "There are no invocations yet. Each request to a function becomes one, and is kept here"
        " with what became of it."
    )
    found_at = 8
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
        return phase_badge(row.state)

    @admin.display(description="invocationID")
    def id_column(self, row: Invocation) -> str:
        """Return the caller's key."""
        return visible(row.invocation_id)

    @admin.display(description="Tenant")
    def tenant_column(self, row: Invocation) -> str:
        """Return whose it is: an invocationID is unique in a tenant only."""
        return row.tenant.name

    @admin.display(description="Worker", empty_value="")
    def worker_column(self, row: Invocation) -> str:
        """Return the worker that had it last."""
        return visible(row.worker)

    @admin.display(description="Why", empty_value="")
    def why_column(self, row: Invocation) -> SafeString:
        """Return why it did not succeed, on one line."""
        return why(row.failure_class, row.error)

    @admin.display(description="Since")
    def since(self, row: Invocation) -> SafeString:
        """Return how long it is what it is."""
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
        return Detail(
            title=row.invocation_id,
            badge=phase_badge(row.state),
            since=age_html(row.completed_at or row.attempted_at or row.accepted_at),
            panel=_panel(row),
            facts=[fact for fact in _facts(row) if fact.value],
            related=[
                Related("Timeline", list(_timeline(row))),
                jobs_of(INVOCATION_KIND, row.pk),
            ],
            documents=list(_documents(row)),
        )


def _panel(row: Invocation) -> Panel | None:
    """Return why it did not succeed; None where there is nothing to explain."""
    if row.state not in FAILED_STATES:
        return None
    return Panel(
        shape=Shape.FAILED,
        title=reason_html(row.failure_class or row.state),
        text=visible(row.error),
        since=age_html(row.completed_at),
        next_step=FAILURE_NEXT_STEPS.get(row.failure_class, ""),
    )


def _facts(row: Invocation) -> Iterable[Fact]:
    yield Fact("Function", row.function.request_id, object_url(FUNCTION_KIND, row.function_id))
    yield Fact("Tenant", row.tenant.name)
    yield Fact("Mode", row.mode)
    yield Fact("May take", f"{row.timeout_seconds} s")
    is_of_another = 0 < row.result_attempt < row.attempts
    of = f", the result is that of attempt {row.result_attempt}" if is_of_another else ""
    yield Fact("Attempts", f"{row.attempts}{of}")
    yield Fact("Worker", visible(row.worker), _worker_url(row))
    yield Fact("Status", "" if row.status_code is None else str(row.status_code))
    size = f"{row.result_bytes} bytes" + (", cut" if row.is_truncated else "")
    yield Fact("Answer", size if row.status_code is not None else "")
    times = "" if row.publications < 2 else f"{row.publications} times"
    yield Fact("Put in the queue", times)
    yield Fact("Number in the queue", str(row.stream_sequence or ""))


def _worker_url(row: Invocation) -> str:
    """Return the page of the unit that had it last, while there is one."""
    if not row.worker:
        return ""
    units = GpuUnit.objects.filter(
        role=UnitRole.ACTIVE, namespace=row.tenant.namespace, name=row.worker
    )
    return object_url(UNIT_KIND, units.order_by("-id").values_list("pk", flat=True).first())


def _timeline(row: Invocation) -> Iterator[RelatedRow]:
    """Yield its steps in order; those that it did not come to are left out."""
    worker = visible(row.worker)
    again = f"attempt {row.attempts}, {worker}" if row.attempts > 1 else ""
    yield _step(row.accepted_at, Shape.READY, "Accepted", "")
    steps: Sequence[tuple[datetime | None, str, str]] = (
        (row.published_at, "Put in the queue", f"number {row.stream_sequence}"),
        (row.started_at, "A worker began", worker if not again else ""),
        (row.attempted_at if again else None, "A worker began again", again),
    )
    for moment, name, text in steps:
        if moment is not None:
            yield _step(moment, Shape.READY, name, text)
    if row.stored_at is not None and row.completed_at is not None:
        has_answered = row.status_code is not None
        name = "The function answered" if has_answered else "Its worker gave it up"
        said = f"status {row.status_code}" if has_answered else ""
        yield _step(row.completed_at, Shape.READY if has_answered else Shape.FAILED, name, said)
    ended_at, stored = row.stored_at or row.completed_at, "stored" if row.stored_at else ""
    if ended_at is not None:
        yield _step(ended_at, phase_shape(row.state), row.state, stored)


def _step(moment: datetime, shape: Shape, name: str, text: str) -> RelatedRow:
    at = moment.strftime("%H:%M:%S.") + f"{moment.microsecond // 1000:03d}"
    return RelatedRow(
        badge=shape_badge(shape, name),
        name=at,
        url="",
        text=text,
        since=age_html(moment),
    )


def _documents(row: Invocation) -> Iterator[Document]:
    yield Document(f"Payload ({row.content_type})", _text(bytes(row.payload)))
    if row.headers:
        yield Document("Headers", visible(as_yaml(masked_headers(row.headers))))
    if row.result_body is not None:
        title = f"Answer ({visible(row.result_content_type)})"
        yield Document(title, _text(bytes(row.result_body)))


def _text(body: bytes) -> str:
    """Return the beginning of a body for a reader."""
    shown = visible(body[:SHOWN_BYTES].decode(errors="replace"))
    return shown if len(body) <= SHOWN_BYTES else f"{shown}\n… {len(body)} bytes"


def _rows(number: int) -> Sequence[RelatedRow]:
    rows = Invocation.objects.filter(pk=number).defer("payload", "result_body")
    return [invocation_line(row) for row in rows]


register_object_page(INVOCATION_KIND, ObjectPage(PAGE, _rows))
