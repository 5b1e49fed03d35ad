"""Expires invocations that no worker started in time, and deletes their messages.

Whether the row of an invocation is still Queued decides, as for a cancellation: a result that
arrives afterwards is ignored. A message that cannot be deleted is deleted by a later step; until
then, a worker that receives it does not start it. Several of these loops can run.
"""

from typing import Final

from serverless.operations import delete_message
from serverless.queue.gateway import Queue
from serverless.services.endings import (
    expired_message_deleted,
    expired_messages,
    invocations_expire,
)

EXPIRY_SECONDS: Final = 1.0
"""Interval in seconds at which invocations are expired."""

BATCH: Final = 200


class Expiry:
    """One expiry loop, whose `step` is called repeatedly."""

    def __init__(self, queue: Queue) -> None:
        """Prepare the loop; `step` does the work."""
        self._queue = queue

    def step(self) -> None:
        """Expire all due invocations, then delete their messages.

        Raises:
            QueueError: If the queue is unavailable. The invocations are expired nevertheless.
        """
        while invocations_expire(BATCH) == BATCH:
            pass
        while rows := list(expired_messages(BATCH)):
            for row in rows:
                delete_message(self._queue, row)
                expired_message_deleted(row)
