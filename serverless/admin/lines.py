"""An invocation as a line on another page."""

from typing import Final

from django.urls import reverse

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import phase_badge
from gpuplatform.adminkit.detail import RelatedRow
from gpuplatform.adminkit.text import told, visible
from serverless.models import Invocation

PAGE: Final = "admin:serverless_invocation_change"


def invocation_url(row: Invocation) -> str:
    """Return the address of an invocation's page."""
    return reverse(PAGE, args=[row.pk])


def invocation_line(row: Invocation) -> RelatedRow:
    """Return an invocation as a line."""
    return RelatedRow(
        badge=phase_badge(row.state),
        name=visible(row.invocation_id),
        url=invocation_url(row),
        text=told(row.failure_class, row.error),
        since=age_html(row.completed_at or row.accepted_at),
    )
