"""Errors of calls to the queue."""


class QueueError(Exception):
    """A call to the queue failed; `str()` is a sentence for an operator."""


class QueueUnavailable(QueueError):
    """The queue server did not answer. It may have executed the call."""


class QueueMissing(QueueError):
    """The stream or the consumer does not exist."""


class QueueRefused(QueueError):
    """The queue server refused the request, for example because a stream is full."""
