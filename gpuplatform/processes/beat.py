"""Celery beat, which reads the schedules from the database and sends heartbeat tasks.

Every few seconds beat sends a heartbeat task to each queue. The worker that runs the task records
its heartbeat. It is safe to run two beat processes.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from celery import signals
from django.db import Error as DatabaseFault
from django.db import close_old_connections, connection
from django_celery_beat.schedulers import DatabaseScheduler
from typing_extensions import override

from gpuplatform.metrics.server import serve
from gpuplatform.observability.collectors import state_render
from gpuplatform.queueing import Queue, enqueue
from gpuplatform.reconciliation.heartbeats import FRESH_SECONDS, Part, report_heartbeat

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = FRESH_SECONDS / 4
RETRY_SECONDS = 2.0
"""Delay in seconds before the next attempt if the database does not respond."""

NEVER = datetime.min  # noqa: DTZ901 - the scheduler's times are naive


class HeartbeatScheduler(DatabaseScheduler):  # type: ignore[misc]  # it has no types
    """A scheduler that sends due tasks and heartbeat tasks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._next_heartbeat = 0.0

    @override
    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send due tasks. Return the number of seconds until the next tick."""
        try:
            close_old_connections()
            if time.monotonic() >= self._next_heartbeat:
                self._report_heartbeat()
                self._next_heartbeat = time.monotonic() + HEARTBEAT_SECONDS
            return float(super().tick(*args, **kwargs))
        except DatabaseFault as error:
            logger.warning("beat cannot read the schedules: %s", error)
            # The scheduler ignores the failed read, and would read the schedules again only at its
            # next periodic sync.
            self._last_full_sync = NEVER
            return RETRY_SECONDS

    def _report_heartbeat(self) -> None:
        for queue in Queue:
            enqueue(
                f"reconciliation.report_{queue}_heartbeat",
                queue=queue,
                expires=HEARTBEAT_SECONDS * 3,
            )
        report_heartbeat(Part.BEAT)


@signals.beat_init.connect
def serve_state(**_: object) -> None:
    """Serve the metrics of the state of the platform."""
    serve(_render)


def _render() -> Callable[[], bytes]:
    render_state = state_render()

    def rendered() -> bytes:
        try:
            return render_state()
        finally:
            connection.close()  # The thread is idle between scrapes.

    return rendered
