"""The usage of tenants: their units and the GPUs that these hold."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from django.db.models import Count, Q, Sum

from units.models import RELEASED, GpuUnit
from units.phases import UnitPhase, UnitRole


@dataclass(slots=True)
class TenantUsage:
    """The number of units of a tenant, and of the GPUs that they hold."""

    units: int = 0
    failed: int = 0
    gpus: Counter[str] = field(default_factory=Counter)
    """The number of GPUs by resource."""


def usage_by_tenant(tenants: Collection[int]) -> dict[int, TenantUsage]:
    """Return the usage of each tenant that has units, by the id of the tenant."""
    live = GpuUnit.objects.filter(
        deleted_at__isnull=True, role=UnitRole.ACTIVE, tenant__in=tenants
    )
    rows = (
        live.order_by("tenant")
        .values("tenant", "resource_name")
        .annotate(
            units=Count("id"),
            failed=Count("id", filter=Q(phase=UnitPhase.FAILED)),
            gpus=Sum("gpu", filter=~RELEASED, default=0),
        )
    )
    found: dict[int, TenantUsage] = {}
    for row in cast("Iterable[dict[str, Any]]", rows):
        usage = found.setdefault(row["tenant"], TenantUsage())
        usage.units += row["units"]
        usage.failed += row["failed"]
        usage.gpus[row["resource_name"]] += row["gpus"]
    return found


def gpus_by_tenant() -> dict[tuple[str, str], int]:
    """Return the number of GPUs that units hold, by the name of the tenant and the resource."""
    running = GpuUnit.objects.filter(
        deleted_at__isnull=True, role=UnitRole.ACTIVE, tenant__isnull=False
    )
    rows = running.exclude(RELEASED).order_by("tenant__name")
    held = rows.values_list("tenant__name", "resource_name").annotate(Sum("gpu"))
    return {(str(tenant), resource): gpus for tenant, resource, gpus in held}
