"""What a command cannot do without."""

from django.core.management.base import CommandError

from serverless.queue.errors import QueueUnavailable
from serverless.queue.gateway import Queue, get_queue


def required_queue() -> Queue:
    """Return the queue of this process; nothing is connected before its first call.

    Raises:
        CommandError: none is configured.
    """
    try:
        return get_queue()
    except QueueUnavailable as error:
        raise CommandError(str(error)) from error
