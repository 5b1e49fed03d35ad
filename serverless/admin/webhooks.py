"""Webhooks of invocations in the admin."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from django.http import HttpRequest
from typing_extensions import override

from gpuplatform.adminkit.detail.panels import Fact, Related, RelatedRow
from gpuplatform.adminkit.display.age import age_html, span
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import humanize, shortened, visible
from gpuplatform.adminkit.lists.filters import ChoiceFilter
from serverless.models import Function, Invocation
from serverless.webhook_phases import WEBHOOK_FAILURES, WebhookState

HIDDEN: Final = "…"
_DELIVERED: Final = (Shape.READY, WebhookState.DELIVERED.label)


class WebhookFilter(ChoiceFilter):
    """A filter by the state of the webhook."""

    title = "webhook"
    parameter_name = "webhook"
    field = "webhook_state"

    @override
    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(WebhookState.choices)


def shown_url(url: str) -> str:
    """Return the URL without its path and query, which often contain a secret."""
    parts = urlsplit(url)
    has_path = parts.path not in {"", "/"} or parts.query
    return visible(f"{parts.scheme}://{parts.netloc}{f'/{HIDDEN}' if has_path else ''}")


def webhook_facts(row: Invocation) -> Iterable[Fact]:
    """Yield the webhook of an invocation and its state."""
    if not row.on_done_url:
        return
    yield Fact("Webhook", shown_url(row.on_done_url))
    waits = " (sent at the end)" if row.completed_at is None else ""
    yield Fact("Webhook state", f"{row.get_webhook_state_display()}{waits}")
    yield Fact("Webhook delivery", str(row.webhook_id or ""))
    yield Fact.time("Next attempt of the webhook", row.webhook_after)


def function_webhook_facts(row: Function, url: str) -> Iterable[Fact]:
    """Yield the default webhook of a function, and its newest secret."""
    yield Fact("Webhook", shown_url(url) if url else "")
    newest = row.webhook_secrets.order_by("-id").first()
    yield Fact.time("Webhook secret created", newest.created_at if newest else None)


def webhook_attempts(row: Invocation) -> Related | None:
    """Return the attempts to send the webhook, newest first, or `None` if there are none."""
    lines = [_line(attempt) for attempt in reversed(row.webhook_attempts)]
    return Related("Webhook attempts", lines) if lines else None


def _line(attempt: dict[str, Any]) -> RelatedRow:
    reason, status = attempt["reason"], attempt["statusCode"]
    took = f"{span(attempt['durationSeconds'])}, delivery {attempt['deliveryID']}"
    explained = WEBHOOK_FAILURES.get(reason)
    meaning = explained.meaning if explained else ""
    texts = (f"Status {status}." if status else "", meaning, attempt["message"])
    return RelatedRow(
        badge=shape_badge(*((Shape.FAILED, humanize(reason)) if reason else _DELIVERED)),
        name=took,
        url="",
        text=visible(shortened(" ".join(text for text in texts if text))),
        since=age_html(datetime.fromisoformat(attempt["startedAt"])),
    )
