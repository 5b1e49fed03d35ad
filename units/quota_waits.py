"""Finds the requests for capacity that wait because of the limits of their tenants.

Nothing is stored: the limits and the use of a tenant can change at any time.
"""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import Q

from gpuplatform.tenancy.resources import Resource, spec_resource
from units.gpu_usage import counted_sql
from units.models import CapacityRequest, GpuUnit

_BARRED: Final = f"""
WITH limited AS (
    SELECT r.id, r.tenant_id, r.unit_id, r.operation_id, r.spec_name, r.count * spec.gpu AS gpus,
           l.resource, l.hard
    FROM units_capacityrequest r
    JOIN inventory_gpuspec spec ON spec.name = r.spec_name AND spec.gpu > 0
    JOIN tenancy_tenantlimit l ON l.tenant_id = r.tenant_id
        AND l.resource IN (%(gpus)s, %(of_spec)s || r.spec_name)
    WHERE r.phase = 'Open' AND {{condition}}
),
counted AS ({counted_sql("ARRAY(SELECT tenant_id FROM limited)")})
SELECT DISTINCT id, unit_id, operation_id
FROM limited
WHERE gpus > hard - COALESCE((
    SELECT sum(used) FROM counted
    WHERE counted.tenant_id = limited.tenant_id
      AND (limited.resource = %(gpus)s OR counted.spec_name = limited.spec_name)
), 0)
"""  # noqa: S608 - constants


class _Barred(NamedTuple):
    """A request that waits because of a limit."""

    number: int
    unit: int
    operation: int


def _barred(condition: str, **values: Any) -> list[_Barred]:
    """Return the open requests that match a condition in SQL and wait because of a limit."""
    used = {"gpus": Resource.GPUS.value, "of_spec": spec_resource("")}
    with connection.cursor() as cursor:
        cursor.execute(_BARRED.format(condition=condition), used | values)
        return [_Barred(*row) for row in cursor.fetchall()]


def requests_barred(requests: Collection[CapacityRequest]) -> set[int]:
    """Return the ids of the open requests whose tenant may not have their GPUs now."""
    if not requests:
        return set()
    found = _barred("r.id = ANY(%(requests)s)", requests=[row.pk for row in requests])
    return {one.number for one in found}


def units_barred(units: Collection[GpuUnit]) -> set[int]:
    """Return the ids of units whose request waits because of a limit.

    `units` are rows of `units_live`. All units that a waiting group has to create are included.
    """
    waiting = [row for row in units if row.waits_since is not None]
    if not waiting:
        return set()
    found = _barred(
        "(r.unit_id = ANY(%(units)s) OR r.operation_id = ANY(%(operations)s))",
        units=[row.pk for row in waiting],
        operations=[row.operation_id for row in waiting if not row.uid and row.operation_id],
    )
    barred, operations = {one.unit for one in found}, {one.operation for one in found}
    return {
        row.pk
        for row in waiting
        if row.pk in barred or (not row.uid and row.operation_id in operations)
    }


def barred_condition() -> Q:
    """Return the condition of the units whose request waits because of a limit."""
    found = _barred("true")
    of_group = Q(operation__in=[one.operation for one in found], uid="")
    return Q(pk__in=[one.unit for one in found]) | of_group
