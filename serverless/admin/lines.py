"""An invocation as a line on another page, and in which words its failure is said."""

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
    FailureClass.MALFORMED_MESSAGE: "Its message cannot be read",
    FailureClass.DISPATCH_ERROR: "It was lost on its way",
    FailureClass.FRAMEWORK_ERROR: "The function failed",
    FailureClass.FRAMEWORK_TIMEOUT: "The function took too long",
    FailureClass.RESULT_STORE_ERROR: "The result could not be stored",
    FailureClass.RETRY_EXHAUSTED: "No worker ended it",
}
_HOLDS_UP: Final = frozenset(
    {
        FunctionReason.WORKER_FAILED,
        FunctionReason.NO_CAPACITY,
        FunctionReason.QUEUE_UNAVAILABLE,
    }
)


def failure_title(failure_class: str) -> str:
    """Return a failure class in words for people."""
    return _TITLES.get(failure_class) or humanize(failure_class)


def cannot_serve(function: Function) -> bool:
    """Say whether something that does not pass by itself keeps a function from its work."""
    return function.phase == FunctionPhase.FAILED or function.reason in _HOLDS_UP


def is_held_up(row: Invocation) -> bool:
    """Say whether no worker gets an invocation, for what its function says."""
    return row.state == InvocationState.QUEUED and cannot_serve(row.function)


def state_badge(row: Invocation) -> SafeString:
    """Return the badge of what has become of an invocation."""
    return phase_badge(row.state, row.get_state_display())


def invocation_url(row: Invocation) -> str:
    """Return the address of an invocation's page."""
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
