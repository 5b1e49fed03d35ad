"""The page of an invocation: its outcome or what it waits for, its facts and its timeline."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.detail.panels import Detail, Document, Fact, Panel
from gpuplatform.adminkit.display.age import age_html, ago_html
from gpuplatform.adminkit.display.badges import Shape, phase_shape
from gpuplatform.adminkit.display.causes import cause_of, next_step_of, title_of
from gpuplatform.adminkit.display.counts import capped, capped_counts
from gpuplatform.adminkit.display.text import as_yaml, counted, visible
from gpuplatform.adminkit.display.timeline import Step, timeline
from gpuplatform.adminkit.lists.objects import object_url
from gpuplatform.formats.masking import masked_headers
from gpuplatform.operations.admin import operations_of
from serverless.admin.lines import failure_title, invocation_since, state_badge
from serverless.admin.webhooks import webhook_attempts, webhook_facts
from serverless.models import Invocation
from serverless.phases import FAILED_STATES, FAILURE_CLASSES, FUNCTION_REASONS, InvocationState
from serverless.selectors import open_invocations
from serverless.services.names import FUNCTION_KIND, INVOCATION_KIND
from units.models import GpuUnit
from units.phases import UnitRole
from units.services.names import UNIT_KIND

SHOWN_BYTES: Final = 4096
_HIDDEN: Final = Document(
    "Payload", "Hidden. It requires the permission 'Read payloads and results' of invocations."
)
FIRST_ERROR_STATUS: Final = 400
"""The lowest HTTP status that workers count as a failure."""


def invocation_detail(row: Invocation) -> Detail:
    """Return the content of an invocation's page, without the payload and the result."""
    worker, operations = _worker(row), operations_of(INVOCATION_KIND, row.pk)
    return Detail(
        title=row.invocation_id,
        badge=state_badge(row),
        since=invocation_since(row),
        panel=_failure(row, worker) if row.state in FAILED_STATES else _waiting(row),
        facts=[fact for fact in _facts(row, worker) if fact.value],
        timeline=timeline(_steps(row, worker)),
        related=[one for one in (webhook_attempts(row), operations) if one and one.rows],
        documents=[_HIDDEN],
    )


def revealed(detail: Detail, row: Invocation) -> Detail:
    """Return the content of a page with the payload, the headers and the result."""
    return replace(detail, documents=list(_documents(row)))


def _failure(row: Invocation, worker: GpuUnit | None) -> Panel:
    """Return the failure of an invocation, with a link to the log of its worker."""
    log = ""
    if worker is not None and not worker.deleted_at:
        url = object_url(UNIT_KIND, worker.pk)
        log = format_html(' The worker still exists. <a href="{}">View its log</a>.', url)
    elif row.worker:
        log = " The worker and its log no longer exist."
    ended = format_html("{}. ", ago_html(row.completed_at)) if row.completed_at else ""
    next_step = next_step_of(FAILURE_CLASSES, row.failure_class)
    title = failure_title(row.failure_class or row.state)
    code = format_html(' <code class="off">{}</code>', visible(row.failure_class))
    return Panel(
        shape=Shape.FAILED,
        title=format_html("{}{}", title, code if row.failure_class else ""),
        text=visible(row.error),
        since=SafeString(""),
        next_step=format_html("{}{}{}", ended, next_step, log),
    )


def _waiting(row: Invocation) -> Panel | None:
    """Return the explanation of the wait of a queued invocation."""
    if row.state != InvocationState.QUEUED:
        return None
    function = row.function
    url = object_url(FUNCTION_KIND, function.pk)
    link = format_html('<a href="{}">{}</a>', url, function.request_id)
    [before] = capped_counts([open_invocations(function).filter(pk__lt=row.pk)])
    others = "1 invocation is" if before == 1 else f"{capped(before)} invocations are"
    place = f"{others} ahead of this one." if before else ""
    if row.is_blocked:
        cause = cause_of(function)
        next_step = next_step_of(FUNCTION_REASONS, function.reason, cause)
        title = f"Waiting: {title_of(function.reason, cause)}"
        text = format_html("Function {}: {}", link, visible(function.message))
    elif row.published_at is None:
        title, next_step = "Waiting to be published", "The relay publishes it automatically."
        text = format_html("The invocation is not in the queue of function {} yet.", link)
    else:
        title, next_step = "Waiting for a worker", "It starts when a worker is ready."
        text = format_html("Function {}: {}", link, visible(function.message))
    return Panel(
        shape=Shape.WAITING,
        title=title,
        text=text,
        since=age_html(row.accepted_at),
        next_step=" ".join(part for part in (place, next_step) if part),
    )


def _facts(row: Invocation, worker: GpuUnit | None) -> Iterable[Fact]:
    yield Fact("Function", row.function.request_id, object_url(FUNCTION_KIND, row.function_id))
    yield Fact("Tenant", row.tenant.name)
    yield Fact("Mode", row.mode)
    yield Fact("Timeout", f"{row.timeout_seconds} s")
    yield Fact.time("Expires if not started", row.expires_at)
    is_older = 0 < row.result_attempt < row.attempts
    of = f"; result of attempt {row.result_attempt}" if is_older else ""
    yield Fact("Attempts", f"{row.attempts}{of}")
    deleted = " (deleted)" if row.worker and (worker is None or worker.deleted_at) else ""
    yield Fact("Worker", f"{visible(row.worker)}{deleted}", _worker_url(worker))
    yield Fact("HTTP status", "" if row.status_code is None else str(row.status_code))
    size = f"{row.result_bytes} bytes" if row.result_bytes else "empty"
    size += ", truncated" if row.is_truncated else ""
    yield Fact("Response body", size if row.status_code is not None else "")
    times = "" if row.publications < 2 else counted(row.publications, "time")
    yield Fact("Published", times)
    yield from webhook_facts(row)


def _worker(row: Invocation) -> GpuUnit | None:
    """Return the GPU unit that was the last worker of an invocation, if its row still exists."""
    if not row.worker:
        return None
    units = GpuUnit.objects.filter(
        role=UnitRole.ACTIVE, namespace=row.tenant.namespace, name=row.worker
    )
    return units.order_by("-id").first()


def _worker_url(worker: GpuUnit | None) -> str:
    return object_url(UNIT_KIND, worker.pk) if worker else ""


def _steps(row: Invocation, worker: GpuUnit | None) -> Iterator[Step]:
    """Yield the steps of an invocation, and the next step if it has not ended."""
    name, url = visible(row.worker), _worker_url(worker)
    is_retried = row.attempts > 1
    yield Step("Accepted", row.accepted_at)
    if row.published_at is not None:
        message = f"sequence {row.stream_sequence} of the stream" if row.stream_sequence else ""
        yield Step("In the queue", row.published_at, text=message)
    if row.started_at is not None:
        first = ("", "") if is_retried else (name, url)
        yield Step("Started", row.started_at, Shape.READY, *first)
    if is_retried and row.attempted_at is not None:
        text = f"attempt {row.attempts}, {name}"
        yield Step("Retried", row.attempted_at, Shape.READY, text, url)
    if row.stored_at is not None and row.completed_at is not None:
        yield _response(row)
    ended_at = row.stored_at or row.completed_at
    if ended_at is not None:
        stored = "stored" if row.stored_at else ""
        yield Step(row.get_state_display(), ended_at, phase_shape(row.state), stored)
    elif row.started_at is None:
        yield Step("Started", None, Shape.OFF, "not yet")
    else:
        yield Step("Ended", None, Shape.OFF, "not yet")


def _response(row: Invocation) -> Step:
    if row.status_code is None:
        return Step("No response", row.completed_at, Shape.FAILED)
    shape = Shape.READY if row.status_code < FIRST_ERROR_STATUS else Shape.FAILED
    return Step("Response received", row.completed_at, shape, f"status {row.status_code}")


def _documents(row: Invocation) -> Iterator[Document]:
    yield Document(f"Payload ({row.content_type})", _text(bytes(row.payload)))
    if row.headers:
        yield Document("Headers", visible(as_yaml(masked_headers(row.headers))))
    if row.result_body:
        title = f"Response body ({visible(row.result_content_type)})"
        yield Document(title, _text(bytes(row.result_body)))


def _text(body: bytes) -> str:
    """Return at most the first `SHOWN_BYTES` of a body as text."""
    shown = visible(body[:SHOWN_BYTES].decode(errors="replace"))
    return shown if len(body) <= SHOWN_BYTES else f"{shown}\n… {len(body)} bytes"
