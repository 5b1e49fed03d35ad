"""An invocation as a line on other pages, and titles of failures."""

from typing import Final

from django.urls import reverse
from django.utils.safestring import SafeString

from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import phase_badge
from gpuplatform.adminkit.display.text import humanize, message_or_reason, visible
from serverless.models import Invocation
from serverless.phases import FAILURE_CLASSES

PAGE: Final = "admin:serverless_invocation_change"


def failure_title(failure_class: str) -> str:
    """Return the title of a failure class for people."""
    explanation = FAILURE_CLASSES.get(failure_class)
    return (explanation and explanation.title) or humanize(failure_class)


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
