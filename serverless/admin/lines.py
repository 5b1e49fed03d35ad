"""Parts of invocations that several pages display."""

from django.utils.safestring import SafeString

from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import phase_badge
from gpuplatform.adminkit.display.text import humanize, message_or_reason, visible
from gpuplatform.adminkit.display.urls import page_url
from serverless.models import Invocation
from serverless.phases import FAILURE_CLASSES


def failure_title(failure_class: str) -> str:
    """Return the title of a failure class."""
    explanation = FAILURE_CLASSES.get(failure_class)
    return (explanation and explanation.title) or humanize(failure_class)


def state_badge(row: Invocation) -> SafeString:
    """Return the badge of the state of an invocation."""
    return phase_badge(row.state, row.get_state_display())


def invocation_since(row: Invocation) -> SafeString:
    """Return the time since the last change of an invocation."""
    return age_html(row.completed_at or row.attempted_at or row.accepted_at)


def invocation_line(row: Invocation) -> RelatedRow:
    """Return an invocation as a line of a table on another page."""
    return RelatedRow(
        badge=state_badge(row),
        name=visible(row.invocation_id),
        url=page_url(row),
        text=message_or_reason(row.failure_class, row.error),
        since=invocation_since(row),
    )
