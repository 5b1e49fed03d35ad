"""Checks the limits of tenants for units and their GPUs.

The locks are taken in the order tenant, operation, unit, request, stock. Rules of the model of the
capacity queue: `insertfirst`, `tenantlock`, `nevertwice`, `untilabsent`, `grantquota`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from gpuplatform.errors import QuotaShortage
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenancy.quota import (
    QuotaRequest,
    Usage,
    limits_of,
    quota_check,
    quota_exceeded,
    tenant_lock,
    usage_for,
)
from gpuplatform.tenancy.resources import Resource, spec_resource
from units.gpu_usage import GpuCount, gpus_counted, units_counted


@dataclass(frozen=True, slots=True)
class GpuQuota:
    """What the limits of a tenant allow for one unit or group, while the tenant is locked."""

    operation: Operation
    limits: Mapping[str, int]
    """The limits that apply to the GPU spec. If it is empty, nothing was counted."""
    count: GpuCount

    def check(self, gpus: int) -> None:
        """Check that the unit may have `gpus` GPUs now.

        Raises:
            QuotaExceeded: If a limit does not allow it.
        """
        if shortages := self._shortages(gpus):
            raise quota_exceeded(self.operation.tenant, shortages)

    def check_size(self, gpus: int) -> None:
        """Check that the unit can ever have `gpus` GPUs.

        Raises:
            QuotaExceeded: If it needs more than a limit.
        """
        shortages = [one for one in self._shortages(gpus) if gpus > one.allowed]
        if shortages:
            raise quota_exceeded(self.operation.tenant, shortages)

    def allows(self, gpus: int) -> bool:
        """Return whether the unit may have `gpus` GPUs now."""
        return not self._shortages(gpus)

    def _shortages(self, gpus: int) -> list[QuotaShortage]:
        """Return the limits that do not allow it. The GPUs of the unit count only once."""
        further = max(gpus - self.count.own, 0)
        return [
            QuotaShortage(resource, *usage, allowed, gpus)
            for resource, allowed in self.limits.items()
            if gpus and (usage := self.count.of(resource)).used + further > allowed
        ]


def gpu_quota(
    operation: Operation, limits: Mapping[str, int], spec_name: str, *, unit: int = 0
) -> GpuQuota:
    """Return the quota for a unit or group, which remains valid until the commit.

    Args:
        operation: The operation, whose tenant is locked if its GPUs are limited.
        limits: The limits of the tenant, which no other transaction can change.
        spec_name: The name of the GPU spec.
        unit: The id of the unit if it exists: what it has counts only once.
    """
    names = (Resource.GPUS, spec_resource(spec_name))
    applying = {name: limits[name] for name in names if name in limits}
    if not applying:
        return GpuQuota(operation, applying, GpuCount())
    tenant = operation.tenant_id
    tenant_lock(tenant)
    return GpuQuota(operation, applying, gpus_counted([tenant], unit=unit)[tenant])


def check_units(operation: Operation, number: int, *, is_worker: bool = False) -> None:
    """Check that the tenant may have `number` further units, before their rows are inserted.

    Raises:
        QuotaExceeded: If a limit does not allow it.
    """
    tenant = operation.tenant

    resources = (Resource.UNITS, Resource.WORKERS) if is_worker else (Resource.UNITS,)
    requests = [
        QuotaRequest(one, number, partial(_units_used, tenant.pk, one)) for one in resources
    ]
    quota_check(tenant, operation.limits, requests)


def _units_used(tenant: int, resource: Resource) -> Usage:
    return usage_for(units_counted([tenant], resource))


def tenant_lock_for_grant(tenant: int) -> dict[str, int] | None:
    """Lock the tenant of a request before its operation, and return the limits of the tenant.

    Returns `None` if the tenant is not active (rule `phaselock`).

    A grant inserts nothing that refers to the tenant. Without the lock, a change of limits could
    be committed between the read of the limits and the grant.
    """
    return limits_of(tenant) if tenant_lock(tenant) == TenantPhase.ACTIVE else None
