"""Dead-letters invocations whose messages are not delivered any more."""

import logging
from typing import Final

from serverless.models import Invocation
from serverless.phases import FailureClass
from serverless.queue.gateway import Queue
from serverless.queue.messages import Advisory, MalformedMessage, decode_advisory
from serverless.queue.names import ADVISORIES, ADVISORY_CONSUMER, RESULT_CONSUMER, RESULTS
from serverless.queue.values import Delivery, StoredMessage
from serverless.services.endings import invocation_dead_letter
from serverless.services.receipts import read_invocation

logger = logging.getLogger(__name__)

BATCH: Final = 100
WAIT_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 1.0
"""Delay before an advisory is delivered again, while earlier reports are not stored yet."""


class DeadLetters:
    """Handles the server's advisories: messages that used all deliveries, or were refused.

    The server sends one advisory for each. A result that a worker sent before counts: an advisory
    is handled when every report is stored that was in the queue when the advisory was first read.
    """

    def __init__(self, queue: Queue, *, wait_seconds: float = WAIT_SECONDS) -> None:
        """Nothing is done before the first step."""
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._newest_reports: dict[int, int] = {}
        """By the advisory's sequence: that of the newest report when it was first read."""

    def step(self) -> int:
        """Handle the available advisories, or wait for the first; return how many there were.

        Raises:
            QueueError: the queue is unavailable; what was not handled is delivered again.
        """
        deliveries = self._queue.fetch(ADVISORIES, ADVISORY_CONSUMER, BATCH, self._wait_seconds)
        for one in deliveries:
            if self._is_settled(one.sequence):
                self._handle(one)
                self._queue.acknowledge([one])
                self._newest_reports.pop(one.sequence, None)
            else:
                self._queue.postpone([one], RETRY_SECONDS)
        return len(deliveries)

    def _is_settled(self, advisory: int) -> bool:
        if advisory not in self._newest_reports:
            self._newest_reports[advisory] = self._queue.last_sequence(RESULTS)
        return reports_are_stored(self._queue, self._newest_reports[advisory])

    def _handle(self, delivery: Delivery) -> None:
        try:
            advisory = decode_advisory(delivery.body)
        except MalformedMessage as error:
            logger.warning("an advisory is malformed: %s", error)
            return
        message = self._queue.message(advisory.stream_sequence)
        if message is None:
            _handle_without_message(advisory)
        elif not advisory.was_terminated:
            times = _times(advisory.deliveries)
            text = f"It was delivered {times} and never completed. See the workers' logs."
            dead_letter(self._queue, message, text)


def dead_letter(queue: Queue, message: StoredMessage, error: str) -> None:
    """Dead-letter the invocation of a message, then delete the message.

    A message that the platform did not write is only deleted.

    Raises:
        QueueError: the message could not be deleted.
    """
    invocation = read_invocation(message)
    if invocation is not None:
        key, publication = invocation.key, invocation.publication
        invocation_dead_letter(key, publication, FailureClass.RETRY_EXHAUSTED, error)
    queue.delete(message.sequence)


def reports_are_stored(queue: Queue, sequence: int) -> bool:
    """Return whether every report up to this sequence of the stream of results is stored.

    Raises:
        QueueError: the queue is unavailable.
    """
    settled = queue.settled_sequence(RESULTS, RESULT_CONSUMER)
    # A recreated stream counts from the beginning.
    return settled >= sequence or queue.last_sequence(RESULTS) < sequence


def _handle_without_message(advisory: Advisory) -> None:
    """Dead-letter an invocation that a worker refused: its message is deleted already."""
    if not advisory.was_terminated:
        return
    rows = Invocation.objects.filter(
        function_id=advisory.function, stream_sequence=advisory.stream_sequence
    )
    for key, publication in rows.values_list("pk", "publications"):
        error = f"A worker cannot decode its message: {advisory.reason or 'no reason given'}."
        invocation_dead_letter(key, publication, FailureClass.MALFORMED_MESSAGE, error)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
