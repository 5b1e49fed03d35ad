"""Copying `GPUUnit` resources of both roles into their rows, and keeping their history.

Called by the controller and the reconcilers. The mirror only copies, and never an older copy over
a newer one; what seems gone is marked due, and the reconciler's fresh read decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Coalesce, Now

from gpuplatform.kube.client import Listing
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.provenance import applied_operation
from gpuplatform.operations.selectors import makers_among, operation_of, operations_about
from gpuplatform.reconciliation.leases import RowLease, mark_changed
from gpuplatform.reconciliation.mirror import (
    Change,
    Mirror,
    StatusSummary,
    count,
    said_phase,
    version_number,
)
from units.core.observed import source_of
from units.models import GpuUnit, UnitHistory
from units.phases import UnitPhase, UnitRole, role_of
from units.selectors import is_start_void, is_unit_leftover

ENDING_MESSAGE: Final = "Deleted; its GPU is released once its pods are gone."

_UNSETTLED = frozenset({"", UnitPhase.PENDING, UnitPhase.PROGRESSING})


def unit_observed(resource: Manifest) -> int | None:
    """Copy a resource that was seen; return the number of its row if there is something to do."""
    return _MIRROR.observed(resource)


def unit_copied(resource: Manifest) -> int | None:
    """Copy a resource of which only the status changed that its planner wrote."""
    return _MIRROR.copied(resource)


def units_listed(listing: Listing) -> list[int]:
    """Copy a complete list; return the numbers of rows with something to do.

    A row that the list does not have is marked due if the list is not older than the row.
    """
    return _MIRROR.listed(listing)


def unit_marked(namespace: str, name: str) -> list[int]:
    """Mark the unit of that name due; return its number if somebody has to be told."""
    marked = _MIRROR.marked(namespace, name)
    return [] if marked is None else [marked]


def unit_touched(namespace: str, name: str) -> list[int]:
    """Mark the unit of that name due, since it or something it owns changed.

    Not stock that was consumed: it goes, and its row is closed by whoever waits for that. Returns
    the unit's number if somebody has to be told.
    """
    named = GpuUnit.objects.filter(namespace=namespace, name=name, deleted_at__isnull=True)
    return mark_changed(named.filter(consumed_by="").exclude(uid=""))


def unit_freed(namespace: str, name: str) -> list[int]:
    """Mark what waits for the GPU of a stock unit, since a pod of it is gone.

    Returns the numbers of those that somebody has to be told of.
    """
    if role_of(namespace) != UnitRole.STOCK:
        return []
    stock = GpuUnit.objects.filter(namespace=namespace, name=name, deleted_at__isnull=True)
    consumers = stock.exclude(consumed_by="").values("consumed_by")
    return unit_waiting_marked(GpuUnit.objects.filter(uid__in=consumers))


def unit_waiting_marked(waiting: QuerySet[GpuUnit]) -> list[int]:
    """Mark units due that wait for their stock; return those that somebody has to be told of."""
    return mark_changed(waiting.filter(deleted_at__isnull=True))


def unit_recorded(rows: QuerySet[GpuUnit], resource: Manifest) -> None:
    """Copy a fresh read into a guarded row.

    That a start came to nothing changes the row and not the resource, so it is always written.
    """
    if not _MIRROR.recorded(rows, resource):
        _suspend(rows, resource)


def unit_reconciled(lease: RowLease[GpuUnit], resource: Manifest) -> None:
    """Copy what a reconciler read, or wrote, into its row, if the row has not that already."""
    if lease.row.resource_version < version_number(resource["metadata"]["resourceVersion"]):
        unit_recorded(lease.guarded(), resource)
    elif lease.row.is_suspended != _is_suspended(resource):
        _suspend(lease.guarded(), resource)


def unit_ending(rows: QuerySet[GpuUnit], left: str = "") -> None:
    """Show a guarded row whose resource is gone as ending: it is not free, and not yet gone.

    `left` is what was found of it, as a clause; without it, a message that is there stays.
    """
    message = f"{ENDING_MESSAGE} Waiting: {left}." if left else ENDING_MESSAGE
    _end(rows if left else rows.filter(resource_gone_at__isnull=True), message, is_awaited=True)


def unit_gone(rows: QuerySet[GpuUnit], successor: Manifest | None) -> None:
    """Close a guarded row whose resource, with all that it owned, a fresh read did not find.

    `successor` is the resource of the same name that was found instead, if any.
    """
    with transaction.atomic():
        _end(rows.exclude(phase=UnitPhase.TERMINATING), "", is_awaited=False)
        rows.filter(resource_gone_at__isnull=False).update(message="")  # Nothing is awaited.
        _MIRROR.gone(rows, successor)


def unit_adopted(resource: Manifest, operation: Operation | None, **columns: Any) -> int | None:
    """Make the row of a resource that the database lost; return its number.

    None where another row has its name. Called by `manage.py recover` only.
    """
    tenant = operation.tenant if operation else None
    return _MIRROR.adopted(resource, {"tenant": tenant, "operation": operation, **columns})


def unit_reopened(resource: Manifest) -> bool:
    """Open the row of a unit that a restored cluster brought back; say whether it could be."""
    return _MIRROR.reopened(resource, unit_gone)


def unit_history(rows: QuerySet[GpuUnit], operation: Operation | None) -> None:
    """Write down what is said of these rows now, and which operation brought it about."""
    unit_history_begun(rows.only("phase", "reason", "message", "cause"), operation)


def unit_history_begun(rows: Iterable[GpuUnit], operation: Operation | None) -> None:
    """Write down what these rows say, just as they were read or inserted."""
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


def spec_columns(spec: Manifest) -> dict[str, Any]:
    """Return the columns that repeat the spec."""
    return {
        "spec": spec,
        "spec_name": str(field(spec, "specName") or "")[:63],
        "image": str(field(spec, "image") or "")[:512],
        "gpu": count(spec, "gpu"),
        "is_suspended": field(spec, "suspend") is True,
    }


def _columns(resource: Manifest) -> dict[str, Any]:
    source = source_of(resource)
    return {
        **spec_columns(resource.get("spec") or {}),
        "role": role_of(resource["metadata"]["namespace"]),
        "is_suspended": _is_suspended(resource),
        "ready_replicas": count(resource, "status", "readyReplicas"),
        "service_name": str(field(resource, "status", "serviceName") or "")[:63],
        "access_url": str(field(resource, "status", "accessURL") or "")[:300],
        "source_name": source.name if source else "",
        "source_uid": source.uid if source else "",
        "resource_gone_at": None,
    }


def _suspend(rows: QuerySet[GpuUnit], resource: Manifest) -> None:
    """Write whether the unit counts as suspended into the row that has just this copy of it."""
    version = version_number(resource["metadata"]["resourceVersion"])
    is_suspended = _is_suspended(resource)
    same = rows.filter(resource_version=version, deleted_at__isnull=True)
    same.exclude(is_suspended=is_suspended).update(is_suspended=is_suspended)


def _is_suspended(resource: Manifest) -> bool:
    return field(resource, "spec", "suspend") is True or is_start_void(resource)


def _phase(resource: Manifest) -> str:
    return said_phase(resource, tuple(UnitPhase.values), otherwise=UnitPhase.PENDING.value)


def _discovered(resource: Manifest) -> Mapping[str, Any] | None:
    operation = operation_of(resource)
    if operation is not None and operation.phase in OPEN_PHASES:
        return None  # Its success records the UID.
    if is_unit_leftover(resource, operation):
        return None
    metadata = resource["metadata"]
    is_stock = role_of(metadata["namespace"]) == UnitRole.STOCK
    if operation is not None and (is_stock or operation.object_uid != metadata["uid"]):
        operation = None  # A person's copy bears the marks of the original.
    return {"tenant": operation.tenant if operation else None, "operation": operation}


def _changed(change: Change) -> None:
    unit_history_begun(
        [GpuUnit(pk=change.row_id, **asdict(change.summary))], _operation_behind(change)
    )


def _operation_behind(change: Change) -> Operation | None:
    """Return the operation that a change goes back to: it changed the spec, or began all this."""
    number, metadata = applied_operation(change.resource), change.resource["metadata"]
    if not number:
        return None
    if change.generation_before >= metadata["generation"]:
        if change.phase_before not in _UNSETTLED:
            return None
        last = UnitHistory.objects.filter(unit=change.row_id).first()
        if last is None or last.operation_id != number:
            return None
    about = operations_about([change.resource])
    made = makers_among(about, [change.resource]).get(metadata["uid"])
    place = (metadata["namespace"], metadata["name"])
    for one in about:
        is_of_unit = (one.object_namespace, one.object_name) == place
        if one.pk == number and (is_of_unit or one == made):
            return one
    return None


def _end(rows: QuerySet[GpuUnit], message: str, *, is_awaited: bool) -> None:
    """Show guarded rows as ending; `is_awaited`: something that the resource owned is still there.

    Rows that show exactly that already are not written.
    """
    shown = (UnitPhase.TERMINATING, message)
    with transaction.atomic(savepoint=False):
        open_rows = rows.filter(deleted_at__isnull=True).select_for_update(of=("self",))
        found = open_rows.values_list("id", "phase", "message")
        ending = {id_: phase for id_, phase, text in found if (phase, text) != shown}
        if not ending:
            return
        summary = asdict(StatusSummary(UnitPhase.TERMINATING, message=message))
        GpuUnit.objects.filter(id__in=ending).update(
            **summary,
            phase_since=Now(),
            deletion_requested_at=Coalesce("deletion_requested_at", Now()),
            resource_gone_at=Coalesce("resource_gone_at", Now()) if is_awaited else None,
        )
        changed = [id_ for id_, phase in ending.items() if phase != UnitPhase.TERMINATING]
        unit_history_begun([GpuUnit(pk=id_, **summary) for id_ in changed], None)


_MIRROR = Mirror(GpuUnit, _phase, _columns, _discovered, _changed)
