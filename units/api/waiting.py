"""Waits until a unit is ready, for a request with `wait=ready`."""

from typing import Final

from django.db.models import F, Q

from gpuplatform.api.waiting import Seats
from units.models import GpuUnit
from units.phases import UnitPhase
from units.selectors import unit_get

SEATS: Final = Seats(2, poll_seconds=0.02)

_MAY_BE_DECIDED: Final = Q(phase=UnitPhase.TERMINATING) | (
    (Q(phase=UnitPhase.READY) | Q(is_ended=True)) & Q(generation=F("observed_generation"))
)
"""A necessary condition for the end of a wait. It needs one row; the complete unit needs joins."""


def unit_when_ready(namespace: str, name: str, seconds: float) -> GpuUnit:
    """Return a unit when it is ready, has ended or is being deleted; at most after `seconds`.

    Raises:
        NotFound: If the unit does not exist, or if it is deleted during the wait.
    """
    unit = unit_get(namespace, name)
    undecided = GpuUnit.objects.filter(~_MAY_BE_DECIDED, pk=unit.pk, deleted_at__isnull=True)

    def is_decided() -> bool:
        nonlocal unit
        if undecided.exists():
            return False
        unit = unit_get(namespace, name)
        return _is_decided(unit)

    if not _is_decided(unit):
        SEATS.wait(is_decided, seconds)
    return unit


def _is_decided(unit: GpuUnit) -> bool:
    """Return whether the unit is ready, has ended or is being deleted, so that the wait ends."""
    if unit.phase == UnitPhase.TERMINATING:
        return True
    is_settled = unit.waits_since is None and (unit.phase == UnitPhase.READY or unit.is_ended)
    return is_settled and unit.generation == unit.observed_generation
