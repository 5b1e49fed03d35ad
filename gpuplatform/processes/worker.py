"""The Celery worker: its consumer, its start, its children and its shutdown."""

import gc
import logging
import math
import os
import signal
import threading
import time
from ctypes import c_double
from multiprocessing.sharedctypes import RawValue
from typing import Any, Final

from celery import signals
from celery.worker.consumer import Consumer
from django.conf import settings
from typing_extensions import override

from gpuplatform.kube.errors import ClusterError
from gpuplatform.kube.modes import check_configuration
from gpuplatform.metrics.server import open_before_fork, serve_in_child

logger = logging.getLogger(__name__)

TICK_SECONDS: Final = 5.0
STALLED_SECONDS: Final = 60.0
"""Time in seconds after which the main loop is stuck. It exceeds the socket timeout of the
broker."""


class MainLoop:
    """The time of the last iteration of the main loop, in memory that the children share."""

    def __init__(self) -> None:
        self._ran_at = RawValue(c_double, time.monotonic())

    def tick(self) -> None:
        """Record an iteration of the loop."""
        self._ran_at.value = time.monotonic()

    def connecting(self) -> None:
        """Record that the loop waits for the broker, in which case the worker is alive."""
        self._ran_at.value = math.inf

    def is_running(self) -> bool:
        """Return whether the loop ran recently or waits for the broker."""
        return time.monotonic() - self._ran_at.value < STALLED_SECONDS


MAIN_LOOP: Final = MainLoop()


class ReconnectingConsumer(Consumer):
    """A consumer of messages that reconnects after an outage of the broker."""

    task_consumer: Any
    """The type stubs of Celery lack it. It is `None` before the first connection."""

    @override
    def ensure_connected(self, conn: Any) -> Any:
        MAIN_LOOP.connecting()
        try:
            return super().ensure_connected(conn)
        finally:
            MAIN_LOOP.tick()

    @override
    def register_with_event_loop(self, hub: Any) -> None:
        """Tick periodically. Celery cancels the timer if the connection is lost."""
        super().register_with_event_loop(hub)
        hub.call_repeatedly(TICK_SECONDS, MAIN_LOOP.tick)

    @override
    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Ignore the messages of the lost connection, which the broker delivers again.

        Otherwise Celery would restore or acknowledge these messages through the closed connection,
        and exit because of the error.
        """
        if self.task_consumer is not None:
            channel = self.task_consumer.channel
            channel.do_restore = False
            channel.basic_ack = channel.basic_reject = _do_nothing
        super().on_connection_error_after_connected(exc)


def _do_nothing(*_: object, **__: object) -> None:
    """Do nothing; replaces methods that would use the lost connection."""


@signals.worker_init.connect
def start(**_: object) -> None:
    """Check the configuration and open the metrics port, before the children are forked."""
    try:
        check_configuration()
    except ClusterError as error:
        raise SystemExit(str(error)) from error
    open_before_fork("worker")
    # A garbage collection writes to all objects, so that the parent and the children would no
    # longer share their memory.
    gc.collect()
    gc.freeze()


@signals.worker_process_init.connect
def start_child(**_: object) -> None:
    """Serve the metrics of all children from each child."""
    serve_in_child(MAIN_LOOP.is_running)


@signals.worker_shutting_down.connect
def bound_drain(how: str, **_: object) -> None:
    """Limit the duration of a warm shutdown.

    After `DRAIN_SECONDS` the messages of running tasks return to their queue. The rows of these
    tasks are claimed again after their leases have expired.
    """
    if how == "Warm":
        timer = threading.Timer(
            settings.DRAIN_SECONDS, os.kill, args=(os.getpid(), signal.SIGQUIT)
        )
        timer.daemon = True
        timer.start()
