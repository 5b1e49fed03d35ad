"""Waits until a unit is ready, for a request with `wait=ready`."""

from typing import Final

from django.db.models import F, Q

from gpuplatform.api.waiting import SEATS
from gpuplatform.operations.selectors import has_open_operations
from units.models import GpuUnit
from units.phases import UnitPhase
from units.selectors import unit_get
from units.services.names import UNIT_KIND

_POLL_SECONDS: Final = 0.02

_MAY_BE_DECIDED: Final = Q(phase=UnitPhase.TERMINATING) | (
    (Q(phase=UnitPhase.READY) | Q(is_ended=True)) & Q(generation=F("observed_generation"))
)
"""A necessary condition for the end of a wait. It needs one row; the complete unit needs joins."""


def unit_when_ready(tenant: int, namespace: str, name: str, seconds: float) -> tuple[GpuUnit, int]:
    """Return a unit when it is ready, has ended or is being deleted; at most after `seconds`.

    Accepted changes of the unit are executed first.

    Returns:
        The unit, and the seconds after which the caller can try again if it could not wait.

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

    retry_seconds = 0
    if seconds > 0 and not _is_decided(unit):
        retry_seconds = SEATS.wait(tenant, is_decided, seconds, _POLL_SECONDS)
    return unit, retry_seconds


def _is_decided(unit: GpuUnit) -> bool:
    """Return whether the unit is ready, has ended or is being deleted, so that the wait ends."""
    if unit.phase == UnitPhase.TERMINATING:
        return True
    is_settled = unit.waits_since is None and (unit.phase == UnitPhase.READY or unit.is_ended)
    is_observed = is_settled and unit.generation == unit.observed_generation
    return is_observed and not has_open_operations(UNIT_KIND, unit.namespace, unit.name)
