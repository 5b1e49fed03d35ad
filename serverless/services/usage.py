"""Computes the hourly usage records of invocations.

An invocation has no interval: its row contains the times of its run, so that a repeated
computation has the same result. The hour in which it ended contains its count and the seconds of
its last run on a worker. An invocation that no worker started is not counted. The rows exist
longer than their records remain unsealed.
"""

from typing import Final

from gpuplatform.usage.models import UsageKind
from gpuplatform.usage.services.records import records_store

# The subject is the name of the function, which a tenant can use again after a deletion.
_COMPUTED: Final = """
SELECT date_trunc('hour', i.completed_at, 'UTC') AS hour, i.tenant_id, 'invocation' AS kind,
       '' AS spec_name, f.request_id AS subject, f.request_id AS subject_name, '' AS product,
       '' AS resource_name, 0 AS gpus,
       floor(1000 * sum(GREATEST(
           extract(epoch FROM i.completed_at - i.attempted_at), 0)))::bigint AS milliseconds,
       0::bigint AS gpu_milliseconds, 0::bigint AS cpu_milliseconds,
       0::bigint AS memory_mib_seconds, count(*) AS count, false AS is_estimated
FROM serverless_invocation i JOIN serverless_function f ON f.id = i.function_id
WHERE i.completed_at >= %(since)s AND i.attempted_at IS NOT NULL
GROUP BY 1, 2, f.request_id
"""


def invocation_usage_update() -> None:
    """Compute the records of invocations of all hours that are not sealed."""
    records_store(UsageKind.INVOCATION, _COMPUTED)
