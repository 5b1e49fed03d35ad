"""What can go wrong between a process and the queue."""


class QueueError(Exception):
    """The queue did not do what was asked; `str()` is a sentence for an operator."""


class QueueUnavailable(QueueError):
    """No answer. It may have been done all the same."""


class QueueMissing(QueueError):
    """The stream, the consumer or the message is not there."""


class QueueRefused(QueueError):
    """The server said no: it is full, or the message is too large."""
