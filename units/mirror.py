"""Copies `GPUUnit` resources of both roles into their rows.

Used by the controller and the reconcilers. The mirror never replaces a copy with an older one. If
a resource seems to be deleted, the mirror only marks the row due; a fresh read by the reconciler
decides.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Coalesce, Now

from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.discovery import discovered_columns
from gpuplatform.operations.models import Operation
from gpuplatform.planning.plan import StatusSummary
from gpuplatform.reconciliation.leases import RowLease, mark_changed
from gpuplatform.reconciliation.mirror import Mirror, count, version_number
from units.core.sources import source_of
from units.history import append_change, append_history
from units.models import GpuUnit
from units.phases import UnitPhase, UnitRole, role_of
from units.selectors import is_start_void, is_unit_leftover

ENDING_MESSAGE: Final = "The unit is deleted. Its GPUs are released when its pods are deleted."


def unit_touched(namespace: str, name: str) -> list[int]:
    """Mark a unit due because the unit or one of its objects changed.

    Consumed stock is not marked: the unit that waits for its deletion closes its row.
    Returns the ids of the rows that no queued message covers yet.
    """
    named = GpuUnit.objects.filter(namespace=namespace, name=name, deleted_at__isnull=True)
    return mark_changed(named.filter(consumed_by="").exclude(uid=""))


def unit_freed(namespace: str, name: str) -> list[int]:
    """Mark the consumers of a stock unit due because one of its pods was deleted.

    Returns the ids of the rows that no queued message covers yet.
    """
    if role_of(namespace) != UnitRole.STOCK:
        return []
    stock = GpuUnit.objects.filter(namespace=namespace, name=name, deleted_at__isnull=True)
    consumers = stock.exclude(consumed_by="").values("consumed_by")
    return unit_waiting_marked(GpuUnit.objects.filter(uid__in=consumers))


def unit_waiting_marked(waiting: QuerySet[GpuUnit]) -> list[int]:
    """Mark units due that wait for their stock unit.

    Returns the ids of the rows that no queued message covers yet.
    """
    return mark_changed(waiting.filter(deleted_at__isnull=True))


def unit_recorded(rows: QuerySet[GpuUnit], resource: Manifest) -> None:
    """Copy a resource, as a fresh read returned it, into a guarded row.

    `is_suspended` is also written if the copy is not newer, because a failed start changes it
    without a change of the resource.
    """
    if not UNIT_MIRROR.recorded(rows, resource):
        _suspend(rows, resource)


def unit_reconciled(lease: RowLease[GpuUnit], resource: Manifest) -> None:
    """Copy the resource that a reconciler read or wrote into its row, if the row is older."""
    if lease.row.resource_version < version_number(resource["metadata"]["resourceVersion"]):
        unit_recorded(lease.guarded(), resource)
    elif lease.row.is_suspended != _is_suspended(resource):
        _suspend(lease.guarded(), resource)


def unit_ending(rows: QuerySet[GpuUnit], left: str = "") -> None:
    """Mark a guarded row as ending: its resource is deleted, but its GPUs are not released yet.

    `left` is a clause that names the remaining objects. If it is empty, an existing message is
    kept.
    """
    message = f"{ENDING_MESSAGE} The platform waits because {left}." if left else ENDING_MESSAGE
    _end(rows if left else rows.filter(resource_gone_at__isnull=True), message, is_awaited=True)


def unit_gone(rows: QuerySet[GpuUnit], successor: Manifest | None) -> None:
    """Close a guarded row after a fresh read found neither its resource nor any of its objects.

    `successor` is the resource with the same name that was found instead, if there is one.
    """
    with transaction.atomic():
        _end(rows.exclude(phase=UnitPhase.TERMINATING), "", is_awaited=False)
        rows.filter(resource_gone_at__isnull=False).update(message="")
        UNIT_MIRROR.gone(rows, successor)


def unit_adopted(resource: Manifest, operation: Operation | None, **columns: Any) -> int | None:
    """Create the row of a resource whose row was lost; return the id of the row.

    Returns `None` if another row has the name. Called only by `manage.py recover`.
    """
    tenant = operation.tenant if operation else None
    return UNIT_MIRROR.adopted(resource, {"tenant": tenant, "operation": operation, **columns})


def spec_columns(spec: Manifest) -> dict[str, Any]:
    """Return the database columns that are derived from a spec."""
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
    """Write `is_suspended` to the row if the row is a copy of exactly this resource version."""
    version = version_number(resource["metadata"]["resourceVersion"])
    is_suspended = _is_suspended(resource)
    same = rows.filter(resource_version=version, deleted_at__isnull=True)
    same.exclude(is_suspended=is_suspended).update(is_suspended=is_suspended)


def _is_suspended(resource: Manifest) -> bool:
    return field(resource, "spec", "suspend") is True or is_start_void(resource)


def _discovered(resource: Manifest) -> Mapping[str, Any] | None:
    is_stock = role_of(resource["metadata"]["namespace"]) == UnitRole.STOCK
    return discovered_columns(resource, is_left=is_unit_leftover, is_single=not is_stock)


def _end(rows: QuerySet[GpuUnit], message: str, *, is_awaited: bool) -> None:
    """Set guarded rows to the phase `Terminating`, with the message.

    Rows that have the phase and the message are not written. `is_awaited` is true if objects of
    the resource still exist.
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
        append_history([GpuUnit(pk=id_, **summary) for id_ in changed], None)


UNIT_MIRROR: Final = Mirror(
    GpuUnit,
    phases=UnitPhase.values,
    columns=_columns,
    discovered=_discovered,
    changed=append_change,
)
