"""Reads the tenants of a queue with the values on which its order depends.

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
from units.gpu_usage import COUNTED, counted_values

_TENANTS: Final = f"""
WITH counted AS ({COUNTED}),
held AS (
    SELECT tenant_id, sum(used)::bigint AS total,
           COALESCE(sum(used) FILTER (WHERE spec_name = %(spec_name)s), 0)::bigint AS of_spec
    FROM counted GROUP BY tenant_id
)
SELECT t.id, t.weight, t.phase = %(active)s, decay.gpu_seconds, decay.at,
       COALESCE(held.total, 0), whole.hard,
       COALESCE(held.total, 0) - COALESCE(held.of_spec, 0) + of_spec.hard
FROM tenancy_tenant t
LEFT JOIN held ON held.tenant_id = t.id
LEFT JOIN usage_tenantdecay decay ON decay.tenant_id = t.id
LEFT JOIN tenancy_tenantlimit whole ON whole.tenant_id = t.id AND whole.resource = %(gpus)s
LEFT JOIN tenancy_tenantlimit of_spec
    ON of_spec.tenant_id = t.id AND of_spec.resource = %(of_spec)s
WHERE t.id = ANY(%(tenants)s)
ORDER BY t.id
"""  # noqa: S608 - constants
"""The last two columns are the numbers of all GPUs that the tenant may have, with further ones of
the GPU spec, because of its limit of GPUs and because of its limit of the GPU spec."""


def queue_tenants(tenants: Collection[int], spec_name: str) -> dict[int, QueueTenant]:
    """Return the tenants with the values on which the order depends, by id. Runs one query.

    The limit of a tenant is the number of GPUs that it may have with further ones of the GPU spec.
    """
    if not tenants:
        return {}
    now = clock.now()
    values: dict[str, Any] = {
        **counted_values(tenants),
        "spec_name": spec_name,
        "active": TenantPhase.ACTIVE.value,
        "gpus": Resource.GPUS.value,
        "of_spec": spec_resource(spec_name),
    }
    with connection.cursor() as cursor:
        cursor.execute(_TENANTS, values)
        return {
            tenant: QueueTenant(
                weight=weight,
                usage=0.0 if at is None else decayed(gpu_seconds, at, now, TAU_SECONDS),
                held=held,
                limit=min((one for one in limits if one is not None), default=None),
                is_active=is_active,
            )
            for tenant, weight, is_active, gpu_seconds, at, held, *limits in cursor.fetchall()
        }
