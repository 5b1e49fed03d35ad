"""Writes the history of units: changes of phase or reason, and the operations that caused them."""

from collections.abc import Iterable
from dataclasses import asdict

from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import applied_operation
from gpuplatform.operations.selectors import makers_among, operations_about
from gpuplatform.reconciliation.mirror import Change
from units.models import GpuUnit, UnitHistory
from units.phases import UnitPhase

_UNSETTLED = frozenset({"", UnitPhase.PENDING, UnitPhase.PROGRESSING})


def append_history(rows: Iterable[GpuUnit], operation: Operation | None) -> None:
    """Append the current phase and reason of `rows` to the history.

    `operation` is the operation that caused them, if there is one.
    """
    UnitHistory.objects.bulk_create(
        UnitHistory(
            unit_id=row.pk,
            phase=row.phase,
            reason=row.reason,
            message=row.message,
            cause=row.cause,
            operation=operation,
        )
        for row in rows
    )


def append_change(change: Change) -> None:
    """Append a change that the mirror copied to the history."""
    row = GpuUnit(pk=change.row_id, **asdict(change.summary))
    append_history([row], _operation_behind(change))


def _operation_behind(change: Change) -> Operation | None:
    """Return the operation that caused a change, or `None` if no operation caused it."""
    applied, metadata = applied_operation(change.resource), change.resource["metadata"]
    # Most changes continue a start, so that this condition is read first.
    if not applied or not (_continues(change, applied) or _begins(change, applied)):
        return None
    about = operations_about([change.resource])
    creator = makers_among(about, [change.resource]).get(metadata["uid"])
    place = (metadata["namespace"], metadata["name"])
    for one in about:
        is_of_unit = (one.object_namespace, one.object_name) == place
        if one.pk == applied and (is_of_unit or one == creator):
            return one
    return None


def _begins(change: Change, applied: int) -> bool:
    """Return whether the change is the first one after the operation was applied to the spec.

    A later change of the spec with `kubectl` does not belong to the operation.
    """
    is_new_spec = change.observed_before < change.resource["metadata"]["generation"]
    known = UnitHistory.objects.filter(unit=change.row_id, operation_id=applied)
    return is_new_spec and not known.exists()


def _continues(change: Change, applied: int) -> bool:
    """Return whether the change follows a change that the operation caused, before it settled."""
    if change.phase_before not in _UNSETTLED:
        return False
    history = UnitHistory.objects.filter(unit=change.row_id)
    return history.values_list("operation_id", flat=True).first() == applied
