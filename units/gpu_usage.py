"""Counts the GPUs of tenants, for their limits and for the order of the queue.

A unit counts the larger of two numbers, never their sum: the GPUs of the stock that its open
operation has claimed, and the GPUs of its pods until they were observed absent (`gpus_seen`),
whether its row is closed or not. A request that waits for stock has not claimed any and does not
count.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connection
from django.db.models import Count, Q

from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.tenancy.quota import Usage
from gpuplatform.tenancy.resources import Resource, spec_resource
from units.makers import GROUP_CREATE_KIND
from units.models import GpuUnit
from units.phases import UnitRole
from units.void_starts import START_KIND

CLAIMING: Final = ("unit.create", START_KIND, GROUP_CREATE_KIND)
"""The kinds of operation whose claims are for units of the tenant of the operation."""

_COUNTED: Final = """
WITH reserved AS (
    SELECT o.tenant_id, COALESCE(o.object_row, -o.id) AS unit, s.spec_name, sum(s.gpu) AS gpus
    FROM operations_operation o
    JOIN units_gpuunit s ON s.claimed_by_id = o.id
    LEFT JOIN units_capacityrequest r ON r.operation_id = o.id AND r.phase = 'Open'
    WHERE o.tenant_id = ANY({tenants}) AND o.phase = ANY(%(phases)s) AND o.kind = ANY(%(kinds)s)
      AND (r.id IS NULL OR o.kind = %(group)s)
    GROUP BY 1, 2, 3
), seen AS (
    SELECT tenant_id, id AS unit, spec_name, gpus_seen AS gpus,
           is_suspended OR deletion_requested_at IS NOT NULL AS is_ending
    FROM units_gpuunit
    WHERE gpus_seen > 0 AND role = 'active' AND tenant_id = ANY({tenants})
)
SELECT tenant_id, spec_name,
       sum(greatest(COALESCE(seen.gpus, 0), COALESCE(reserved.gpus, 0))) AS used,
       COALESCE(sum(seen.gpus) FILTER (WHERE is_ending AND reserved.gpus IS NULL), 0) AS releasing,
       COALESCE(sum(greatest(COALESCE(seen.gpus, 0), COALESCE(reserved.gpus, 0)))
                FILTER (WHERE unit = %(unit)s), 0) AS own
FROM seen FULL JOIN reserved USING (tenant_id, unit, spec_name)
GROUP BY tenant_id, spec_name
"""
"""A claimed row whose resource is deleted counts until its operation waits for other stock. While
it waits, a group keeps its other claims."""


@dataclass(slots=True)
class GpuCount:
    """The GPUs that count for a tenant."""

    used: Counter[str] = field(default_factory=Counter)
    """The number by GPU spec."""
    releasing: Counter[str] = field(default_factory=Counter)
    """The part that is being released, by GPU spec."""
    own: int = 0
    """The part of one unit."""

    @property
    def total(self) -> Usage:
        """The use of the resource `gpus`."""
        return Usage(self.used.total(), self.releasing.total())

    def of(self, resource: str) -> Usage:
        """Return the use of `gpus`, or of the GPUs of a GPU spec."""
        if resource == Resource.GPUS:
            return self.total
        usages = self.by_resource()
        return usages.get(resource, Usage())

    def by_resource(self) -> dict[str, Usage]:
        """Return the use of `gpus` and of the GPUs of each GPU spec."""
        specs = {
            spec_resource(name): Usage(number, self.releasing[name])
            for name, number in self.used.items()
        }
        return {Resource.GPUS: self.total, **specs}


def counted_sql(tenants: str = "%(tenants)s") -> str:
    """Return the statement that counts the GPUs of tenants by GPU spec.

    `tenants` is the array of their ids in SQL. `counted_values` returns the values.
    """
    return _COUNTED.format(tenants=tenants)


def counted_values(tenants: Collection[int] = (), unit: int = 0) -> dict[str, Any]:
    """Return the values of `counted_sql`. `unit` is the id of a unit, or 0."""
    return {
        "tenants": sorted(tenants),
        "unit": unit,
        "phases": sorted(OPEN_PHASES),
        "kinds": list(CLAIMING),
        "group": GROUP_CREATE_KIND,
    }


def gpus_counted(tenants: Iterable[int], *, unit: int = 0) -> dict[int, GpuCount]:
    """Return the GPUs that count for tenants, by the id of the tenant.

    Args:
        tenants: The ids of the tenants.
        unit: The id of a unit whose part is returned separately, in addition.
    """
    wanted = sorted(tenants)
    found = {tenant: GpuCount() for tenant in wanted}
    if not wanted:
        return found
    with connection.cursor() as cursor:
        cursor.execute(counted_sql(), counted_values(wanted, unit))
        for tenant, spec_name, used, releasing, own in cursor.fetchall():
            count = found[tenant]
            count.used[spec_name] += int(used)
            count.releasing[spec_name] += int(releasing)
            count.own += int(own)
    return found


def units_used(tenants: Collection[int]) -> dict[int, dict[str, Usage]]:
    """Return the use of GPUs, units and workers by tenant, with two queries."""
    gpus, units = gpus_counted(tenants), units_counted(tenants)
    return {tenant: {**gpus[tenant].by_resource(), **units[tenant]} for tenant in tenants}


def units_counted(tenants: Collection[int]) -> dict[int, dict[str, Usage]]:
    """Return the use of units, workers of functions included, and of workers by tenant."""
    rows = GpuUnit.objects.filter(
        role=UnitRole.ACTIVE, tenant__in=tenants, deleted_at__isnull=True
    )
    is_worker, is_ending = Q(spec__has_key="serverless"), Q(deletion_requested_at__isnull=False)
    counts = (
        rows.order_by()
        .values_list("tenant_id")
        .annotate(
            units=Count("id"),
            units_ending=Count("id", filter=is_ending),
            workers=Count("id", filter=is_worker),
            workers_ending=Count("id", filter=is_worker & is_ending),
        )
    )
    found = {tenant: {Resource.UNITS.value: Usage()} for tenant in tenants}
    for tenant, units, units_ending, workers, workers_ending in counts:
        found[tenant] = {
            Resource.UNITS: Usage(units, units_ending),
            Resource.WORKERS: Usage(workers, workers_ending),
        }
    return found
