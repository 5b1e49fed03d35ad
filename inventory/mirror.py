"""Copying `StockPool` resources into their rows. Called by the controller and the reconcilers.

The mirror only copies, and never an older copy over a newer one. It deletes nothing on its own: a
resource that seems gone is marked due, and the reconciler's fresh read decides.
"""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from gpuplatform.kube.client import Listing
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.selectors import is_leftover, operation_of
from gpuplatform.reconciliation.mirror import Mirror, count, said_phase
from inventory.models import StockPool
from inventory.phases import PoolPhase


def pool_observed(resource: Manifest) -> int | None:
    """Copy a resource that was seen; return the number of its row if there is something to do."""
    return _MIRROR.observed(resource)


def pool_copied(resource: Manifest) -> int | None:
    """Copy a resource of which only the status changed that its planner wrote."""
    return _MIRROR.copied(resource)


def pools_listed(listing: Listing) -> list[int]:
    """Copy a complete list; return the numbers of rows with something to do.

    A row that the list does not have is marked due if the list is not older than the row.
    """
    return _MIRROR.listed(listing)


def pool_marked(namespace: str, name: str) -> int | None:
    """Mark the pool of that name due, since something it owns changed; return its number."""
    return _MIRROR.marked(namespace, name)


def pool_recorded(rows: QuerySet[StockPool], resource: Manifest) -> None:
    """Copy a fresh read into a guarded row."""
    _MIRROR.recorded(rows, resource)


def pool_gone(rows: QuerySet[StockPool], successor: Manifest | None) -> None:
    """Close a guarded row whose resource a fresh read did not find.

    `successor` is the resource of the same name that was found instead, if any.
    """
    _MIRROR.gone(rows, successor)


def pool_reopened(resource: Manifest) -> bool:
    """Open the row of a pool that a restored cluster brought back; say whether it could be."""
    return _MIRROR.reopened(resource, pool_gone)


def spec_columns(spec: Manifest) -> dict[str, Any]:
    """Return the columns that repeat the spec."""
    return {
        "spec": spec,
        "spec_name": str(field(spec, "specName") or "")[:63],
        "desired_replicas": count(spec, "replicas"),
    }


def _columns(resource: Manifest) -> dict[str, Any]:
    return {
        **spec_columns(resource.get("spec") or {}),
        "available_replicas": count(resource, "status", "available"),
        "allocated_replicas": count(resource, "status", "allocated"),
        "service_name": str(field(resource, "status", "serviceName") or "")[:63],
    }


def _phase(resource: Manifest) -> str:
    return said_phase(resource, tuple(PoolPhase.values), otherwise=PoolPhase.PENDING.value)


def _discovered(resource: Manifest) -> Mapping[str, Any] | None:
    operation = operation_of(resource)
    if operation is not None and operation.phase in OPEN_PHASES:
        return None  # Its success records the UID.
    if is_leftover(resource, operation):
        return None
    if operation is not None and operation.object_uid != resource["metadata"]["uid"]:
        operation = None  # A person's copy bears the marks of the original.
    return {"tenant": operation.tenant if operation else None, "operation": operation}


_MIRROR = Mirror(StockPool, _phase, _columns, _discovered)
