"""Sends messages to workers.

A message is a hint that contains only the id of a row. A lost message delays work but never loses
it. So sending never raises an exception and never waits long for an unavailable broker.
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
"""Maximum duration in seconds of the wait for the broker to accept a message."""

PAUSE_SECONDS: Final = 5.0
"""Duration in seconds after a failure during which no message is sent. Sweeps find the rows."""

MAX_QUEUED: Final = 500
"""Maximum length of a queue that sweeps fill. More messages would only be duplicates."""

MAX_COUNTDOWN_SECONDS: Final = 60.0
"""Maximum delay of a message. It is far below the visibility timeout of the broker."""

SCHEDULE_HEADER: Final = "periodic_task_name"
"""The message header in which django-celery-beat stores the name of the schedule."""


class Queue(StrEnum):
    """The Celery queues. In production, each queue has its own worker."""

    OPERATIONS = "operations"
    RECONCILE = "reconcile"
    PERIODIC = "periodic"


class Urgency(IntEnum):
    """The priority of a message. Lower values are delivered first."""

    NEXT = 0
    LATER = 3
    """For new work, so that work in progress ends sooner."""
    LAST = 6
    """For work for which no caller waits."""


_SEPARATOR: Final = "\x06\x16"
"""Separator of queue name and priority in the keys of the broker."""

_SENDER = ProcessThreads(1, "hints")
"""The thread that sends messages, so that an unresponsive broker does not block the caller."""


class _Pause:
    """The pause after a failure. `until` is its end on the monotonic clock."""

    until = 0.0


def keys_of(queue: Queue) -> tuple[str, ...]:
    """Return the keys in the broker that contain the messages of a queue."""
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
    """Send a message after the current transaction is committed."""

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
    """Send a message now, and return whether the broker accepted it.

    It is delivered after `countdown` seconds and discarded after `expires` seconds.
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
    """Send the message of a beat schedule now, and return whether the broker accepted it."""
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
        reason = str(error) or "timeout"
        logger.warning(
            "the broker does not accept messages; sweeps will find the rows: %s", reason
        )
        return False
    return True


def enqueue_missed(task: str, row_ids: Sequence[int], *, queue: Queue) -> None:
    """Send messages for due rows that a sweep found, up to `MAX_QUEUED` messages in the queue."""
    room = MAX_QUEUED - waiting_messages(queue)
    for row_id in row_ids[: max(room, 0)]:
        if not enqueue(task, row_id, queue=queue):
            return


def waiting_messages(queue: Queue) -> int:
    """Return the number of messages in a queue, or 0 if the broker does not respond."""
    try:
        with current_app.connection_for_write() as connection:
            channel: Any = connection.default_channel  # kombu's types omit its methods
            return int(channel.queue_declare(queue.value, passive=True).message_count)
    except (ChannelError, OperationalError, OSError):
        return 0  # ChannelError: a queue without messages does not exist.


def enqueue_retry(task: str, row_id: int, wait: float | None, *, queue: Queue) -> None:
    """Send a message for a row that is due in `wait` seconds. Sweeps handle longer waits."""
    if wait is not None and wait <= MAX_COUNTDOWN_SECONDS:
        enqueue(task, row_id, queue=queue, countdown=wait)
