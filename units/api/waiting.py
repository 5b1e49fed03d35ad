"""Waits until a unit is ready, for a request with `wait=ready`."""

from typing import Final

from gpuplatform.api.waiting import Seats
from units.models import GpuUnit
from units.phases import UnitPhase
from units.selectors import unit_get

SEATS: Final = Seats(2)


def unit_when_ready(namespace: str, name: str, seconds: float) -> GpuUnit:
    """Return a unit when it is ready or is being deleted, but after `seconds` at the latest.

    Raises:
        NotFound: If the unit does not exist, or if it is deleted during the wait.
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
    """Return whether the unit is ready or is being deleted, so that the wait ends."""
    if unit.phase == UnitPhase.TERMINATING:
        return True
    return unit.phase == UnitPhase.READY and unit.generation == unit.observed_generation
