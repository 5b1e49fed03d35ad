"""A worker: its consumer, its start, its children, and how long its shutdown may take."""

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

from gpuplatform.errors import ClusterError
from gpuplatform.kube.modes import check_configuration
from gpuplatform.metrics.server import open_before_fork, serve_in_child

logger = logging.getLogger(__name__)

TICK_SECONDS: Final = 5.0
STALLED_SECONDS: Final = 60.0
"""Longer than a call to the broker may take (the socket timeout of the settings)."""


class MainLoop:
    """When the main loop of the worker last ran; the children read it to answer /livez."""

    def __init__(self) -> None:
        self._ran_at = RawValue(c_double, time.monotonic())

    def tick(self) -> None:
        """Record that the loop runs."""
        self._ran_at.value = time.monotonic()

    def connecting(self) -> None:
        """Record that the loop waits for the broker: that is not a fault of the worker."""
        self._ran_at.value = math.inf

    def is_running(self) -> bool:
        """Return whether the loop ran recently, or waits for the broker."""
        return time.monotonic() - self._ran_at.value < STALLED_SECONDS


MAIN_LOOP: Final = MainLoop()


class ReconnectingConsumer(Consumer):
    """Takes messages; survives an outage of the broker."""

    task_consumer: Any
    """Missing in Celery's types; None before the first connection."""

    @override
    def ensure_connected(self, conn: Any) -> Any:
        MAIN_LOOP.connecting()
        try:
            return super().ensure_connected(conn)
        finally:
            MAIN_LOOP.tick()

    @override
    def register_with_event_loop(self, hub: Any) -> None:
        """Tick while the loop runs; Celery cancels the timer when the connection is lost."""
        super().register_with_event_loop(hub)
        hub.call_repeatedly(TICK_SECONDS, MAIN_LOOP.tick)

    @override
    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Drop the lost connection, and the messages that it delivered.

        Celery would return unacknowledged messages, or acknowledge them when their tasks end,
        through the closed connection, and would exit on the error. The broker delivers them again.
        """
        if self.task_consumer is not None:
            channel = self.task_consumer.channel
            channel.do_restore = False
            channel.basic_ack = channel.basic_reject = _do_nothing
        super().on_connection_error_after_connected(exc)


def _do_nothing(*_: object, **__: object) -> None:
    """Replace calls that a lost connection cannot make."""


@signals.worker_init.connect
def start(**_: object) -> None:
    """Check the configuration and open the port of /metrics, before the children are forked."""
    try:
        check_configuration()
    except ClusterError as error:
        raise SystemExit(str(error)) from error
    open_before_fork("worker")
    # Celery collects garbage at each fork, and every child does later: each collection would write
    # to all objects, and so copy the memory that parent and children share.
    gc.collect()
    gc.freeze()


@signals.worker_process_init.connect
def start_child(**_: object) -> None:
    """Serve /metrics from each child, for all of them."""
    serve_in_child(MAIN_LOOP.is_running)


@signals.worker_shutting_down.connect
def bound_drain(how: str, **_: object) -> None:
    """End a warm shutdown that takes too long: messages of running tasks return to their queue.

    The rows of these tasks are claimed again when their leases expire.
    """
    if how == "Warm":
        timer = threading.Timer(
            settings.DRAIN_SECONDS, os.kill, args=(os.getpid(), signal.SIGQUIT)
        )
        timer.daemon = True
        timer.start()
