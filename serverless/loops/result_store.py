"""Stores the reports of workers from the queue in rows.

A message is acknowledged after the transaction that stored it: if the process is killed between
the two, the message is delivered again and changes nothing. Several result stores can run.
"""

import logging
from collections.abc import Iterable
from typing import Final

from django.db import DataError, OperationalError

from serverless.models import Invocation
from serverless.phases import FailureClass
from serverless.queue.gateway import Queue
from serverless.queue.messages import MalformedMessage, Report, decode_report
from serverless.queue.names import RESULT_CONSUMER, RESULTS, result_subject
from serverless.queue.values import Delivery
from serverless.services.endings import invocation_fail
from serverless.services.receipts import has_valid_receipt
from serverless.services.reports import StoreResult, reports_store

logger = logging.getLogger(__name__)

BATCH: Final = 100
WAIT_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 1.0
LOCKED_SECONDS: Final = 0.2
"""Delay before a report about a locked row is delivered again."""


class ResultStore:
    """One result store; `step` is called repeatedly."""

    def __init__(self, queue: Queue, *, wait_seconds: float = WAIT_SECONDS) -> None:
        """Nothing is done before the first step."""
        self._queue = queue
        self._wait_seconds = wait_seconds

    def step(self) -> int:
        """Store the available reports, or wait for the first; return the number of messages.

        Raises:
            QueueError: the queue is unavailable.
            OperationalError: the database is; the messages are delivered again.
        """
        deliveries = self._queue.fetch(RESULTS, RESULT_CONSUMER, BATCH, self._wait_seconds)
        if deliveries:
            try:
                self._store(deliveries)
            except OperationalError:
                self._queue.postpone(deliveries, RETRY_SECONDS)
                raise
        return len(deliveries)

    def _store(self, deliveries: Iterable[Delivery]) -> None:
        verified, refused = _verify(deliveries)
        reports = [report for _, report in verified]
        try:
            result = reports_store(reports)
        except DataError:
            result = _store_one_by_one(reports)
        if result.late:
            logger.info("%d reports were repeated, or after the invocation's end", result.late)
        locked = [delivery for delivery, report in verified if report.key in result.locked]
        done = [delivery for delivery, report in verified if report.key not in result.locked]
        self._queue.acknowledge(done)
        self._queue.postpone(locked, LOCKED_SECONDS)
        for message, why in refused:
            logger.warning("a message of %s is refused: %s", message.subject, why)
            self._queue.terminate([message], why)


def _store_one_by_one(reports: Iterable[Report]) -> StoreResult:
    """Store the reports that the database accepts, and fail the invocations of the others."""
    results = []
    for one in reports:
        try:
            results.append(reports_store([one]))
        except DataError as error:
            logger.warning("the result of invocation %d is lost: %s", one.key, error)
            failure, message = FailureClass.RESULT_STORE_ERROR, "The result cannot be stored."
            invocation_fail(one.key, one.publication, failure, message)
    late = sum(one.late for one in results)
    return StoreResult(late, frozenset().union(*(one.locked for one in results)))


def _verify(
    deliveries: Iterable[Delivery],
) -> tuple[list[tuple[Delivery, Report]], list[tuple[Delivery, str]]]:
    """Return the reports that the invocation's own worker sent, and other messages with why."""
    decoded: list[tuple[Delivery, Report]] = []
    refused: list[tuple[Delivery, str]] = []
    for delivery in deliveries:
        try:
            decoded.append((delivery, decode_report(delivery.body)))
        except MalformedMessage as error:
            refused.append((delivery, str(error)))
    rows = Invocation.objects.select_related("tenant").only(
        "invocation_id", "function_id", "tenant__name"
    )
    invocations = rows.in_bulk([report.key for _, report in decoded])
    verified = []
    for delivery, report in decoded:
        fault = _fault(delivery, report, invocations.get(report.key))
        if fault:
            refused.append((delivery, fault))
        else:
            verified.append((delivery, report))
    return verified, refused


def _fault(delivery: Delivery, report: Report, row: Invocation | None) -> str:
    """Return why a report is not from a worker that was given the invocation; empty if it is."""
    if row is None:
        return "its invocation does not exist"
    if delivery.subject != result_subject(row.tenant.name, row.function_id):
        return "its invocation is of another function"
    return "" if has_valid_receipt(report, row.invocation_id) else "its receipt is not valid"
