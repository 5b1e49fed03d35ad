"""Reads the tenants of queues with the values on which their order depends.

The matcher reads them for each grant, so that one statement reads all values.
"""

from collections.abc import Collection
from typing import Any, Final

from django.db import connection

from gpuplatform import clock
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenancy.resources import Resource, spec_resource
from gpuplatform.usage.core.decay import decayed
from units.core.queue import TAU_SECONDS, QueueTenant
from units.gpu_usage import counted_sql

_TENANTS: Final = """
WITH wanted AS ({wanted}),
counted AS ({counted}),
held AS (SELECT tenant_id, sum(used)::bigint AS total FROM counted GROUP BY tenant_id)
SELECT wanted.spec_name, t.id, t.weight, t.phase = %(active)s, decay.gpu_seconds, decay.at,
       COALESCE(held.total, 0), whole.hard,
       COALESCE(held.total, 0) - COALESCE(counted.used, 0)::bigint + of_spec.hard
FROM wanted
JOIN tenancy_tenant t ON t.id = wanted.tenant_id
LEFT JOIN held ON held.tenant_id = t.id
LEFT JOIN counted ON counted.tenant_id = t.id AND counted.spec_name = wanted.spec_name
LEFT JOIN usage_tenantdecay decay ON decay.tenant_id = t.id
LEFT JOIN tenancy_tenantlimit whole ON whole.tenant_id = t.id AND whole.resource = %(gpus)s
LEFT JOIN tenancy_tenantlimit of_spec
    ON of_spec.tenant_id = t.id AND of_spec.resource = %(of_spec)s || wanted.spec_name
ORDER BY t.id
"""
"""The last two columns are the numbers of all GPUs that the tenant may have, with further ones of
the GPU spec, because of its limit of GPUs and because of its limit of the GPU spec."""

_OF_QUEUE: Final = _TENANTS.format(
    wanted="SELECT unnest(%(tenants)s::bigint[]) AS tenant_id, %(spec_name)s AS spec_name",
    counted=counted_sql("%(tenants)s"),
)
_WAITING: Final = _TENANTS.format(
    wanted="""
        SELECT DISTINCT tenant_id, spec_name FROM units_capacityrequest
        WHERE phase = 'Open' AND (%(names)s::text[] IS NULL OR spec_name = ANY(%(names)s::text[]))
    """,
    counted=counted_sql("ARRAY(SELECT tenant_id FROM wanted)"),
)


def queue_tenants(tenants: Collection[int], spec_name: str) -> dict[int, QueueTenant]:
    """Return the tenants with the values on which the order depends, by id. Runs one query.

    The limit of a tenant is the number of GPUs that it may have with further ones of the GPU spec.
    """
    if not tenants:
        return {}
    found = _read(_OF_QUEUE, {"tenants": sorted(tenants), "spec_name": spec_name})
    return found.get(spec_name, {})


def waiting_tenants(spec_names: Collection[str] | None) -> dict[str, dict[int, QueueTenant]]:
    """Return the tenants that have open requests of GPU specs, by GPU spec. Runs one query.

    `None` means all GPU specs. The values are the same as of `queue_tenants`.
    """
    names = None if spec_names is None else list(spec_names)
    return _read(_WAITING, {"names": names})


def _read(statement: str, values: dict[str, Any]) -> dict[str, dict[int, QueueTenant]]:
    now = clock.now()
    shared = {
        "active": TenantPhase.ACTIVE.value,
        "gpus": Resource.GPUS.value,
        "of_spec": spec_resource(""),
    }
    found: dict[str, dict[int, QueueTenant]] = {}
    with connection.cursor() as cursor:
        cursor.execute(statement, values | shared)
        for name, tenant, weight, is_active, gpu_seconds, at, held, *limits in cursor.fetchall():
            found.setdefault(name, {})[tenant] = QueueTenant(
                weight=weight,
                usage=0.0 if at is None else decayed(gpu_seconds, at, now, TAU_SECONDS),
                held=held,
                limit=min((one for one in limits if one is not None), default=None),
                is_active=is_active,
            )
    return found
