"""Waiting for a unit to be ready."""

from typing import Final

from gpuplatform.api.waiting import Seats
from units.models import GpuUnit
from units.phases import UnitPhase
from units.selectors import unit_get

SEATS: Final = Seats(2)


def unit_when_ready(namespace: str, name: str, seconds: float) -> GpuUnit:
    """Return the unit as soon as it is ready, or as it is when the time is up.

    Raises:
        NotFound: there is none, or it went away meanwhile.
    """
    unit = unit_get(namespace, name)

    def is_decided() -> bool:
        nonlocal unit
        unit = unit_get(namespace, name)
        return _is_decided(unit)

    if not _is_decided(unit):
        SEATS.wait(is_decided, seconds)
    return unit


def _is_decided(unit: GpuUnit) -> bool:
    """Say whether waiting is over: it is ready, or never will be."""
    if unit.phase == UnitPhase.TERMINATING:
        return True
    return unit.phase == UnitPhase.READY and unit.generation == unit.observed_generation
