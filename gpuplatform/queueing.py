"""Sending hints to workers.

A message is only a hint: it carries the number of a row and nothing else, and losing it costs
time, never work. So sending never fails a caller, and never waits long for a broker that is away.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate
from enum import IntEnum, StrEnum
from typing import Any, Final

from celery import current_app
from django.db import transaction
from kombu.exceptions import ChannelError, OperationalError

from gpuplatform.process_local import ProcessThreads

logger = logging.getLogger(__name__)

SEND_SECONDS: Final = 2.0
"""What a caller waits for the broker to take a message."""

PAUSE_SECONDS: Final = 5.0
"""After a failure nothing is sent for this long: the sweep does it anyway."""

MAX_QUEUED: Final = 500
"""Sweeps fill a queue up to so many messages: repeating hints that wait already would only keep
the workers busy with messages."""

LONGEST_COUNTDOWN_SECONDS: Final = 60.0
"""Far below the visibility timeout: a message that waits longer would be delivered twice."""

SCHEDULE_HEADER: Final = "periodic_task_name"
"""Where a message says which schedule sent it; django-celery-beat writes it there."""


class Queue(StrEnum):
    """The queues, one kind of worker each."""

    OPERATIONS = "operations"
    RECONCILE = "reconcile"
    PERIODIC = "periodic"


class Urgency(IntEnum):
    """Which of the waiting messages a worker takes first, as the broker counts priorities."""

    NEXT = 0
    LATER = 3
    """For what only begins something: what is further on ends sooner so."""
    LAST = 6
    """For what nobody waits for."""


_SEPARATOR: Final = "\x06\x16"
"""Between the name of a queue and a priority, in the keys of the broker."""

_SENDER = ProcessThreads(1, "hints")
"""Sends, so that a broker that hangs holds up nobody else."""


class _Pause:
    """When this process may try the broker again."""

    until = 0.0


def keys_of(queue: Queue) -> tuple[str, ...]:
    """Return the broker's keys that hold the messages of a queue."""
    waiting = (Urgency.LATER, Urgency.LAST)
    return queue.value, *(f"{queue.value}{_SEPARATOR}{urgency.value}" for urgency in waiting)


def enqueue_after_commit(
    task: str,
    row_id: int,
    *,
    queue: Queue,
    urgency: Urgency = Urgency.NEXT,
    countdown: float | None = None,
) -> None:
    """Send a hint once the present transaction is committed; nothing if it is rolled back."""

    def send() -> None:
        enqueue(task, row_id, queue=queue, urgency=urgency, countdown=countdown)

    transaction.on_commit(send, robust=True)


def enqueue(
    task: str,
    *args: int,
    queue: Queue,
    urgency: Urgency = Urgency.NEXT,
    countdown: float | None = None,
    expires: float | None = None,
) -> bool:
    """Send a hint now; return False when the broker does not take it.

    `countdown` and `expires` are seconds: not before, and not after.
    """
    return _send(
        task,
        args=args,
        queue=queue.value,
        priority=urgency.value,
        countdown=countdown,
        expires=expires,
    )


def enqueue_schedule(
    task: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, queue: str, schedule: str
) -> bool:
    """Send now what a beat schedule sends; return False when the broker does not take it."""
    return _send(
        task,
        args=args,
        kwargs=kwargs,
        queue=queue or Queue.PERIODIC.value,
        headers={SCHEDULE_HEADER: schedule},
    )


def _send(task: str, **options: Any) -> bool:
    if time.monotonic() < _Pause.until:
        return False
    sending = _SENDER.submit(
        current_app.send_task, task, retry=False, ignore_result=True, **options
    )
    try:
        sending.result(timeout=SEND_SECONDS)
    except (OperationalError, OSError, TooLate) as error:
        _Pause.until = time.monotonic() + PAUSE_SECONDS
        why = str(error) or "no answer in time"
        logger.warning("the broker does not take messages; the sweep will do it: %s", why)
        return False
    return True


def enqueue_missed(task: str, row_ids: Sequence[int], *, queue: Queue) -> None:
    """Send hints for rows that a sweep found due, as many as the queue has room for."""
    room = MAX_QUEUED - waiting_messages(queue)
    for row_id in row_ids[: max(room, 0)]:
        if not enqueue(task, row_id, queue=queue):
            return


def waiting_messages(queue: Queue) -> int:
    """Return how many messages wait in the queue; 0 when the broker does not say."""
    try:
        with current_app.connection_for_write() as connection:
            channel: Any = connection.default_channel  # kombu's types leave its methods out
            return int(channel.queue_declare(queue.value, passive=True).message_count)
    except ChannelError:
        return 0  # A queue without messages does not exist.
    except (OperationalError, OSError):
        return 0


def enqueue_retry(task: str, row_id: int, wait: float | None, *, queue: Queue) -> None:
    """Hint at a row that is due again after `wait` seconds; long waits are the sweep's."""
    if wait is not None and wait <= LONGEST_COUNTDOWN_SECONDS:
        enqueue(task, row_id, queue=queue, countdown=wait)
