"""Computes the decayed use of all tenants, which the capacity queue reads."""

from typing import Final

from django.db import connection

HORIZON: Final = 20.0
"""The multiple of `tau` after which use counts no more: a fraction of 2e-9 of it is left."""

# The integral of exp(-(now - t) / tau) over each interval, multiplied by its GPUs. A statement
# that computes all values again cannot drift, and does not write twice.
_UPDATE: Final = """
INSERT INTO usage_tenantdecay (tenant_id, gpu_seconds, at)
SELECT i.tenant_id,
       sum(i.gpus * %(tau)s * (
           exp(-extract(epoch FROM now() - u.until)::float8 / %(tau)s)
           - exp(-extract(epoch FROM now() - GREATEST(
                 i.started_at, now() - make_interval(secs => %(horizon)s)))::float8 / %(tau)s))),
       now()
FROM usage_usageinterval i
CROSS JOIN LATERAL (
    SELECT COALESCE(i.ended_at, LEAST(i.seen_at, i.finished_at)) AS until) u
WHERE i.kind = 'gpu' AND u.until > i.started_at
  AND (i.ended_at IS NULL OR i.ended_at > now() - make_interval(secs => %(horizon)s))
GROUP BY i.tenant_id
ON CONFLICT (tenant_id) DO UPDATE SET gpu_seconds = excluded.gpu_seconds, at = excluded.at
"""


def decays_update(tau: float) -> None:
    """Compute the decayed GPU-seconds of each tenant with use at this time.

    `tau` is the time in seconds after which a fraction of 1/e still counts. A tenant without use
    within `HORIZON` times `tau` has no row.
    """
    with connection.cursor() as cursor:
        cursor.execute(_UPDATE, {"tau": tau, "horizon": HORIZON * tau})
