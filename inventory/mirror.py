"""Copies `StockPool` resources into their rows. Used by the controller and the reconcilers."""

from typing import Any, Final

from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.discovery import discovered_columns
from gpuplatform.reconciliation.mirror import Mirror, count
from inventory.models import StockPool
from inventory.phases import PoolPhase


def spec_columns(spec: Manifest) -> dict[str, Any]:
    """Return the database columns that are derived from a spec."""
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


POOL_MIRROR: Final = Mirror(
    StockPool, phases=PoolPhase.values, columns=_columns, discovered=discovered_columns
)
