"""Counts the GPUs of tenants, for their limits and for the order of the queue.

A unit counts the larger of two numbers, never their sum: the GPUs of the stock that its open
operation has claimed, and the GPUs of its pods until they were observed absent (`gpus_seen`),
whether its row is closed or not. A request that waits for stock has not claimed any and does not
count.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from django.db import connection
from django.db.models import Q

from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.tenancy.quota import Usage, UsageQuery, usage_query
from gpuplatform.tenancy.resources import Resource, spec_resource
from units.makers import GROUP_CREATE_KIND
from units.models import GpuUnit
from units.phases import UnitRole
from units.void_starts import START_KIND

CLAIMING: Final = ("unit.create", START_KIND, GROUP_CREATE_KIND)
"""The kinds of operation whose claims are for units of the tenant of the operation."""


def _literals(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


_COUNTED: Final = f"""
WITH reserved AS (
    SELECT o.tenant_id, COALESCE(o.object_row, -o.id) AS unit, s.spec_name, sum(s.gpu) AS gpus
    FROM operations_operation o
    JOIN units_gpuunit s ON s.claimed_by_id = o.id
    LEFT JOIN units_capacityrequest r ON r.operation_id = o.id AND r.phase = 'Open'
    WHERE o.tenant_id = ANY({{tenants}})
      AND o.phase IN ({_literals(OPEN_PHASES)}) AND o.kind IN ({_literals(CLAIMING)})
      AND (r.id IS NULL OR o.kind = '{GROUP_CREATE_KIND}')
    GROUP BY 1, 2, 3
), seen AS (
    SELECT tenant_id, id AS unit, spec_name, gpus_seen AS gpus,
           is_suspended OR deletion_requested_at IS NOT NULL AS is_ending
    FROM units_gpuunit
    WHERE gpus_seen > 0 AND role = 'active' AND tenant_id = ANY({{tenants}})
)
SELECT tenant_id, spec_name,
       sum(greatest(COALESCE(seen.gpus, 0), COALESCE(reserved.gpus, 0))) AS used,
       COALESCE(sum(seen.gpus) FILTER (WHERE is_ending AND reserved.gpus IS NULL), 0) AS releasing,
       COALESCE(sum(greatest(COALESCE(seen.gpus, 0), COALESCE(reserved.gpus, 0)))
                FILTER (WHERE unit = {{unit}}), 0) AS own
FROM seen FULL JOIN reserved USING (tenant_id, unit, spec_name)
GROUP BY tenant_id, spec_name
"""  # noqa: S608 - constants
"""A claimed row whose resource is deleted counts until its operation waits for other stock. While
it waits, a group keeps its other claims."""

_UNITS: Final = {Resource.UNITS: Q(), Resource.WORKERS: Q(spec__has_key="serverless")}
"""The conditions of the units that are counted. The workers of functions are units, too."""


def counted_sql(tenants: str, *, unit: str = "0") -> str:
    """Return the statement that counts the GPUs of tenants by GPU spec.

    The arguments are SQL: the array of the ids of the tenants, and the id of a unit whose part is
    counted separately, in addition.
    """
    return _COUNTED.format(tenants=tenants, unit=unit)


_OF_UNIT: Final = counted_sql("%(tenants)s", unit="%(unit)s")
_USED: Final = f"""
WITH counted AS ({counted_sql("%s")})
SELECT tenant_id, '{spec_resource("")}' || spec_name, used, releasing FROM counted
UNION ALL
SELECT tenant_id, '{Resource.GPUS}', sum(used), sum(releasing) FROM counted GROUP BY 1
"""  # noqa: S608 - constants


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
        name = resource.removeprefix(spec_resource(""))
        return Usage(self.used[name], self.releasing[name])


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
        cursor.execute(_OF_UNIT, {"tenants": wanted, "unit": unit})
        for tenant, spec_name, used, releasing, own in cursor.fetchall():
            count = found[tenant]
            count.used[spec_name] += int(used)
            count.releasing[spec_name] += int(releasing)
            count.own += int(own)
    return found


def units_used(tenants: Collection[int]) -> list[UsageQuery]:
    """Return the queries for the use of GPUs, units and workers."""
    wanted = sorted(tenants)
    return [
        UsageQuery(_USED, [wanted, wanted]),
        *(units_counted(tenants, resource) for resource in _UNITS),
    ]


def units_counted(tenants: Collection[int], resource: Resource) -> UsageQuery:
    """Return the query for the use of units, workers of functions included, or of workers."""
    rows = GpuUnit.objects.filter(
        _UNITS[resource], role=UnitRole.ACTIVE, tenant__in=tenants, deleted_at__isnull=True
    )
    return usage_query(rows, resource, releasing=Q(deletion_requested_at__isnull=False))
