"""Wait until a unit is ready."""

from typing import Final

from gpuplatform.api.waiting import Seats
from units.models import GpuUnit
from units.phases import UnitPhase
from units.selectors import unit_get

SEATS: Final = Seats(2)


def unit_when_ready(namespace: str, name: str, seconds: float) -> GpuUnit:
    """Return the unit as soon as it is ready, or in its state after `seconds`.

    Raises:
        NotFound: it does not exist, or was deleted during the wait.
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
    """Return whether the wait ends: the unit is ready, or is being deleted."""
    if unit.phase == UnitPhase.TERMINATING:
        return True
    return unit.phase == UnitPhase.READY and unit.generation == unit.observed_generation
