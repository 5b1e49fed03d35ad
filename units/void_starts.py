"""Void starts: starts that failed or were cancelled, after which a unit counts as suspended."""

from collections.abc import Iterable, Sequence
from typing import Final

from django.db import connection
from django.db.models import Exists, OuterRef, QuerySet

from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.provenance import applied_operation
from units.models import GpuUnit

START_KIND: Final = "unit.start"
"""The operation kind that starts a stopped unit."""

_VOID_PHASES = (OperationPhase.FAILED, OperationPhase.CANCELLED)
_IS_VOID: Final = """
SELECT 1 FROM operations_operation
WHERE id = %s AND kind = %s AND phase = ANY(%s) AND object_namespace = %s AND object_name = %s
"""
"""Part of each copy of a unit. The compilation of a queryset would take most of its time."""


def void_starts_to_retain() -> QuerySet[Operation]:
    """Return the failed and cancelled starts of units that are not deleted.

    If such a start is the last operation applied to its unit, deleting it would start the unit.
    """
    live = GpuUnit.objects.filter(pk=OuterRef("object_row"), deleted_at__isnull=True)
    return Operation.objects.filter(Exists(live), kind=START_KIND, phase__in=_VOID_PHASES)


def is_start_void(unit: Manifest) -> bool:
    """Return whether the last operation applied to `unit` is a failed or cancelled start.

    Such a unit counts as suspended (rule `voidstart` of the hand-over).
    """
    applied, metadata = applied_operation(unit), unit["metadata"]
    if not applied:
        return False
    phases = [phase.value for phase in _VOID_PHASES]
    place = [metadata["namespace"], metadata["name"]]
    with connection.cursor() as cursor:
        cursor.execute(_IS_VOID, [applied, START_KIND, phases, *place])
        return cursor.fetchone() is not None


def starts_void(units: Sequence[Manifest], operations: Iterable[Operation]) -> set[str]:
    """Return the UIDs of the units whose last applied operation is a failed or cancelled start.

    `operations` must contain the operations that were last applied to the units.
    """
    void = {
        (one.pk, one.object_namespace, one.object_name)
        for one in operations
        if one.kind == START_KIND and one.phase in _VOID_PHASES
    }
    last_applied = ((applied_operation(unit), unit["metadata"]) for unit in units)
    return {
        metadata["uid"]
        for applied, metadata in last_applied
        if (applied, metadata["namespace"], metadata["name"]) in void
    }
