"""Sends messages to workers.

A message is a hint: it contains only the id of a row, and a lost message costs time, never work.
Sending therefore never raises, and never waits long for a broker that does not answer.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as SendTimeout
from enum import IntEnum, StrEnum
from typing import Any, Final

from celery import current_app
from django.db import transaction
from kombu.exceptions import ChannelError, OperationalError

from gpuplatform.process_local import ProcessThreads

logger = logging.getLogger(__name__)

SEND_SECONDS: Final = 2.0
"""Maximum wait for the broker to accept a message."""

PAUSE_SECONDS: Final = 5.0
"""Pause after a failure, without any message; sweeps find the rows."""

MAX_QUEUED: Final = 500
"""Length up to which sweeps fill a queue; more messages would only repeat waiting ones."""

MAX_COUNTDOWN_SECONDS: Final = 60.0
"""Far below the visibility timeout, after which the broker would deliver a message again."""

SCHEDULE_HEADER: Final = "periodic_task_name"
"""The header with the name of the schedule, as django-celery-beat sets it."""


class Queue(StrEnum):
    """The Celery queues; in production each has its own worker."""

    OPERATIONS = "operations"
    RECONCILE = "reconcile"
    PERIODIC = "periodic"


class Urgency(IntEnum):
    """The priority of a message; lower values are delivered first."""

    NEXT = 0
    LATER = 3
    """For work that starts something new, so that work in progress ends sooner."""
    LAST = 6
    """For work without a waiting caller."""


_SEPARATOR: Final = "\x06\x16"
"""Separates the name of a queue and a priority in the keys of the broker."""

_SENDER = ProcessThreads(1, "hints")
"""A thread that sends, so that a hanging broker does not block the caller."""


class _Pause:
    """The end of the pause, on the monotonic clock."""

    until = 0.0


def keys_of(queue: Queue) -> tuple[str, ...]:
    """Return the broker's keys of the messages of a queue."""
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
    """Send a message when the current transaction is committed; none if it is rolled back."""

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
    """Send a message now; return False if the broker does not accept it.

    `countdown` and `expires` are the seconds before and after which it is not delivered.
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
    """Send the message of a beat schedule now; return False if the broker does not accept it."""
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
    except (OperationalError, OSError, SendTimeout) as error:
        _Pause.until = time.monotonic() + PAUSE_SECONDS
        why = str(error) or "timeout"
        logger.warning("the broker does not accept messages; sweeps will find the rows: %s", why)
        return False
    return True


def enqueue_missed(task: str, row_ids: Sequence[int], *, queue: Queue) -> None:
    """Send messages for rows that a sweep found due, up to the capacity of the queue."""
    room = MAX_QUEUED - waiting_messages(queue)
    for row_id in row_ids[: max(room, 0)]:
        if not enqueue(task, row_id, queue=queue):
            return


def waiting_messages(queue: Queue) -> int:
    """Return the number of waiting messages; 0 if the broker does not answer."""
    try:
        with current_app.connection_for_write() as connection:
            channel: Any = connection.default_channel  # kombu's types omit its methods
            return int(channel.queue_declare(queue.value, passive=True).message_count)
    except ChannelError:
        return 0  # A queue without messages does not exist.
    except (OperationalError, OSError):
        return 0


def enqueue_retry(task: str, row_id: int, wait: float | None, *, queue: Queue) -> None:
    """Send a message for a row that is due in `wait` seconds; sweeps cover long waits."""
    if wait is not None and wait <= MAX_COUNTDOWN_SECONDS:
        enqueue(task, row_id, queue=queue, countdown=wait)
