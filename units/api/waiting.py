"""Waiting for a unit to be ready, without taking the process's threads from everybody else."""

import threading
import time
from typing import Final

from django.conf import settings

from units.models import GpuUnit
from units.phases import UnitPhase
from units.selectors import unit_get

POLL_SECONDS: Final = 0.25

_seats = threading.BoundedSemaphore(max(settings.WEB_THREADS // 2, 1))
"""At most half of the threads wait; who finds no seat is answered at once."""


def unit_when_ready(namespace: str, name: str, seconds: float) -> GpuUnit:
    """Return the unit as soon as it is ready, or as it is when the time is up.

    Raises:
        NotFound: there is none, or it went away meanwhile.
    """
    unit = unit_get(namespace, name)
    if seconds <= 0 or _is_decided(unit) or not _seats.acquire(blocking=False):
        return unit
    try:
        return _polled(unit, time.monotonic() + seconds)
    finally:
        _seats.release()


def _polled(unit: GpuUnit, until: float) -> GpuUnit:
    while not _is_decided(unit) and (left := until - time.monotonic()) > 0:
        time.sleep(min(POLL_SECONDS, left))
        unit = unit_get(unit.namespace, unit.name)
    return unit


def _is_decided(unit: GpuUnit) -> bool:
    """Say whether waiting is over: it is ready, or never will be."""
    if unit.phase == UnitPhase.TERMINATING:
        return True
    return unit.phase == UnitPhase.READY and unit.generation == unit.observed_generation
