"""Celery beat with the database's schedules and a sign of life.

Besides the schedules it sends, every few seconds, a no-op to each queue; the worker that takes it
shows its own sign of life. Two beats do no harm.
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
AGAIN_SECONDS = 2.0
"""A database that is away is asked again after this time."""

NEVER = datetime.min  # noqa: DTZ901 - the scheduler's times are naive


class HeartbeatScheduler(DatabaseScheduler):  # type: ignore[misc]  # it has no types
    """Sends what is due and shows that it does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._next_life = 0.0

    @override
    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Run what is due; return the seconds until the next look."""
        try:
            close_old_connections()
            if time.monotonic() >= self._next_life:
                self._report_heartbeat()
                self._next_life = time.monotonic() + HEARTBEAT_SECONDS
            return float(super().tick(*args, **kwargs))
        except DatabaseFault as error:
            logger.warning("beat cannot read the schedules: %s", error)
            # It was about to read them all: it takes them for read, and the next time is far.
            self._last_full_sync = NEVER
            return AGAIN_SECONDS

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
    """Serve the state of the whole platform at /metrics."""
    serve(_render)


def _render() -> Callable[[], bytes]:
    render_state = state_render()

    def rendered() -> bytes:
        try:
            return render_state()
        finally:
            connection.close()  # The thread is idle between scrapes.

    return rendered
