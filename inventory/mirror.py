"""Copying `StockPool` resources into their rows. Called by the controller and the reconcilers.

The mirror only copies, and never an older copy over a newer one. It deletes nothing on its own: a
resource that seems gone is marked due, and the reconciler's fresh read decides.
"""

from typing import Any, Final

from django.db.models import Case, F, QuerySet, Value, When
from django.db.models.functions import Coalesce, Now

from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.selectors import is_leftover, operation_of
from gpuplatform.reconciliation.leases import mark_due
from inventory.core.observed import condition, field, items, number
from inventory.models import StockPool
from inventory.phases import PoolPhase

_HIGHEST_COUNT: Final = 2**31 - 1
"""The highest number that a count's column holds."""


def pool_observed(resource: Manifest) -> int | None:
    """Copy a resource that was seen; return the number of its row if there is something to do."""
    metadata = resource["metadata"]
    rows = StockPool.objects.filter(uid=metadata["uid"])
    known = rows.values_list("id", "deleted_at").first()
    if known is None:
        return _pool_discovered(resource)
    number_, deleted_at = known
    if deleted_at is None and _copy(rows, resource):
        mark_due(rows)
        return int(number_)
    return None


def pools_listed(listing: Listing) -> list[int]:
    """Copy a complete list; return the numbers of rows with something to do.

    A row that the list does not have is marked due if the list is not older than the row.
    """
    due = [pool_observed(resource) for resource in listing.items]
    seen = [resource["metadata"]["uid"] for resource in listing.items]
    missing = (
        StockPool.objects.filter(
            deleted_at__isnull=True, resource_version__lte=version_number(listing.resource_version)
        )
        .exclude(uid="")
        .exclude(uid__in=seen)
    )
    lost = list(missing.values_list("id", flat=True))
    mark_due(StockPool.objects.filter(id__in=lost))
    return [row for row in due if row is not None] + lost


def pool_marked(namespace: str, name: str) -> int | None:
    """Mark the pool of that name due, since something it owns changed; return its number."""
    rows = StockPool.objects.filter(namespace=namespace, name=name, deleted_at__isnull=True)
    rows = rows.exclude(uid="")
    return rows.values_list("id", flat=True).first() if mark_due(rows) else None


def pool_recorded(rows: QuerySet[StockPool], resource: Manifest) -> None:
    """Copy a fresh read into a guarded row."""
    _copy(rows, resource)


def pool_gone(rows: QuerySet[StockPool], successor: Manifest | None) -> None:
    """Close a guarded row whose resource a fresh read did not find.

    `successor` is the resource of the same name that was found instead, if any.
    """
    closed = rows.filter(deleted_at__isnull=True).update(
        deleted_at=Now(),
        deletion_requested_at=Coalesce("deletion_requested_at", Now()),
        phase=PoolPhase.TERMINATING,
        phase_since=Now(),
        due_at=None,
    )
    if closed and successor is not None:
        pool_observed(successor)


def spec_columns(spec: Manifest) -> dict[str, Any]:
    """Return the columns that repeat the spec."""
    return {
        "spec": spec,
        "spec_name": str(field(spec, "specName") or "")[:63],
        "desired_replicas": _count(spec, "replicas"),
    }


def resource_columns(resource: Manifest) -> dict[str, Any]:
    """Return the columns that copy a resource, phase aside.

    Whatever the cluster lets a person write there, a row can hold it: one resource that it cannot
    would stop the copying of all.
    """
    resource = _storable(resource)
    ready = condition(resource, "Ready")
    unexplained = "Unknown" if observed_phase(resource) == PoolPhase.FAILED else ""
    return {
        **spec_columns(resource.get("spec") or {}),
        "uid": resource["metadata"]["uid"],
        "generation": number(resource, "metadata", "generation"),
        "observed_generation": number(resource, "status", "observedGeneration"),
        "resource_version": version_number(resource["metadata"]["resourceVersion"]),
        "reason": str(ready.get("reason") or unexplained)[:64],
        "message": str(ready.get("message") or ""),
        "conditions": items(resource, "status", "conditions"),
        "available_replicas": _count(resource, "status", "available"),
        "allocated_replicas": _count(resource, "status", "allocated"),
        "service_name": str(field(resource, "status", "serviceName") or "")[:63],
        "last_sync_at": Now(),
    }


def _count(value: Any, *path: str) -> int:
    return min(max(number(value, *path), 0), _HIGHEST_COUNT)


def _storable(value: Any) -> Any:
    """Return JSON without NUL, for which PostgreSQL has no text."""
    match value:
        case str():
            return value.replace("\x00", "\ufffd")
        case dict():
            return {_storable(key): _storable(one) for key, one in value.items()}
        case list():
            return [_storable(one) for one in value]
        case _:
            return value


def version_number(resource_version: str) -> int:
    """Return a resource version as the number that it is.

    Kubernetes declares resource versions comparable as integers (API concepts, "Resource
    versions"); a server that has others gives 0, which is never newer than anything.
    """
    return int(resource_version) if resource_version.isdecimal() else 0


def observed_phase(resource: Manifest) -> PoolPhase:
    """Return the phase that a resource's status says; `Pending` until it says one."""
    if field(resource, "metadata", "deletionTimestamp"):
        return PoolPhase.TERMINATING
    said = field(resource, "status", "phase")
    return PoolPhase(said) if said in PoolPhase.values else PoolPhase.PENDING


def _copy(rows: QuerySet[StockPool], resource: Manifest) -> int:
    """Write the copy where it is newer than what the row has; return how many rows took it."""
    columns = resource_columns(resource)
    phase = observed_phase(resource)
    if phase == PoolPhase.TERMINATING:
        columns["deletion_requested_at"] = Coalesce("deletion_requested_at", Now())
    shown = Case(
        When(deletion_requested_at__isnull=False, then=Value(PoolPhase.TERMINATING.value)),
        default=Value(phase.value),
    )
    unchanged = When(phase=shown, reason=columns["reason"], then=F("phase_since"))
    return rows.filter(
        deleted_at__isnull=True, resource_version__lt=columns["resource_version"]
    ).update(phase=shown, phase_since=Case(unchanged, default=Now()), **columns)


def _pool_discovered(resource: Manifest) -> int | None:
    """Make a row for a resource that has none, unless an operation answers for it."""
    operation = operation_of(resource)
    if operation is not None and operation.phase in OPEN_PHASES:
        return None  # Its success records the UID.
    if is_leftover(resource, operation):
        return None
    metadata = resource["metadata"]
    if operation is not None and operation.object_uid != metadata["uid"]:
        operation = None  # A person's copy bears the marks of the original.
    row = StockPool(
        namespace=metadata["namespace"],
        name=metadata["name"],
        tenant=operation.tenant if operation else None,
        operation=operation,
        phase=observed_phase(resource),
        due_at=Now(),
        **resource_columns(resource),
    )
    StockPool.objects.bulk_create([row], ignore_conflicts=True)
    made = StockPool.objects.filter(uid=metadata["uid"], deleted_at__isnull=True)
    return made.values_list("id", flat=True).first()
