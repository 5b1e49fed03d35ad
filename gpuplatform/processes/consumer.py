"""Celery's worker, made to outlive its broker."""

from typing import Any

from celery.worker.consumer import Consumer
from typing_extensions import override


class PatientConsumer(Consumer):
    """Takes messages; connects again to a broker that was away."""

    task_consumer: Any
    """Celery's types leave it out; None before the first connection."""

    @override
    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Let go of the lost connection, and of the messages that came by it.

        Celery would hand back those that are not acknowledged, or acknowledge them when their work
        is done, by the connection that it has taken apart, and end by the failure of that. The
        broker hands them out again by itself.
        """
        if self.task_consumer is not None:
            channel = self.task_consumer.channel
            channel.do_restore = False
            channel.basic_ack = channel.basic_reject = _do_nothing
        super().on_connection_error_after_connected(exc)


def _do_nothing(*_: object, **__: object) -> None:
    """Stand in for what a lost connection cannot do."""
