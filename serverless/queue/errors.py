"""Errors of calls to the queue."""


class QueueError(Exception):
    """A call to the queue failed. `str()` is a sentence for operators."""


class QueueUnavailable(QueueError):
    """The queue server did not respond. It may have executed the call."""


class QueueRejected(QueueError):
    """The queue server rejected the request: an object does not exist, or a stream is full."""
