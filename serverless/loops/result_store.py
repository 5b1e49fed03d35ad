"""Stores the reports of workers, which arrive in the queue, in rows.

A message is acknowledged after the transaction that stores its report. If the process is killed
between the two, the message is delivered again and has no effect. Several result stores can run.
"""

import logging
from collections.abc import Iterable
from typing import Final

from django.db import DataError, OperationalError
from nats.aio.msg import Msg

from serverless.models import Invocation
from serverless.phases import FailureClass
from serverless.queue.gateway import Queue
from serverless.queue.messages import MalformedMessage, Report, decode_report
from serverless.queue.names import RESULT_CONSUMER, RESULTS, result_subject
from serverless.services.endings import invocation_fail
from serverless.services.receipts import has_valid_receipt
from serverless.services.reports import StoreResult, reports_store

logger = logging.getLogger(__name__)

BATCH: Final = 100
WAIT_SECONDS: Final = 1.0
"""Time in seconds that a step waits for a report."""

RETRY_SECONDS: Final = 1.0
"""Delay in seconds before reports are delivered again during an outage of the database."""

LOCKED_SECONDS: Final = 0.2
"""Delay in seconds before a report about a locked row is delivered again."""


class ResultStore:
    """One result store, whose `step` is called repeatedly."""

    def __init__(self, queue: Queue) -> None:
        """Prepare the loop; `step` does the work."""
        self._queue = queue

    def step(self) -> int:
        """Store the available reports, or wait for the first one; return the number of messages.

        Raises:
            QueueError: If the queue is unavailable.
            OperationalError: If the database is unavailable. The messages are delivered again.
        """
        messages = self._queue.fetch(RESULTS, RESULT_CONSUMER, BATCH, WAIT_SECONDS)
        if messages:
            try:
                self._store(messages)
            except OperationalError:
                self._queue.postpone(messages, RETRY_SECONDS)
                raise
        return len(messages)

    def _store(self, messages: Iterable[Msg]) -> None:
        verified, rejected = _verify(messages)
        reports = [report for _, report in verified]
        try:
            result = reports_store(reports)
        except DataError:
            result = _store_one_by_one(reports)
        if result.late:
            logger.info("%d reports were repeated or late, and changed nothing", result.late)
        locked = [message for message, report in verified if report.key in result.locked]
        stored = [message for message, report in verified if report.key not in result.locked]
        self._queue.acknowledge(stored)
        self._queue.postpone(locked, LOCKED_SECONDS)
        for message, reason in rejected:
            logger.warning("a message of %s is rejected: %s", message.subject, reason)
            self._queue.terminate([message], reason)


def _store_one_by_one(reports: Iterable[Report]) -> StoreResult:
    """Store the reports that the database accepts, and fail the invocations of the others."""
    results = []
    for report in reports:
        try:
            results.append(reports_store([report]))
        except DataError as error:
            logger.warning("the result of invocation %d is lost: %s", report.key, error)
            failure, message = FailureClass.RESULT_STORE_ERROR, "The result cannot be stored."
            invocation_fail(report.key, report.publication, failure, message)
    late = sum(result.late for result in results)
    return StoreResult(late, frozenset().union(*(result.locked for result in results)))


def _verify(
    messages: Iterable[Msg],
) -> tuple[list[tuple[Msg, Report]], list[tuple[Msg, str]]]:
    """Return the messages of authorized workers with their reports, and the rejected messages.

    Each rejected message is returned with the reason for the rejection.
    """
    decoded: list[tuple[Msg, Report]] = []
    rejected: list[tuple[Msg, str]] = []
    for message in messages:
        try:
            decoded.append((message, decode_report(message.data)))
        except MalformedMessage as error:
            rejected.append((message, str(error)))
    rows = Invocation.objects.select_related("tenant").only(
        "invocation_id", "function_id", "tenant__name"
    )
    invocations = rows.in_bulk([report.key for _, report in decoded])
    verified = []
    for message, report in decoded:
        reason = _rejection(message, report, invocations.get(report.key))
        if reason:
            rejected.append((message, reason))
        else:
            verified.append((message, report))
    return verified, rejected


def _rejection(message: Msg, report: Report, row: Invocation | None) -> str:
    """Return the reason to reject a report, or an empty string if its worker is authorized."""
    if row is None:
        return "the invocation does not exist"
    if message.subject != result_subject(row.tenant.name, row.function_id):
        return "the invocation belongs to another function"
    return "" if has_valid_receipt(report, row.invocation_id) else "the receipt is not valid"
