"""The outbox: rows of accepted invocations that are not in the queue yet.

A relay claims rows for a limited time, publishes them and records the outcome. Every write checks
the state of its rows, so that it can be repeated and several relays can run.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from serverless.models import OPEN, OPEN_STATES, OUTBOX, Invocation
from serverless.queue.messages import InvocationMessage
from serverless.services.names import OUTBOX_CHANNEL
from serverless.services.receipts import receipt_of

CLAIM_SECONDS: Final = 10
"""Time in seconds after which another relay can claim a row without an outcome."""

REJECTED_SECONDS: Final = 2
"""Delay in seconds before an invocation that the queue rejected is published again."""


def outbox_notify() -> None:
    """Notify the relays and the activator when the current transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [OUTBOX_CHANNEL])


def outbox_claim(limit: int) -> list[Invocation]:
    """Claim up to `limit` invocations of the outbox for `CLAIM_SECONDS`; return their rows.

    Invocations that the queue has rejected are claimed last, so that they do not delay the
    invocations of other functions. Otherwise the oldest invocations are claimed first.
    """
    unclaimed = Q(relay_after__isnull=True) | Q(relay_after__lte=Now())
    rejected_last = F("relay_after").asc(nulls_first=True)
    with transaction.atomic():
        rows = Invocation.objects.filter(OUTBOX, unclaimed).order_by(rejected_last, "id")
        rows = rows.select_for_update(skip_locked=True, of=("self",)).select_related("tenant")
        claimed = list(rows[:limit])
        _delay(claimed, CLAIM_SECONDS)
    return claimed


def outbox_message(row: Invocation) -> InvocationMessage:
    """Return the message of a claimed row."""
    return InvocationMessage(
        key=row.pk,
        publication=row.publications,
        invocation_id=row.invocation_id,
        receipt=receipt_of(row.pk, row.publications, row.invocation_id),
        content_type=row.content_type,
        timeout_seconds=row.timeout_seconds,
        expires_at=row.expires_at,
        payload=bytes(row.payload),
        headers=row.headers,
    )


def outbox_published(published: Sequence[tuple[Invocation, int]]) -> list[int]:
    """Record the stream sequence of each published row; return the sequences to delete.

    A message has to be deleted if its invocation has been cancelled or has ended, or if the stream
    contains another message of the same publication.
    """
    table = connection.ops.quote_name(Invocation._meta.db_table)  # noqa: SLF001 - Django's public name
    sql = (
        f"UPDATE {table} AS row SET published_at = now(), stream_sequence = new.sequence,"  # noqa: S608 - a constant name
        " relay_after = NULL FROM unnest(%s::bigint[], %s::int[], %s::bigint[])"
        " AS new(id, publications, sequence) WHERE row.id = new.id"
        " AND row.publications = new.publications AND row.published_at IS NULL"
        " AND row.state = ANY(%s) RETURNING row.id"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            sql,
            [
                [row.pk for row, _ in published],
                [row.publications for row, _ in published],
                [sequence for _, sequence in published],
                list(OPEN_STATES),
            ],
        )
        recorded = {key for (key,) in cursor.fetchall()}
    return [
        sequence
        for row, sequence in published
        if row.pk not in recorded and not _is_recorded(row, sequence)
    ]


def outbox_rejected(rows: Sequence[Invocation]) -> None:
    """Release claimed rows that the queue rejected, and publish them again after a delay."""
    _delay(rows, REJECTED_SECONDS)


def outbox_release(rows: Sequence[Invocation]) -> None:
    """Release claimed rows that were not published because the queue is unavailable."""
    Invocation.objects.filter(OUTBOX, pk__in=[row.pk for row in rows]).update(relay_after=None)


def _delay(rows: Sequence[Invocation], seconds: float) -> None:
    Invocation.objects.filter(OUTBOX, pk__in=[row.pk for row in rows]).update(
        relay_after=Now() + timedelta(seconds=seconds)
    )


def _is_recorded(row: Invocation, sequence: int) -> bool:
    """Return whether another relay or the report of a worker recorded this message."""
    same = Invocation.objects.filter(pk=row.pk, publications=row.publications)
    return same.filter(OPEN, stream_sequence=sequence).exists()
