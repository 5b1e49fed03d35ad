"""The list and the pages of functions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform import clock
from gpuplatform.adminkit.age import age_html, ago_html
from gpuplatform.adminkit.badges import Shape, phase_shape
from gpuplatform.adminkit.detail import (
    Comparison,
    Copy,
    Detail,
    Document,
    Fact,
    Related,
    RelatedRow,
    secrets_fact,
)
from gpuplatform.adminkit.filters import (
    AgeFilter,
    HistoryFilter,
    PhaseTabs,
    ReasonFilter,
    SpecFilter,
    TenantFilter,
)
from gpuplatform.adminkit.links import ObjectPage, object_rows, register_object_page
from gpuplatform.adminkit.mirrors import MirrorAdmin, mirror_badge, mirror_panel
from gpuplatform.adminkit.text import NONE, as_yaml, shortened, told, visible, words
from gpuplatform.adminkit.timeline import Step, timeline
from gpuplatform.operations.admin import job_url, jobs_of
from gpuplatform.operations.admin_timeline import operation_steps
from inventory.models import GpuSpec
from serverless.admin.actions import FUNCTION_ACTIONS
from serverless.admin.lines import invocation_line, invocation_url
from serverless.core.spec import FunctionSpec
from serverless.models import Function, Invocation
from serverless.phases import FUNCTION_NEXT_STEPS, FunctionPhase, FunctionReason
from serverless.recent import Recent, recent_outcomes
from serverless.selectors import with_oldest, workers_of
from serverless.services import FUNCTION_KIND
from units.services import UNIT_KIND

PAGE: Final = "admin:serverless_function_change"
SPEC_URL: Final = "admin:inventory_gpuspec_change"
WELL: Final = frozenset({FunctionPhase.READY})
ON_THE_WAY: Final = frozenset(
    {FunctionPhase.PENDING, FunctionPhase.PROGRESSING, FunctionPhase.TERMINATING}
)
"""Phases that usually pass within a minute or so."""
SHOWN_INVOCATIONS: Final = 10


class FunctionReasonFilter(ReasonFilter):
    """Why the phase is what it is."""

    reasons = FunctionReason


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
    when_empty = (
        "There are no functions yet. A function is an image that answers requests on GPU units"
        " which are there only while there is something to do; the API makes one:"
        " POST /api/v1/serverless/functions."
    )
    found_at = 7
    well = WELL
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
        return _rate(row.recent)

    @override
    @admin.display(description="Why", empty_value="")
    def why_column(self, row: Any) -> SafeString:
        """Return why it is not well; of one that is, the newest of its invocations that failed."""
        failure: Invocation | None = row.recent.last_failure
        if row.phase not in WELL or failure is None or failure.completed_at is None:
            return super().why_column(row)
        return format_html(
            '<span class="why" title="{}">Last failure: <a href="{}">{}</a>, {}</span>',
            f"{failure.failure_class}: {shortened(failure.error)}",
            invocation_url(failure),
            words(failure.failure_class or failure.state),
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
        return _line(row)

    @override
    def detail(self, row: Function) -> Detail:
        return Detail(
            title=row.request_id,
            badge=mirror_badge(row),
            since=age_html(row.deleted_at or row.phase_since),
            panel=mirror_panel(row, FUNCTION_NEXT_STEPS, well=WELL),
            facts=[fact for fact in _facts(row) if fact.value],
            comparisons=() if row.deleted_at else _comparisons(row),
            timeline=timeline(_steps(row)),
            copies=(
                Copy("Name", row.request_id),
                Copy("operationID", visible(row.operation.operation_id)),
            ),
            related=[_workers(row), _newest(row), jobs_of(FUNCTION_KIND, row.pk)],
            documents=(Document("Spec", visible(as_yaml(row.spec))),),
        )


def _facts(row: Function) -> Iterable[Fact]:
    recent = recent_outcomes([row.pk]).get(row.pk, Recent())
    entry = GpuSpec.objects.filter(name=row.spec_name).first()
    if entry is None:
        yield Fact("GPU spec", f"{row.spec_name} (not in the catalogue)")
    else:
        yield Fact("GPU spec", row.spec_name, reverse(SPEC_URL, args=[entry.pk]))
    yield Fact("Image", visible(str(row.spec.get("image", ""))))
    yield secrets_fact(row.spec)
    yield Fact("Backlog", str(row.backlog))
    yield Fact.time("Oldest waiting, accepted", getattr(row, "oldest_open_at", None))
    yield Fact("Success", f"{_rate(recent)} of the newest {recent.ended}" if recent.ended else "")
    if failure := recent.last_failure:
        url = invocation_url(failure)
        yield Fact("Last failure", told(failure.failure_class, failure.error), url)
    yield Fact("Failed starts in a row", str(row.start_failures) if row.start_failures else "")
    if row.starts_after is not None and row.starts_after > clock.now():
        yield Fact.time("No start before", row.starts_after)
    yield Fact.time("Last active", row.last_active_at)
    yield Fact.time("Last looked at", row.observed_at)
    yield Fact("Tenant", row.tenant.name)
    yield Fact("Made by", visible(row.operation.operation_id), job_url(row.operation))
    yield Fact.time("Asked for", row.created_at)
    yield Fact.time("Changed", row.updated_at)
    yield Fact.time("Deletion asked", row.deletion_requested_at)
    yield Fact.time("Deleted", row.deleted_at)


def _steps(row: Function) -> Iterator[Step]:
    """Yield that it was asked for, and since when it is what it is."""
    yield from operation_steps(row.operation)
    phase = "Deleted" if row.deleted_at else row.phase
    words = told(row.reason, row.message)
    yield Step(phase, row.deleted_at or row.phase_since, phase_shape(phase), words)
    if row.phase not in WELL and not row.deleted_at:
        yield Step("Ready", None, Shape.OFF, f"not yet: {row.workers_ready} workers serve")


def _comparisons(row: Function) -> Sequence[Comparison]:
    spec = FunctionSpec.parse(row.spec)
    limits = f"{spec.min_workers} to {spec.max_workers}"
    is_within = spec.min_workers <= row.workers_ready <= spec.max_workers
    return (Comparison("Ready workers", limits, str(row.workers_ready), is_within=is_within),)


def _workers(row: Function) -> Related:
    units = workers_of(row).values_list("pk", flat=True)
    lines = [line for unit in units for line in object_rows(UNIT_KIND, unit)]
    return Related("Workers", lines)


def _newest(row: Function) -> Related:
    newest = Invocation.objects.filter(function=row).defer("payload", "result_body")
    lines = [invocation_line(one) for one in newest.order_by("-id")[:SHOWN_INVOCATIONS]]
    return Related("Newest invocations", lines)


def _rate(recent: Recent) -> str:
    return NONE if recent.success_rate is None else f"{recent.success_rate:.0%}"


def _rows(number: int) -> Sequence[RelatedRow]:
    return [_line(row) for row in Function.objects.filter(pk=number)]


def _line(row: Function) -> RelatedRow:
    return RelatedRow(
        badge=mirror_badge(row),
        name=row.request_id,
        url=reverse(PAGE, args=[row.pk]),
        text=shortened(row.message),
        since=age_html(row.deleted_at or row.phase_since),
    )


register_object_page(FUNCTION_KIND, ObjectPage(PAGE, _rows))
