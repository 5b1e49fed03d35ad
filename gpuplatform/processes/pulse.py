"""Whether the main loop of a Celery worker runs.

The main process beats from its event loop; its copies, which serve `/livez`, read the age of the
last beat from memory that they share with it.
"""

import mmap
import struct
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from celery import bootsteps
from typing_extensions import override

BEAT_SECONDS = 5.0
_TIME = struct.Struct("d")


class Pulse:
    """The time of the last beat, in memory that processes share when they are forked later."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shared = mmap.mmap(-1, _TIME.size)
        self.beat()

    def beat(self) -> None:
        """Record that the loop runs now."""
        self._shared[:] = _TIME.pack(self._clock())

    def age_seconds(self) -> float:
        """Return the time since the last beat."""
        [beaten_at] = _TIME.unpack(self._shared[:])
        return float(self._clock() - beaten_at)

    def is_fresh(self) -> bool:
        """Return whether the loop has run within the time after which a part counts as down."""
        from django.conf import settings  # noqa: PLC0415 - Celery imports this before the settings

        return self.age_seconds() < settings.FRESH_SECONDS


@cache
def worker_pulse() -> Pulse:
    """Return the pulse of this worker; the first call has to precede the fork of its copies."""
    return Pulse()


class PulseStep(bootsteps.StartStopStep):
    """Beats from the timer of the worker's event loop, which stops when the loop is stuck."""

    requires = ("celery.worker.components:Timer",)

    @override
    def start(self, parent: Any) -> None:
        """Beat from now on."""
        parent.timer.call_repeatedly(BEAT_SECONDS, worker_pulse().beat)
