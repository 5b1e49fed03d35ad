"""An invocation as a line on other pages, and titles of failures."""

from collections.abc import Mapping
from typing import Final

from django.urls import reverse
from django.utils.safestring import SafeString

from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import phase_badge
from gpuplatform.adminkit.display.text import humanize, message_or_reason, visible
from serverless.models import Function, Invocation
from serverless.phases import FailureClass, FunctionPhase, FunctionReason, InvocationState

PAGE: Final = "admin:serverless_invocation_change"

_TITLES: Final[Mapping[str, str]] = {
    FailureClass.MALFORMED_MESSAGE: "The message cannot be decoded",
    FailureClass.DISPATCH_ERROR: "The invocation was lost",
    FailureClass.FRAMEWORK_ERROR: "The function failed",
    FailureClass.FRAMEWORK_TIMEOUT: "The function exceeded the timeout",
    FailureClass.RESULT_STORE_ERROR: "The result could not be stored",
    FailureClass.RETRY_EXHAUSTED: "No worker completed it",
}
_BLOCKING_REASONS: Final = frozenset(
    {
        FunctionReason.WORKER_FAILED,
        FunctionReason.NO_CAPACITY,
        FunctionReason.QUEUE_UNAVAILABLE,
    }
)


def failure_title(failure_class: str) -> str:
    """Return the title of a failure class for people."""
    return _TITLES.get(failure_class) or humanize(failure_class)


def cannot_serve(function: Function) -> bool:
    """Return whether a function cannot serve invocations."""
    return function.phase == FunctionPhase.FAILED or function.reason in _BLOCKING_REASONS


def is_blocked(row: Invocation) -> bool:
    """Return whether an invocation is queued because its function cannot serve it."""
    return row.state == InvocationState.QUEUED and cannot_serve(row.function)


def state_badge(row: Invocation) -> SafeString:
    """Return the badge of an invocation's state."""
    return phase_badge(row.state, row.get_state_display())


def invocation_url(row: Invocation) -> str:
    """Return the URL of an invocation's page."""
    return reverse(PAGE, args=[row.pk])


def invocation_line(row: Invocation) -> RelatedRow:
    """Return an invocation as a line."""
    return RelatedRow(
        badge=state_badge(row),
        name=visible(row.invocation_id),
        url=invocation_url(row),
        text=message_or_reason(row.failure_class, row.error),
        since=age_html(row.completed_at or row.accepted_at),
    )
