"""Copies `GPUUnit` resources of both roles into their rows.

Used by the controller and the reconcilers. The mirror never replaces a copy with an older one. If
a resource seems to be deleted, the mirror only marks the row due; a fresh read by the reconciler
decides.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce, Now

from gpuplatform.clock import parse_rfc3339
from gpuplatform.formats.names import EXTENDED_RESOURCE_MAX
from gpuplatform.formats.priority import MAX_PRIORITY
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.discovery import discovered_columns
from gpuplatform.operations.models import Operation
from gpuplatform.planning.plan import StatusSummary
from gpuplatform.planning.view import ResourceView
from gpuplatform.reconciliation.leases import RowLease, mark_changed
from gpuplatform.reconciliation.mirror import Change, Mirror, count, version_number
from gpuplatform.workloads.resources import resource_in
from gpuplatform.workloads.start_steps import steps_in
from units.core.endings import recorded_end
from units.core.groups import group_columns
from units.core.sources import source_of
from units.core.view import avoided_node_in
from units.history import append_change, append_history
from units.makers import is_made_by, is_unit_leftover
from units.models import GpuUnit
from units.phases import UnitPhase, UnitRole, role_of
from units.pods_seen import pods_absent, pods_observed
from units.void_starts import is_start_void
from units.waiting import hint_matcher

_EXIT_CODES: Final = range(-(2**31), 2**31)
"""The values that fit into the column."""

ENDING_MESSAGE: Final = "The unit is deleted. Its GPUs are released when its pods have ended."


def unit_touched(namespace: str, name: str) -> list[int]:
    """Mark a unit due because the unit or one of its objects changed.

    Consumed stock is not marked: the unit that waits for its pods closes its row.
    Returns the ids of the rows that no queued message covers yet.
    """
    named = GpuUnit.objects.filter(namespace=namespace, name=name, deleted_at__isnull=True)
    return mark_changed(named.filter(consumed_by="").exclude(uid=""))


def units_placed_marked(nodes: Sequence[str], ids: Sequence[int]) -> list[int]:
    """Mark the units due whose last known node is one of `nodes`, and the rows with these ids.

    Consumed stock is not marked. Returns the ids of the rows that no queued message covers yet.
    """
    if not nodes and not ids:
        return []
    placed = GpuUnit.objects.filter(Q(node__in=nodes) | Q(pk__in=ids), deleted_at__isnull=True)
    return mark_changed(placed.filter(consumed_by="").exclude(uid=""))


def unit_freed(namespace: str, name: str) -> list[int]:
    """Mark the consumers of a stock unit due because one of its pods ended or was deleted.

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
    if lease.row.role == UnitRole.ACTIVE:
        pods_observed(
            lease.guarded(),
            lease.row.gpus_seen,
            resource,
            is_suspended=_is_suspended(resource),
            is_ended=_end_columns(resource)["is_ended"],
        )


def unit_ending(rows: QuerySet[GpuUnit], left: str = "") -> None:
    """Mark a guarded row as ending: its resource is deleted, but its GPUs are not released yet.

    `left` is a clause that names the remaining objects. If it is empty, an existing message is
    kept.
    """
    message = f"{ENDING_MESSAGE} The platform waits because {left}." if left else ENDING_MESSAGE
    _end(rows if left else rows.filter(resource_gone_at__isnull=True), message, is_awaited=True)


def unit_gone(rows: QuerySet[GpuUnit], successor: Manifest | None) -> None:
    """Close a guarded row after a fresh read found that nothing of its resource holds a GPU.

    `successor` is the resource with the same name that was found instead, if there is one.
    """
    with transaction.atomic():
        _end(rows.exclude(phase=UnitPhase.TERMINATING), "", is_awaited=False)
        rows.filter(resource_gone_at__isnull=False).update(message="")
        pods_absent(rows)
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
        "resource_name": resource_in(spec)[:EXTENDED_RESOURCE_MAX],
        "priority": min(count(spec, "priority"), MAX_PRIORITY),
        "is_preemptible": field(spec, "preemptible") is True,
        "is_suspended": field(spec, "suspend") is True,
        **group_columns(spec),
    }


def _columns(resource: Manifest) -> dict[str, Any]:
    source = source_of(resource)
    return {
        **spec_columns(resource.get("spec") or {}),
        "role": role_of(resource["metadata"]["namespace"]),
        "is_suspended": _is_suspended(resource),
        **_end_columns(resource),
        "ready_replicas": count(resource, "status", "readyReplicas"),
        "service_name": str(field(resource, "status", "serviceName") or "")[:63],
        "access_url": str(field(resource, "status", "accessURL") or "")[:300],
        "source_name": source.name if source else "",
        "source_uid": source.uid if source else "",
        "avoided_node": avoided_node_in(field(resource, "metadata", "annotations") or {}),
        "start_steps": [step.manifest() for step in steps_in(resource.get("status"))],
        "resource_gone_at": None,
    }


def _end_columns(resource: Manifest) -> dict[str, Any]:
    """Return the columns that describe the end of the program in the current run."""
    end = recorded_end(ResourceView.of(resource))
    if end is None:
        return {"is_ended": False, "exit_code": None, "finished_at": None}
    # `None in range(…)` would compare all values of the range.
    code = None if end.exit_code is None or end.exit_code not in _EXIT_CODES else end.exit_code
    is_ended = field(resource, "status", "phase") in {UnitPhase.SUCCEEDED, UnitPhase.FAILED}
    return {"is_ended": is_ended, "exit_code": code, "finished_at": _time(end.finished_at)}


def _changed(change: Change) -> None:
    """Record a change of the phase or the reason, and have ready or released stock granted."""
    append_change(change)
    role = role_of(change.resource["metadata"]["namespace"])
    granted = UnitPhase.READY if role == UnitRole.STOCK else UnitPhase.STOPPED
    if change.summary.phase == granted:
        hint_matcher(str(field(change.resource, "spec", "specName") or ""))


def _time(text: str | None) -> datetime | None:
    with suppress(ValueError):
        return parse_rfc3339(text or "")
    return None


def _suspend(rows: QuerySet[GpuUnit], resource: Manifest) -> None:
    """Write `is_suspended` to the row if the row is a copy of exactly this resource version."""
    version = version_number(resource["metadata"]["resourceVersion"])
    is_suspended = _is_suspended(resource)
    same = rows.filter(resource_version=version, deleted_at__isnull=True)
    same.exclude(is_suspended=is_suspended).update(is_suspended=is_suspended)


def _is_suspended(resource: Manifest) -> bool:
    return field(resource, "spec", "suspend") is True or is_start_void(resource)


def _discovered(resource: Manifest) -> Mapping[str, Any] | None:
    return discovered_columns(resource, is_left=is_unit_leftover, is_own=_is_own)


def _is_own(resource: Manifest, operation: Operation) -> bool:
    """Return whether a unit belongs to the tenant of its operation. Stock has no tenant."""
    is_stock = role_of(resource["metadata"]["namespace"]) == UnitRole.STOCK
    return not is_stock and is_made_by(resource, operation)


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
    changed=_changed,
)
