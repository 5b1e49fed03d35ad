"""The outbox of webhooks: rows of ended invocations whose webhook is Pending.

The end of an invocation puts its row in the outbox, because the condition of the outbox includes
the state. A sender claims rows for a limited time, sends the webhooks and records the attempts.
A webhook can be sent more than once, with the same delivery id.
"""

import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Case, F, Value, When
from django.db.models.functions import Now

from serverless.core.webhooks import retry_seconds
from serverless.models import WEBHOOK_OUTBOX, Invocation
from serverless.selectors import webhooks_due
from serverless.webhook_phases import WebhookFailure, WebhookState

CLAIM_SECONDS: Final = 60
"""Time in seconds after which another sender can claim a webhook without an outcome.

It is longer than an attempt.
"""

MAX_RECORDED: Final = 20
"""Maximum number of attempts that an invocation keeps, over all its deliveries."""

_CANDIDATES: Final = 8
"""Number of rows that are read for each row that can be claimed."""

WEBHOOK_RESET: Final[Mapping[str, Any]] = {
    "webhook_state": Case(
        When(on_done_url="", then=Value("")), default=Value(WebhookState.PENDING.value)
    ),
    "webhook_id": None,
    "webhook_after": None,
}
"""Values of the columns of an invocation whose next end is a new delivery."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to send a webhook."""

    started_at: datetime
    duration_seconds: float
    status_code: int | None = None
    failure: WebhookFailure | None = None
    message: str = ""

    def record(self, delivery: uuid.UUID) -> dict[str, Any]:
        """Return the attempt as an entry of `webhook_attempts`."""
        return {
            "deliveryID": str(delivery),
            "startedAt": self.started_at.isoformat(),
            "durationSeconds": round(self.duration_seconds, 3),
            "statusCode": self.status_code,
            "reason": self.failure.value if self.failure else "",
            "message": self.message,
        }


def webhooks_claim(
    limit: int,
    *,
    busy: Mapping[int, int],
    per_function: int,
    busy_tenants: Collection[int] = (),
) -> list[Invocation]:
    """Claim up to `limit` webhooks for `CLAIM_SECONDS`; return their rows.

    The oldest due webhooks are claimed first.

    Args:
        limit: Maximum number of claimed webhooks.
        busy: Number of webhooks of each function that the caller is sending.
        per_function: Maximum number of webhooks of one function that the caller sends together, so
            that the slow receiver of one function does not delay the webhooks of the others.
        busy_tenants: Tenants whose webhooks the caller is sending. The webhooks of other tenants
            are claimed before theirs, so that a tenant with slow receivers does not delay them.
    """
    full = [function for function, number in busy.items() if number >= per_function]
    oldest_first = F("webhook_after").asc(nulls_first=True)
    due = webhooks_due().exclude(function_id__in=full).order_by(oldest_first, "id")
    ids = due.values_list("pk", "function_id")
    first = ids.exclude(tenant_id__in=busy_tenants)[: limit * _CANDIDATES] if busy_tenants else ()
    candidates = dict.fromkeys([*first, *ids[: limit * _CANDIDATES]])
    chosen = _chosen(candidates, limit, busy, per_function)
    if not chosen:
        return []
    with transaction.atomic():
        rows = webhooks_due().filter(pk__in=chosen).select_related("tenant", "function")
        claimed = list(rows.defer("payload").select_for_update(skip_locked=True, of=("self",)))
        for row in claimed:
            row.webhook_id = row.webhook_id or uuid.uuid4()
            Invocation.objects.filter(pk=row.pk).update(
                webhook_id=row.webhook_id, webhook_after=Now() + timedelta(seconds=CLAIM_SECONDS)
            )
    return claimed


def webhook_record(row: Invocation, attempt: Attempt) -> None:
    """Record an attempt of a claimed webhook, and its outcome.

    If the invocation has ended again since, only the attempt is recorded.
    """
    delivery = row.webhook_id
    if delivery is None:
        raise ValueError(row)
    with transaction.atomic():
        rows = Invocation.objects.filter(pk=row.pk)
        current = rows.select_for_update().only("webhook_attempts", "webhook_id").first()
        if current is None:
            return
        attempts = [*current.webhook_attempts, attempt.record(delivery)]
        rows.update(webhook_attempts=attempts[-MAX_RECORDED:])
        number = sum(one["deliveryID"] == str(delivery) for one in attempts)
        pending = rows.filter(WEBHOOK_OUTBOX, webhook_id=delivery)
        pending.update(**_outcome(attempt, number))


def _chosen(
    candidates: Collection[tuple[int, int]],
    limit: int,
    busy: Mapping[int, int],
    per_function: int,
) -> list[int]:
    sending = Counter(busy)
    chosen: list[int] = []
    for key, function in candidates:
        if len(chosen) < limit and sending[function] < per_function:
            sending[function] += 1
            chosen.append(key)
    return chosen


def _outcome(attempt: Attempt, number: int) -> dict[str, Any]:
    """Return the changes after an attempt. `number` is its number within the delivery."""
    if attempt.failure is None:
        return {"webhook_state": WebhookState.DELIVERED, "webhook_after": None}
    seconds = retry_seconds(number)
    if seconds is None:
        return {"webhook_state": WebhookState.FAILED, "webhook_after": None}
    return {"webhook_after": Now() + timedelta(seconds=seconds)}
