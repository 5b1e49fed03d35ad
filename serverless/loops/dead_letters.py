"""Dead-letters invocations whose messages the server no longer delivers."""

import logging
from typing import Final

from nats.aio.msg import Msg

from serverless.models import Invocation
from serverless.phases import FailureClass
from serverless.queue.gateway import Queue
from serverless.queue.messages import Advisory, MalformedMessage, decode_advisory
from serverless.queue.names import ADVISORIES, ADVISORY_CONSUMER, RESULT_CONSUMER, RESULTS
from serverless.queue.values import StoredMessage
from serverless.services.endings import invocation_dead_letter
from serverless.services.receipts import read_invocation

logger = logging.getLogger(__name__)

BATCH: Final = 100
WAIT_SECONDS: Final = 1.0
"""Time in seconds that a step waits for an advisory."""

RETRY_SECONDS: Final = 1.0
"""Delay in seconds before an advisory is delivered again, while earlier reports are not stored."""


class DeadLetters:
    """The loop that handles advisories about messages that used all deliveries or were rejected.

    The server sends one advisory for each message. A result that was sent before the advisory
    takes precedence: an advisory is handled when every report is stored that was in the queue when
    the advisory was first read.
    """

    def __init__(self, queue: Queue) -> None:
        """Prepare the loop; `step` does the work."""
        self._queue = queue
        self._newest_reports: dict[int, int] = {}
        """Sequence of the newest report when an advisory was first read, by advisory."""

    def step(self) -> int:
        """Handle the available advisories, or wait for the first one; return their number.

        Raises:
            QueueError: If the queue is unavailable. Unhandled advisories are delivered again.
        """
        messages = self._queue.fetch(ADVISORIES, ADVISORY_CONSUMER, BATCH, WAIT_SECONDS)
        for message in messages:
            sequence = message.metadata.sequence.stream
            if self._is_settled(sequence):
                self._handle(message)
                self._queue.acknowledge([message])
                self._newest_reports.pop(sequence, None)
            else:
                self._queue.postpone([message], RETRY_SECONDS)
        return len(messages)

    def _is_settled(self, advisory: int) -> bool:
        if advisory not in self._newest_reports:
            self._newest_reports[advisory] = self._queue.last_sequence(RESULTS)
        return reports_are_stored(self._queue, self._newest_reports[advisory])

    def _handle(self, delivered: Msg) -> None:
        try:
            advisory = decode_advisory(delivered.data)
        except MalformedMessage as error:
            logger.warning("an advisory is malformed: %s", error)
            return
        message = self._queue.message(advisory.stream_sequence)
        if message is None:
            _handle_without_message(advisory)
        elif not advisory.was_terminated:
            text = f"It was delivered {times(advisory.deliveries)} and was never completed."
            dead_letter(self._queue, message, f"{text} Check the logs of the workers.")


def dead_letter(queue: Queue, message: StoredMessage, error: str) -> None:
    """Dead-letter the invocation of a message, then delete the message.

    If the platform did not write the message, it is only deleted.

    Raises:
        QueueError: If the message cannot be deleted.
    """
    invocation = read_invocation(message)
    if invocation is not None:
        key, publication = invocation.key, invocation.publication
        invocation_dead_letter(key, publication, FailureClass.RETRY_EXHAUSTED, error)
    queue.delete(message.sequence)


def reports_are_stored(queue: Queue, sequence: int) -> bool:
    """Return whether every report up to this sequence of the stream of results is stored.

    Raises:
        QueueError: If the queue is unavailable.
    """
    settled = queue.settled_sequence(RESULTS, RESULT_CONSUMER)
    # The sequence of a recreated stream starts at 1.
    return settled >= sequence or queue.last_sequence(RESULTS) < sequence


def _handle_without_message(advisory: Advisory) -> None:
    """Dead-letter an invocation that a worker rejected. Its message is already deleted."""
    if not advisory.was_terminated:
        return
    rows = Invocation.objects.filter(
        function_id=advisory.function, stream_sequence=advisory.stream_sequence
    )
    for key, publication in rows.values_list("pk", "publications"):
        error = f"A worker cannot decode the message: {advisory.reason or 'no reason given'}."
        invocation_dead_letter(key, publication, FailureClass.MALFORMED_MESSAGE, error)


def times(number: int) -> str:
    """Return a number of repetitions as text: `once` or `3 times`."""
    return "once" if number == 1 else f"{number} times"
