"""The page of a function: its status, limits, workers and invocations."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from gpuplatform import clock
from gpuplatform.adminkit.actions.mirrors import mirror_badge, mirror_panel, mirror_since
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
from gpuplatform.adminkit.display.age import age_html, span
from gpuplatform.adminkit.display.badges import Shape, phase_shape, shape_badge
from gpuplatform.adminkit.display.causes import cause_of, title_of
from gpuplatform.adminkit.display.text import (
    NONE,
    as_yaml,
    condense,
    counted,
    message_or_reason,
    shortened,
    visible,
)
from gpuplatform.adminkit.display.timeline import Step, timeline
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.operations.admin import operations_of
from gpuplatform.operations.admin_display import operation_steps
from inventory.admin import spec_fact
from serverless.admin.lines import invocation_line
from serverless.admin.recent import RecentOutcomes, recent_outcomes
from serverless.admin.webhooks import function_webhook_facts
from serverless.core.spec import FunctionSpec
from serverless.models import Function, Invocation
from serverless.phases import FUNCTION_REASONS, FunctionPhase
from serverless.selectors import current_backlog, failed_workers_of, workers_of
from serverless.services.names import FUNCTION_KIND
from units.admin.detail import unit_line
from units.selectors import claimable

HEALTHY_PHASES: Final = frozenset({FunctionPhase.READY})
SHOWN_INVOCATIONS: Final = 10
SHOWN_FAILED_WORKERS: Final = 3


def function_detail(row: Function) -> Detail:
    """Return the content of a function's page."""
    spec = row.limits
    return Detail(
        title=row.request_id,
        badge=mirror_badge(row),
        since=mirror_since(row),
        panel=mirror_panel(row, FUNCTION_REASONS, healthy=HEALTHY_PHASES),
        facts=[fact for fact in _all_facts(row, spec) if fact.value],
        comparisons=() if row.deleted_at else _comparisons(row, spec),
        timeline=timeline(_steps(row)),
        copies=(
            Copy("Name", row.request_id),
            Copy("operationID", visible(row.operation.operation_id)),
        ),
        related=[_workers(row), _newest(row), operations_of(FUNCTION_KIND, row.pk)],
        documents=(Document("Spec", visible(as_yaml(row.spec))),),
    )


def success_rate(recent: RecentOutcomes) -> str:
    """Return the percentage of the newest invocations that succeeded, or a dash without any."""
    return NONE if recent.success_rate is None else f"{recent.success_rate:.0%}"


def _all_facts(row: Function, spec: FunctionSpec) -> Iterable[Fact]:
    yield from _facts(row)
    yield from _limits(spec)
    yield from function_webhook_facts(row, spec.on_done.url or "")
    yield from _record(row)


def _facts(row: Function) -> Iterable[Fact]:
    """Yield the declaration and the current numbers of a function."""
    recent = recent_outcomes([row.pk]).get(row.pk, RecentOutcomes())
    yield spec_fact(row.spec_name, row.spec_row)
    yield Fact("Image", visible(str(row.spec.get("image", ""))))
    yield secrets_fact(row.spec)
    yield Fact("Backlog", str(current_backlog(row)))
    oldest = getattr(row, "oldest_open_at", None)
    yield Fact("Oldest invocation", age_html(oldest) if oldest else "")
    yield Fact(
        "Success rate",
        f"{success_rate(recent)} of the last {recent.ended}" if recent.ended else "",
    )
    if failure := recent.last_failure:
        url = page_url(failure)
        yield Fact("Last failure", message_or_reason(failure.failure_class, failure.error), url)
    if not row.deletion_requested_at:
        if row.start_failures:
            yield Fact("Failed starts", f"{row.start_failures} in a row")
            # Each failed worker consumes stock, so missing stock can also prevent the next start.
            has_stock = claimable(row.spec_name).exists()
            yield Fact("Stock for the next start", "" if has_stock else "none ready")
        if row.starts_after is not None and row.starts_after > clock.now():
            yield Fact.time("Next start", row.starts_after)


def _limits(spec: FunctionSpec) -> Iterable[Fact]:
    """Yield the effective limits, including defaults."""
    workers = f"{spec.min_workers} to {spec.max_workers}"
    yield Fact("Workers", f"{workers}, each {counted(spec.concurrency, 'invocation')} at a time")
    yield Fact("Timeout", f"{span(spec.timeout_seconds)} for each invocation")
    if spec.expires_in_seconds:
        yield Fact(
            "Expiry", f"{span(spec.expires_in_seconds)} after the acceptance, unless started"
        )
    delays = ", ".join(span(seconds) for seconds in spec.backoff_seconds[: spec.max_deliver - 1])
    is_once = spec.max_deliver == 1
    attempts = "1" if is_once else f"up to {spec.max_deliver}, with delays of {delays}"
    yield Fact("Attempts", attempts)
    idle = span(spec.idle_timeout_seconds)
    yield Fact("Idle timeout", f"scales to {spec.min_workers or 'zero'} after {idle} idle")


def _record(row: Function) -> Iterable[Fact]:
    """Yield the tenant, the operation and the times of a function."""
    yield Fact("Tenant", row.tenant.name)
    yield Fact("Created by", visible(row.operation.operation_id), page_url(row.operation))
    yield Fact.time("Requested", row.created_at)
    yield Fact.time("Changed", row.updated_at)
    yield Fact.time("Last active", row.last_active_at)
    yield Fact.time("Last observed", row.observed_at)
    yield Fact.time("Deletion requested", row.deletion_requested_at)
    yield Fact.time("Deleted", row.deleted_at)


def _steps(row: Function) -> Iterator[Step]:
    """Yield the steps of the creation of a function, and its current phase."""
    yield from operation_steps(row.operation)
    phase = "Deleted" if row.deleted_at else row.phase
    is_healthy = row.phase in HEALTHY_PHASES
    text = row.message if is_healthy else title_of(row.reason, cause_of(row))
    yield Step(phase, row.deleted_at or row.phase_since, phase_shape(phase), shortened(text))
    if not is_healthy and not row.deletion_requested_at and not row.deleted_at:
        yield Step(
            "Ready", None, Shape.OFF, f"not yet: {counted(row.workers_ready, 'ready worker')}"
        )


def _comparisons(row: Function, spec: FunctionSpec) -> Sequence[Comparison]:
    limits = f"{spec.min_workers} to {spec.max_workers}"
    is_within = spec.min_workers <= row.workers_ready <= spec.max_workers
    return (Comparison("Ready workers", limits, str(row.workers_ready), is_equal=is_within),)


def _workers(row: Function) -> Related:
    """Return the workers of a function, and the last failed workers while no worker can start."""
    lines = [unit_line(unit) for unit in workers_of(row)]
    if row.start_failures and not row.deleted_at:
        lines += map(_failed_worker, failed_workers_of(row)[:SHOWN_FAILED_WORKERS])
    return Related("Workers", lines)


def _failed_worker(unit: Any) -> RelatedRow:
    """Return a deleted worker as a line with its failure."""
    badge = shape_badge(Shape.FAILED, "Failed, deleted")
    return replace(unit_line(unit), badge=badge, text=shortened(condense(unit.failed_because)))


def _newest(row: Function) -> Related:
    newest = Invocation.objects.filter(function=row).defer("payload", "result_body")
    lines = [invocation_line(one) for one in newest.order_by("-id")[:SHOWN_INVOCATIONS]]
    return Related("Newest invocations", lines)
