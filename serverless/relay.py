"""Puts accepted invocations into the queue: what makes accepted mean queued, sooner or later.

The row is its own outbox. A relay takes rows for a while, publishes them under an id that is the
same for each try, and records their numbers. Killed anywhere, another one does it again, and the
stream takes it once. Any number of relays may run.
"""

import logging
from typing import Final

from django.db import connection
from psycopg import Connection

from serverless.models import Invocation
from serverless.queue.errors import QueueUnavailable
from serverless.queue.gateway import Outgoing, Published, Queue, Refused, Unanswered
from serverless.services import (
    OUTBOX_CHANNEL,
    outbox_claim,
    outbox_message,
    outbox_published,
    outbox_refused,
    outbox_release,
)

logger = logging.getLogger(__name__)

BATCH: Final = 100
"""With the largest payloads 50 MiB, which a process can hold."""

BACKSTOP_SECONDS: Final = 1.0
"""So often the outbox is looked at without news of it."""


class Relay:
    """One relay. `step` is repeated; it publishes what there is, or waits for news."""

    def __init__(self, queue: Queue) -> None:
        """Nothing is done before the first step."""
        self._queue = queue
        self._is_ensured = False
        self._listening: Connection | None = None

    def step(self) -> None:
        """Publish what waits; when that was all, wait a moment for more.

        Raises:
            QueueError: the queue is away; nothing was taken, or it was given back.
        """
        if not self._is_ensured:
            self._queue.ensure()
            self._is_ensured = True
        # News that came meanwhile is kept by the connection, and ends the wait at once.
        if self.publish() < BATCH:
            self._wait_for_news()

    def publish(self) -> int:
        """Publish one batch; return how many invocations were taken for it.

        Raises:
            QueueUnavailable: it is not known of all whether they are in the queue.
        """
        rows = outbox_claim(BATCH)
        if not rows:
            return 0
        outcomes = self._queue.publish([_outgoing(row) for row in rows])
        published: list[tuple[Invocation, int]] = []
        refused: list[Invocation] = []
        unanswered: list[Invocation] = []
        why = ""
        for row, outcome in zip(rows, outcomes, strict=True):
            match outcome:
                case Published():
                    published.append((row, outcome.sequence))
                case Refused():
                    refused.append(row)
                    why = outcome.why
                case Unanswered():
                    unanswered.append(row)
                    why = outcome.why
        self._record(published)
        if refused:
            outbox_refused(refused)
            logger.warning("the queue refuses %d invocations for now: %s", len(refused), why)
        if unanswered:
            self._is_ensured = False
            outbox_release(unanswered)
            raise QueueUnavailable(f"It is not known what the queue has taken: {why}")
        return len(rows)

    def _record(self, published: list[tuple[Invocation, int]]) -> None:
        if published:
            for sequence in outbox_published(published):
                self._queue.delete(sequence)

    def _wait_for_news(self) -> None:
        """Wait for a notification; with a connection that did not listen yet, look once more."""
        connection.ensure_connection()
        raw: Connection = connection.connection
        if raw is not self._listening:
            raw.execute(f"LISTEN {OUTBOX_CHANNEL}")
            self._listening = raw
            return
        for _ in raw.notifies(timeout=BACKSTOP_SECONDS, stop_after=1):
            return


def _outgoing(row: Invocation) -> Outgoing:
    return Outgoing(row.tenant.name, row.function_id, outbox_message(row))
