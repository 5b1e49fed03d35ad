"""Publishes the outbox to the queue, so that every accepted invocation is eventually queued.

A relay claims rows for a limited time, publishes them with an id that is the same for every
attempt, and records their sequences. If a relay is killed, another one publishes the rows again,
and the stream stores each invocation once. Several relays can run.
"""

import logging
from collections import defaultdict
from typing import Final

from serverless.loops.listener import OutboxListener
from serverless.models import Invocation
from serverless.queue.errors import QueueUnavailable
from serverless.queue.gateway import Queue
from serverless.queue.values import OutgoingInvocation, PublishResult, PublishStatus
from serverless.services.outbox import (
    outbox_claim,
    outbox_message,
    outbox_published,
    outbox_rejected,
    outbox_release,
)

logger = logging.getLogger(__name__)

BATCH: Final = 100
"""Maximum number of invocations in one batch: at most 50 MiB of payloads in memory."""

BACKSTOP_SECONDS: Final = 1.0
"""Interval in seconds at which the outbox is read without a notification."""


class Relay:
    """One relay, whose `step` is called repeatedly."""

    def __init__(self, queue: Queue) -> None:
        """Prepare the loop; `step` does the work."""
        self._queue = queue
        self._is_ensured = False
        self._listener = OutboxListener()

    def step(self) -> None:
        """Publish one batch, then wait for a notification if the outbox is empty.

        Raises:
            QueueError: If the queue is unavailable. The claimed rows are released.
        """
        if not self._is_ensured:
            self._queue.ensure()
            self._is_ensured = True
        if self.publish() < BATCH:
            self._listener.wait(BACKSTOP_SECONDS)

    def publish(self) -> int:
        """Publish one batch and return the number of claimed rows.

        Raises:
            QueueUnavailable: If the outcome of some invocations is unknown.
        """
        rows = outbox_claim(BATCH)
        if not rows:
            return 0
        outgoing = [
            OutgoingInvocation(row.tenant.name, row.function_id, outbox_message(row))
            for row in rows
        ]
        results = self._queue.publish(outgoing)
        outcomes: dict[PublishStatus, list[tuple[Invocation, PublishResult]]] = defaultdict(list)
        for row, result in zip(rows, results, strict=True):
            outcomes[result.status].append((row, result))
        if stored := outcomes[PublishStatus.STORED]:
            published = [(row, result.sequence) for row, result in stored]
            for sequence in outbox_published(published):
                self._queue.delete(sequence)
        if rejected := outcomes[PublishStatus.REJECTED]:
            outbox_rejected([row for row, _ in rejected])
            error = rejected[-1][1].error
            logger.warning("the queue rejects %d invocations for now: %s", len(rejected), error)
        if unknown := outcomes[PublishStatus.UNKNOWN]:
            self._is_ensured = False
            outbox_release([row for row, _ in unknown])
            raise QueueUnavailable(f"Publishing failed: {unknown[-1][1].error}")
        return len(rows)
