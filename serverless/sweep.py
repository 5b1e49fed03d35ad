"""Compares rows and queue: what messages and advisories that were lost would have led to.

It finds messages that ran out of deliveries without an advisory, invocations that vanished from
the queue, messages that nobody wants, functions without a consumer, and what is left of functions
that are gone. Unknown is not empty: nothing is decided while the queue does not answer. Any number
of sweeps may run.
"""

import logging
from datetime import timedelta
from typing import Final

from django.db.models.functions import Now

from gpuplatform import clock
from serverless.core.spec import FunctionSpec
from serverless.models import OPEN, Function, Invocation
from serverless.queue.gateway import Backlog, Queue, StoredMessage
from serverless.queue.messages import InvocationMessage
from serverless.queue.names import ACK_WAIT_SECONDS, RESULTS
from serverless.results import dead_letter, is_settled, read_message
from serverless.selectors import functions_live
from serverless.services import function_spec, invocation_republish, invocations_abandon

logger = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 15.0
SETTLING: Final = timedelta(seconds=10)
"""What was put in the queue so lately is left alone."""

OLD: Final = timedelta(hours=1)
"""Older than this, an invocation is looked for in the queue even if the counts are right."""

MOST_CHECKED: Final = 500
"""Messages of one function that are read in one sweep."""

_SILENT: Final = timedelta(seconds=2 * ACK_WAIT_SECONDS)


class Sweep:
    """One sweeper; it remembers what it suspects until the next sweep confirms it."""

    def __init__(self, queue: Queue) -> None:
        """Nothing is done before the first sweep."""
        self._queue = queue
        self._suspects: dict[tuple[int, int], int] = {}
        """Invocation and publication, with the newest report when it was suspected."""

    def step(self) -> None:
        """Compare everything once.

        Raises:
            QueueError: the queue is away; the rest is for the next sweep.
        """
        self._queue.ensure()
        suspects: dict[tuple[int, int], int] = {}
        for function in functions_live():
            backlog = self._backlog(function)
            if backlog.exhausted:
                suspects |= self._exhausted(function, backlog)
            suspects |= self._vanished(function, backlog)
        self._suspects = suspects
        self._forget_gone()
        gone = Invocation.objects.filter(OPEN, function__deleted_at__isnull=False)
        for function in Function.objects.filter(pk__in=gone.values("function")):
            invocations_abandon(function)

    def _forget_gone(self) -> None:
        """Remove what is in the queue of functions whose row says that they are gone.

        A creation that the cluster refused leaves a consumer, a relay that died a message. What
        has no row is left: it may be another database's, or newer than the copy this one is of.
        """
        found = self._queue.functions(known=functions_live().count())
        rows = Function.objects.filter(
            pk__in=[function for _, function in found], deleted_at__isnull=False
        )
        for tenant, function in found & set(rows.values_list("tenant__name", "pk")):
            logger.warning("function %d is gone, and now so is what it had in the queue", function)
            self._queue.remove_function(tenant, function)

    def _backlog(self, function: Function) -> Backlog:
        """Return the backlog; a consumer that is not there is made: it is given everything."""
        found = self._queue.backlog(function.tenant.name, function.pk)
        if found is None:
            ensure_consumer(self._queue, function)
            found = self._queue.backlog(function.tenant.name, function.pk)
        return found or Backlog(0, 0, 0, 0, 0)

    def _exhausted(self, function: Function, backlog: Backlog) -> dict[tuple[int, int], int]:
        """Decide about messages that no worker will get; return those to be confirmed."""
        suspects = {}
        messages = self._queue.messages(
            function.tenant.name, function.pk, backlog.delivered_sequence, MOST_CHECKED
        )
        rows = Invocation.objects.in_bulk(
            [found.key for one in messages if (found := read_message(one))]
        )
        for message in messages:
            found = read_message(message)
            row = rows.get(found.key) if found else None
            if found is None or row is None or not _is_wanted(row, found):
                self._queue.delete(message.sequence)
            elif _ran_out(row, function_spec(function), backlog):
                key = (row.pk, row.publications)
                if self._is_confirmed(key):
                    self._dead_letter(row, message)
                else:
                    suspects[key] = self._suspects.get(key) or self._queue.last_sequence(RESULTS)
        return suspects

    def _vanished(self, function: Function, backlog: Backlog) -> dict[tuple[int, int], int]:
        """Have those published again that are not in the queue; return those to be confirmed."""
        published = Invocation.objects.filter(
            OPEN, function=function, published_at__lt=Now() - SETTLING
        )
        if published.count() <= backlog.total:
            published = published.filter(published_at__lt=Now() - OLD)
        suspects = {}
        for row in published.order_by("id")[:MOST_CHECKED]:
            if row.stream_sequence and self._is_there(row):
                continue
            key = (row.pk, row.publications)
            if self._is_confirmed(key):
                logger.warning("invocation %s vanished from the queue", row)
                invocation_republish(row.pk, row.publications)
            else:
                suspects[key] = self._suspects.get(key) or self._queue.last_sequence(RESULTS)
        return suspects

    def _is_there(self, row: Invocation) -> bool:
        message = self._queue.message(row.stream_sequence or 0)
        found = read_message(message) if message else None
        wanted = (row.pk, row.publications, row.invocation_id)
        return found is not None and (found.key, found.publication, found.invocation_id) == wanted

    def _is_confirmed(self, key: tuple[int, int]) -> bool:
        """Say whether it was suspected before, and every report from before then is stored."""
        return key in self._suspects and is_settled(self._queue, self._suspects[key])

    def _dead_letter(self, row: Invocation, message: StoredMessage) -> None:
        times = f"{row.attempts} times" if row.attempts != 1 else "once"
        why = f"Workers began with it {times} and never ended it. See what they log."
        dead_letter(self._queue, message, why)


def ensure_consumer(queue: Queue, function: Function) -> None:
    """Make the consumer of a function as its spec wants it.

    Raises:
        QueueError: it could not be done.
    """
    spec = function_spec(function)
    queue.ensure_consumer(
        function.tenant.name,
        function.pk,
        max_deliver=spec.max_deliver,
        most=spec.most_in_work,
    )


def _is_wanted(row: Invocation, message: InvocationMessage) -> bool:
    is_open = row.completed_at is None
    return is_open and row.publications == message.publication


def _ran_out(row: Invocation, spec: FunctionSpec, backlog: Backlog) -> bool:
    """Say whether no worker can have this message, which was given to one before.

    Where nothing is in work, that holds for all. Otherwise for those with all their deliveries
    begun, the last one too long ago to be alive.
    """
    if backlog.in_work == 0:
        return True
    if row.attempts < spec.max_deliver or row.attempted_at is None:
        return False
    silent_since = row.attempted_at + timedelta(seconds=row.timeout_seconds) + _SILENT
    return clock.now() > silent_since
