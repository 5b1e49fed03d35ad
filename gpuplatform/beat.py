"""Celery beat with the database's schedules and a sign of life.

Besides the schedules it sends, every few seconds, a no-op to each queue; the worker that takes it
shows its own sign of life. Two beats do no harm.
"""

import logging
import time
from typing import Any

from django.db import Error as DatabaseFault
from django_celery_beat.schedulers import DatabaseScheduler
from typing_extensions import override

from gpuplatform.queueing import Queue, enqueue
from gpuplatform.reconciliation.heartbeats import Part, show_life

logger = logging.getLogger(__name__)

LIFE_SECONDS = 10.0


class HeartbeatScheduler(DatabaseScheduler):  # type: ignore[misc]  # it has no types
    """Sends what is due and shows that it does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._next_life = 0.0

    @override
    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Run what is due; return the seconds until the next look."""
        if time.monotonic() >= self._next_life:
            self._next_life = time.monotonic() + LIFE_SECONDS
            self._show_life()
        return float(super().tick(*args, **kwargs))

    def _show_life(self) -> None:
        for queue in Queue:
            enqueue(f"reconciliation.show_{queue}_life", queue=queue, expires=LIFE_SECONDS * 3)
        try:
            show_life(Part.BEAT)
        except DatabaseFault as error:
            logger.warning("beat cannot show its life: %s", error)
