"""What the page of a function shows: what waits for it, who serves it, and how that goes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from django.urls import reverse

from gpuplatform import clock
from gpuplatform.adminkit.actions.action import counted
from gpuplatform.adminkit.actions.mirrors import mirror_badge, mirror_panel
from gpuplatform.adminkit.detail.panels import (
    Comparison,
    Copy,
    Detail,
    Document,
    Fact,
    Related,
    RelatedRow,
    secrets_fact,
)
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, phase_shape, shape_badge
from gpuplatform.adminkit.display.causes import cause_of, title_of
from gpuplatform.adminkit.display.text import (
    NONE,
    as_yaml,
    condense,
    message_or_reason,
    shortened,
    visible,
)
from gpuplatform.adminkit.display.timeline import Step, span, timeline
from gpuplatform.operations.admin import operation_url, operations_of
from gpuplatform.operations.admin_display import operation_steps
from inventory.models import GpuSpec
from serverless.admin.lines import invocation_line, invocation_url
from serverless.core.spec import FunctionSpec
from serverless.models import Function, Invocation
from serverless.phases import FUNCTION_REASONS, FunctionPhase
from serverless.recent import Recent, recent_outcomes
from serverless.selectors import failed_workers_of, workers_of
from serverless.services import FUNCTION_KIND
from units.admin.detail import unit_line
from units.selectors import claimable

PAGE: Final = "admin:serverless_function_change"
SPEC_URL: Final = "admin:inventory_gpuspec_change"
HEALTHY_PHASES: Final = frozenset({FunctionPhase.READY})
SHOWN_INVOCATIONS: Final = 10
SHOWN_FAILED_WORKERS: Final = 3


def function_detail(row: Function) -> Detail:
    """Return the whole page."""
    spec = FunctionSpec.parse(row.spec)
    return Detail(
        title=row.request_id,
        badge=mirror_badge(row),
        since=age_html(row.deleted_at or row.phase_since),
        panel=mirror_panel(row, FUNCTION_REASONS, well=HEALTHY_PHASES),
        facts=[fact for fact in (*_facts(row), *_limits(spec), *_record(row)) if fact.value],
        comparisons=() if row.deleted_at else _comparisons(row, spec),
        timeline=timeline(_steps(row)),
        copies=(
            Copy("Name", row.request_id),
            Copy("operationID", visible(row.operation.operation_id)),
        ),
        related=[_workers(row), _newest(row), operations_of(FUNCTION_KIND, row.pk)],
        documents=(Document("Spec", visible(as_yaml(row.spec))),),
    )


def function_line(row: Function) -> RelatedRow:
    """Return a function as a line on another page."""
    return RelatedRow(
        badge=mirror_badge(row),
        name=row.request_id,
        url=reverse(PAGE, args=[row.pk]),
        text=shortened(row.message),
        since=age_html(row.deleted_at or row.phase_since),
    )


def success_rate(recent: Recent) -> str:
    """Return the part of the newest invocations that succeeded."""
    return NONE if recent.success_rate is None else f"{recent.success_rate:.0%}"


def _facts(row: Function) -> Iterable[Fact]:
    """Yield what it is, and how that goes."""
    recent = recent_outcomes([row.pk]).get(row.pk, Recent())
    entry = GpuSpec.objects.filter(name=row.spec_name).first()
    if entry is None:
        yield Fact("GPU spec", f"{row.spec_name} (not in the catalogue)")
    else:
        yield Fact("GPU spec", row.spec_name, reverse(SPEC_URL, args=[entry.pk]))
    yield Fact("Image", visible(str(row.spec.get("image", ""))))
    yield secrets_fact(row.spec)
    yield Fact("Backlog", str(row.backlog))
    oldest = getattr(row, "oldest_open_at", None)
    yield Fact("Oldest waits", age_html(oldest) if oldest else "")
    yield Fact(
        "Success", f"{success_rate(recent)} of the newest {recent.ended}" if recent.ended else ""
    )
    if failure := recent.last_failure:
        url = invocation_url(failure)
        yield Fact("Last failure", message_or_reason(failure.failure_class, failure.error), url)
    if not row.deletion_requested_at:
        if row.start_failures:
            yield Fact("Tries in vain", f"{row.start_failures} in a row")
            # A function whose workers fail uses its stock up: then both are in the way.
            has_stock = claimable(row.spec_name).exists()
            yield Fact("Stock for the next", "" if has_stock else "none is ready")
        if row.starts_after is not None and row.starts_after > clock.now():
            yield Fact.time("Next try", row.starts_after)


def _limits(spec: FunctionSpec) -> Iterable[Fact]:
    """Yield the values that apply, also those that nobody sent."""
    workers = f"{spec.min_workers} to {spec.max_workers}"
    yield Fact("Workers", f"{workers}, each {counted(spec.concurrency, 'invocation')} at a time")
    yield Fact("May take", f"{_span(spec.timeout_seconds)} an invocation")
    pauses = ", ".join(_span(seconds) for seconds in spec.backoff_seconds[: spec.max_deliver - 1])
    is_once = spec.max_deliver == 1
    yield Fact(
        "Tries", "one" if is_once else f"up to {spec.max_deliver}, after pauses of {pauses}"
    )
    yield Fact("Sleeps", f"after {_span(spec.idle_timeout_seconds)} without work")


def _record(row: Function) -> Iterable[Fact]:
    """Yield whose it is, and its dates."""
    yield Fact("Tenant", row.tenant.name)
    yield Fact("Made by", visible(row.operation.operation_id), operation_url(row.operation))
    yield Fact.time("Requested", row.created_at)
    yield Fact.time("Changed", row.updated_at)
    yield Fact.time("Last active", row.last_active_at)
    yield Fact.time("Last looked at", row.observed_at)
    yield Fact.time("Deletion asked", row.deletion_requested_at)
    yield Fact.time("Deleted", row.deleted_at)


def _steps(row: Function) -> Iterator[Step]:
    """Yield that it was asked for, and since when it is what it is."""
    yield from operation_steps(row.operation)
    phase = "Deleted" if row.deleted_at else row.phase
    words = row.message if row.phase in HEALTHY_PHASES else title_of(row.reason, cause_of(row))
    yield Step(phase, row.deleted_at or row.phase_since, phase_shape(phase), shortened(words))
    if row.phase not in HEALTHY_PHASES and not row.deletion_requested_at and not row.deleted_at:
        yield Step("Ready", None, Shape.OFF, f"not yet: {row.workers_ready} workers serve")


def _comparisons(row: Function, spec: FunctionSpec) -> Sequence[Comparison]:
    limits = f"{spec.min_workers} to {spec.max_workers}"
    is_within = spec.min_workers <= row.workers_ready <= spec.max_workers
    return (Comparison("Ready workers", limits, str(row.workers_ready), is_equal=is_within),)


def _workers(row: Function) -> Related:
    """Return its workers; while none can start, with the last ones that failed."""
    lines = [unit_line(unit) for unit in workers_of(row)]
    if row.start_failures and not row.deleted_at:
        lines += map(_failed_worker, failed_workers_of(row)[:SHOWN_FAILED_WORKERS])
    return Related("Workers", lines)


def _failed_worker(unit: Any) -> RelatedRow:
    """Return a worker that is gone, with why: its page has its history."""
    badge = shape_badge(Shape.FAILED, "Failed, gone")
    return replace(unit_line(unit), badge=badge, text=shortened(condense(unit.failed_because)))


def _newest(row: Function) -> Related:
    newest = Invocation.objects.filter(function=row).defer("payload", "result_body")
    lines = [invocation_line(one) for one in newest.order_by("-id")[:SHOWN_INVOCATIONS]]
    return Related("Newest invocations", lines)


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 10 else span(seconds)
