"""Compares rows and queue, and repairs the effects of lost messages and lost advisories.

The sweep finds messages that used all deliveries without an advisory, invocations that the queue
lost, messages without an open invocation, functions without a consumer, and messages and consumers
of deleted functions. It makes no changes while the queue is unavailable. Several sweeps can run.
"""

import logging
from datetime import timedelta
from typing import Final

from django.db.models.functions import Now

from gpuplatform import clock
from serverless.loops.dead_letters import dead_letter, reports_are_stored, times
from serverless.models import OPEN, Function, Invocation
from serverless.operations import ensure_consumer
from serverless.queue.gateway import Queue
from serverless.queue.names import ACK_WAIT_SECONDS, RESULTS
from serverless.queue.values import Backlog, StoredMessage
from serverless.selectors import functions_live
from serverless.services.endings import invocation_republish, invocations_abandon
from serverless.services.receipts import read_invocation

logger = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 15.0
SETTLING: Final = timedelta(seconds=10)
"""Time after the publication of an invocation during which it is not checked."""

OLD: Final = timedelta(hours=1)
"""Age from which an invocation is looked up in the queue even if the counts match."""

MAX_CHECKED: Final = 500
"""Maximum number of messages of one function that one sweep reads."""

_SILENT: Final = timedelta(seconds=2 * ACK_WAIT_SECONDS)

_Suspects = dict[tuple[int, int], int]
"""Sequence of the newest report at the first finding, by id and publication of the invocation."""


class Sweep:
    """One sweep, whose `step` is called repeatedly.

    It acts on most findings only if the next step confirms them.
    """

    def __init__(self, queue: Queue) -> None:
        """Prepare the loop; `step` does the work."""
        self._queue = queue
        self._suspects: _Suspects = {}

    def step(self) -> None:
        """Compare the rows and messages of all functions once.

        Raises:
            QueueError: If the queue is unavailable. The next step continues.
        """
        self._queue.ensure()
        suspects: _Suspects = {}
        for function in functions_live():
            backlog = self._backlog(function)
            if backlog.exhausted:
                suspects |= self._check_exhausted(function, backlog)
            suspects |= self._check_lost(function, backlog)
        self._suspects = suspects
        self._remove_deleted()
        abandoned = Invocation.objects.filter(OPEN, function__deleted_at__isnull=False)
        for function in Function.objects.filter(pk__in=abandoned.values("function")):
            invocations_abandon(function)

    def _remove_deleted(self) -> None:
        """Remove messages and consumers of functions that are marked as deleted.

        A failed creation can leave a consumer, and a killed relay can leave a message. Objects of
        functions without a row are kept: they can belong to another database, or be newer than the
        backup from which this database was restored.
        """
        found = self._queue.functions(known=functions_live().count())
        rows = Function.objects.filter(
            pk__in=[function for _, function in found], deleted_at__isnull=False
        )
        for tenant, function in found & set(rows.values_list("tenant__name", "pk")):
            logger.warning("removing the queue's objects of the deleted function %d", function)
            self._queue.remove_function(tenant, function)

    def _backlog(self, function: Function) -> Backlog:
        """Return the backlog of a function, and create its consumer if that is missing."""
        found = self._queue.backlog(function.tenant.name, function.pk)
        if found is None:
            ensure_consumer(self._queue, function)
            found = self._queue.backlog(function.tenant.name, function.pk)
        return found or Backlog()

    def _check_exhausted(self, function: Function, backlog: Backlog) -> _Suspects:
        """Dead-letter messages that used all deliveries; return the unconfirmed findings."""
        suspects: _Suspects = {}
        messages = self._queue.messages(
            function.tenant.name, function.pk, backlog.delivered_sequence, MAX_CHECKED
        )
        invocations = [(message, read_invocation(message)) for message in messages]
        rows = Invocation.objects.in_bulk([found.key for _, found in invocations if found])
        for message, found in invocations:
            row = rows.get(found.key) if found else None
            if found is None or row is None or not _is_current(row, found.publication):
                self._queue.delete(message.sequence)
            elif _is_exhausted(row, function.limits.max_deliver, backlog):
                if self._is_confirmed(row):
                    self._dead_letter(row, message)
                else:
                    suspects |= self._suspect(row)
        return suspects

    def _check_lost(self, function: Function, backlog: Backlog) -> _Suspects:
        """Republish invocations that the queue lost; return the unconfirmed findings."""
        published = Invocation.objects.filter(
            OPEN, function=function, published_at__lt=Now() - SETTLING
        )
        if published.count() <= backlog.total:
            published = published.filter(published_at__lt=Now() - OLD)
        suspects: _Suspects = {}
        for row in published.order_by("id")[:MAX_CHECKED]:
            if row.stream_sequence and self._is_queued(row):
                continue
            if self._is_confirmed(row):
                logger.warning("the queue lost invocation %s; it is published again", row)
                invocation_republish(row.pk, row.publications)
            else:
                suspects |= self._suspect(row)
        return suspects

    def _is_queued(self, row: Invocation) -> bool:
        message = self._queue.message(row.stream_sequence or 0)
        found = read_invocation(message) if message else None
        expected = (row.pk, row.publications, row.invocation_id)
        return found is not None and (
            (found.key, found.publication, found.invocation_id) == expected
        )

    def _suspect(self, row: Invocation) -> _Suspects:
        key = (row.pk, row.publications)
        return {key: self._suspects.get(key) or self._queue.last_sequence(RESULTS)}

    def _is_confirmed(self, row: Invocation) -> bool:
        """Return whether an earlier step found it and all reports from before are stored."""
        key = (row.pk, row.publications)
        return key in self._suspects and reports_are_stored(self._queue, self._suspects[key])

    def _dead_letter(self, row: Invocation, message: StoredMessage) -> None:
        text = f"Workers started it {times(row.attempts)} and never completed it."
        dead_letter(self._queue, message, f"{text} Check the logs of the workers.")


def _is_current(row: Invocation, publication: int) -> bool:
    return row.completed_at is None and row.publications == publication


def _is_exhausted(row: Invocation, max_deliver: int, backlog: Backlog) -> bool:
    """Return whether no worker can be processing a message that has been delivered before.

    This is the case if no delivery is in progress, or if all attempts are used and the last one
    started too long ago to be still running.
    """
    if backlog.in_progress == 0:
        return True
    if row.attempts < max_deliver or row.attempted_at is None:
        return False
    silent_since = row.attempted_at + timedelta(seconds=row.timeout_seconds) + _SILENT
    return clock.now() > silent_since
