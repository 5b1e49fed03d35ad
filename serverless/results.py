"""Stores what workers say, and decides about messages that nobody will get any more.

A message is acknowledged after the transaction that stored it: killed in between it comes again
and changes nothing. Any number of stores may run.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db import DataError, OperationalError
from django.utils.crypto import constant_time_compare

from serverless.models import Invocation
from serverless.phases import FailureClass
from serverless.queue.gateway import Queue, Received, StoredMessage
from serverless.queue.messages import (
    Advisory,
    InvocationMessage,
    MalformedMessage,
    Report,
    decode_advisory,
    decode_invocation,
    decode_report,
)
from serverless.queue.names import (
    ADVISORIES,
    ADVISORY_CONSUMER,
    RESULT_CONSUMER,
    RESULTS,
    result_subject,
)
from serverless.services import (
    Stored,
    invocation_dead_letter,
    invocation_fail,
    receipt_of,
    reports_store,
)

logger = logging.getLogger(__name__)

BATCH: Final = 100
WAIT_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 1.0
BUSY_SECONDS: Final = 0.2
"""After so long what was said of a locked row comes again."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """A report that its invocation's worker sent."""

    received: Received
    report: Report


class ResultStore:
    """Stores the reports of workers. `step` is repeated."""

    def __init__(self, queue: Queue, *, wait_seconds: float = WAIT_SECONDS) -> None:
        """Nothing is done before the first step."""
        self._queue = queue
        self._wait_seconds = wait_seconds

    def step(self) -> int:
        """Store what there is, or what comes in a moment; return how many messages came.

        Raises:
            QueueError: the queue is away.
            OperationalError: the database is; the messages come again.
        """
        received = self._queue.fetch(RESULTS, RESULT_CONSUMER, BATCH, self._wait_seconds)
        if received:
            try:
                self._store(received)
            except OperationalError:
                self._queue.postpone(received, AGAIN_SECONDS)
                raise
        return len(received)

    def _store(self, received: list[Received]) -> None:
        checked, bad = _check(received)
        try:
            stored = reports_store([one.report for one in checked])
        except DataError:
            stored = self._store_one_by_one(checked)
        if stored.late:
            logger.info("%d reports came after their invocation's end, or again", stored.late)
        done: list[Received] = []
        busy: list[Received] = []
        for one in checked:
            (busy if one.report.key in stored.busy else done).append(one.received)
        self._queue.acknowledge(done)
        self._queue.postpone(busy, BUSY_SECONDS)
        for message, why in bad:
            logger.warning("a message of %s is refused: %s", message.subject, why)
            self._queue.terminate([message], why)

    def _store_one_by_one(self, checked: list[_Checked]) -> Stored:
        """Store the good ones beside one that the database does not take."""
        all_stored = []
        for one in checked:
            try:
                all_stored.append(reports_store([one.report]))
            except DataError as error:
                logger.warning("the result of invocation %d is lost: %s", one.report.key, error)
                why = "Its result cannot be stored."
                _lose(one.report.key, one.report.publication, why)
        late = sum(one.late for one in all_stored)
        return Stored(late, frozenset().union(*(one.busy for one in all_stored)))


class DeadLetters:
    """Decides about messages whose deliveries ran out or that a worker refused.

    The server says so once, in an advisory. A result that a worker sent before counts: nothing is
    decided until everything is stored that was there when the advisory was first seen.
    """

    def __init__(self, queue: Queue, *, wait_seconds: float = WAIT_SECONDS) -> None:
        """Nothing is done before the first step."""
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._marks: dict[int, int] = {}

    def step(self) -> int:
        """Decide about what there is, or what comes in a moment; return how many came.

        Raises:
            QueueError: the queue is away; what is not decided comes again.
        """
        received = self._queue.fetch(ADVISORIES, ADVISORY_CONSUMER, BATCH, self._wait_seconds)
        for one in received:
            if self._is_settled(one.sequence):
                self._decide(one)
                self._queue.acknowledge([one])
                self._marks.pop(one.sequence, None)
            else:
                self._queue.postpone([one], AGAIN_SECONDS)
        return len(received)

    def _is_settled(self, advisory: int) -> bool:
        if advisory not in self._marks:
            self._marks[advisory] = self._queue.last_sequence(RESULTS)
        return is_settled(self._queue, self._marks[advisory])

    def _decide(self, received: Received) -> None:
        try:
            advisory = decode_advisory(received.body)
        except MalformedMessage as error:
            logger.warning("an advisory is none: %s", error)
            return
        message = self._queue.message(advisory.stream_sequence)
        if message is None:
            self._decide_without_message(advisory)
        elif not advisory.was_terminated:
            dead_letter(self._queue, message, _exhausted(advisory.deliveries))

    @staticmethod
    def _decide_without_message(advisory: Advisory) -> None:
        """A refused message is out of the stream already; its number leads to the row."""
        if not advisory.was_terminated:
            return
        rows = Invocation.objects.filter(
            function_id=advisory.function, stream_sequence=advisory.stream_sequence
        )
        for key, publication in rows.values_list("pk", "publications"):
            why = f"A worker cannot read its message: {advisory.reason or 'no reason given'}."
            invocation_dead_letter(key, publication, FailureClass.MALFORMED_MESSAGE, why)


def dead_letter(queue: Queue, message: StoredMessage, why: str) -> None:
    """Record that an invocation ran out of deliveries, then delete its message.

    What is no invocation is deleted too: nobody gets it.

    Raises:
        QueueError: the message could not be deleted.
    """
    invocation = read_message(message)
    if invocation is not None:
        key, publication = invocation.key, invocation.publication
        invocation_dead_letter(key, publication, FailureClass.RETRY_EXHAUSTED, why)
    queue.delete(message.sequence)


def read_message(message: StoredMessage) -> InvocationMessage | None:
    """Return the invocation that the platform put into this message; None for anything else."""
    try:
        found = decode_invocation(message.headers, message.body)
    except MalformedMessage as error:
        logger.warning("message %d of the queue is no invocation: %s", message.sequence, error)
        return None
    wanted = receipt_of(found.key, found.publication, found.invocation_id)
    return found if constant_time_compare(found.receipt, wanted) else None


def is_settled(queue: Queue, mark: int) -> bool:
    """Say whether every report up to that number of the stream of results is stored.

    Raises:
        QueueError: nobody knows.
    """
    settled = queue.settled_sequence(RESULTS, RESULT_CONSUMER)
    # A stream that was made anew counts from the beginning.
    return settled >= mark or queue.last_sequence(RESULTS) < mark


def _exhausted(deliveries: int) -> str:
    times = "once" if deliveries == 1 else f"{deliveries} times"
    return f"It was given to a worker {times} and never ended. See what its workers log."


def _check(received: Iterable[Received]) -> tuple[list[_Checked], list[tuple[Received, str]]]:
    """Tell what an invocation's own worker said from everything else, with why."""
    decoded: list[_Checked] = []
    bad: list[tuple[Received, str]] = []
    for message in received:
        try:
            decoded.append(_Checked(message, decode_report(message.body)))
        except MalformedMessage as error:
            bad.append((message, str(error)))
    rows = Invocation.objects.filter(pk__in={one.report.key for one in decoded})
    known = {
        key: (invocation_id, result_subject(tenant, function))
        for key, invocation_id, tenant, function in rows.values_list(
            "pk", "invocation_id", "tenant__name", "function_id"
        )
    }
    checked = []
    for one in decoded:
        why = _fault(one, known.get(one.report.key))
        if why:
            bad.append((one.received, why))
        else:
            checked.append(one)
    return checked, bad


def _fault(one: _Checked, row: tuple[str, str] | None) -> str:
    """Return why a report does not come from a worker that was given the invocation."""
    if row is None:
        return "it is about no invocation"
    invocation_id, subject = row
    if one.received.subject != subject:
        return "it is about an invocation of another function"
    wanted = receipt_of(one.report.key, one.report.publication, invocation_id)
    if not constant_time_compare(one.report.receipt, wanted):
        return "its receipt is not the invocation's"
    return ""


def _lose(key: int, publication: int, why: str) -> None:
    invocation_fail(key, publication, FailureClass.RESULT_STORE_ERROR, why)
