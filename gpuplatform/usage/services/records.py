"""Computes the hourly records from the intervals, seals them, and corrects sealed records.

A run computes the records of the units whose intervals have changed, from the first changed hour
on. It is repeatable: the ids of records depend on their keys, and the values only on the
intervals. Two hours after an hour has ended, its records are sealed; later changes of an interval
are inserted as corrections, which contain the difference.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction

from gpuplatform.locks import take_turn
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.usage.models import (
    SEAL_HOURS,
    UsageEpoch,
    UsageInterval,
    UsageKind,
    UsageRecord,
)
from gpuplatform.usage.services.intervals import current_epoch

TURN: Final = "usage.records"
"""The turn of the runs. Two runs that compute the same hours concurrently would both correct
them."""

BATCH: Final = 2000
"""Maximum number of intervals whose changes are applied in one transaction."""

_COLUMNS: Final = (
    "subject_name, product, resource_name, gpus, milliseconds, gpu_milliseconds, cpu_milliseconds,"
    " memory_mib_seconds, count, is_estimated"
)
_VALUES: Final = (
    "milliseconds",
    "gpu_milliseconds",
    "cpu_milliseconds",
    "memory_mib_seconds",
    "count",
)
_SUMS: Final = ", ".join(f"sum({name})::bigint AS {name}" for name in _VALUES)

# Milliseconds are rounded down. An hour is estimated if an estimated end is in it, if the unit
# was not seen until the end of the hour, or if the hour began before the database was restored.
_COMPUTED: Final = f"""
changed AS (
    SELECT * FROM unnest(%(units)s::text[], %(hours)s::timestamptz[]) AS c (unit_uid, since)
),
computed AS (
    SELECT h.hour, i.tenant_id, i.kind, i.spec_name, i.unit_uid AS subject,
           max(i.unit_name) AS subject_name, max(i.product) AS product,
           max(i.resource_name) AS resource_name, max(i.gpus) AS gpus,
           sum(t.ms)::bigint AS milliseconds, sum(t.ms * i.gpus)::bigint AS gpu_milliseconds,
           sum(t.ms * i.cpu_millis / 1000)::bigint AS cpu_milliseconds,
           sum(t.ms * i.memory_mib / 1000)::bigint AS memory_mib_seconds, 0::bigint AS count,
           bool_or(h.hour < %(restored_at)s
                   OR (i.end_basis = 'estimated' AND u.until < h.hour + interval '1 hour')
                   OR (i.ended_at IS NULL AND u.until < h.hour + interval '1 hour'
                       AND h.hour + interval '{SEAL_HOURS} hours' < now())) AS is_estimated
    FROM changed c
    JOIN usage_usageinterval i ON i.unit_uid = c.unit_uid
    CROSS JOIN LATERAL (
        SELECT COALESCE(i.ended_at, LEAST(i.seen_at, i.finished_at)) AS until) u
    CROSS JOIN LATERAL generate_series(
        date_trunc('hour', GREATEST(i.started_at, c.since), 'UTC'), u.until, interval '1 hour'
    ) AS h (hour)
    CROSS JOIN LATERAL (
        SELECT floor(1000 * extract(epoch FROM LEAST(u.until, h.hour + interval '1 hour')
                                     - GREATEST(i.started_at, h.hour)))::bigint AS ms) t
    WHERE t.ms > 0
    GROUP BY h.hour, i.tenant_id, i.kind, i.spec_name, i.unit_uid
)
"""  # noqa: S608 - constants

_UPSERT: Final = f"""
INSERT INTO usage_usagerecord (id, hour, tenant_id, kind, spec_name, subject, {_COLUMNS})
SELECT md5(concat_ws('/', %(epoch)s::text, extract(epoch FROM hour)::bigint, tenant_id, kind,
                     spec_name, subject))::uuid,
       hour, tenant_id, kind, spec_name, subject, {_COLUMNS}
FROM computed
ON CONFLICT (hour, kind, subject, spec_name, tenant_id) WHERE corrects_id IS NULL
DO UPDATE SET ({_COLUMNS}) = ROW (
    excluded.{_COLUMNS.replace(", ", ", excluded.")})
WHERE usage_usagerecord.sealed_at IS NULL
"""  # noqa: S608 - constants

_STORE: Final = f"WITH {_COMPUTED} {_UPSERT}"

_NOT_COMPUTED: Final = """
r.sealed_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM computed n
    WHERE (n.hour, n.tenant_id, n.kind, n.spec_name, n.subject)
          = (r.hour, r.tenant_id, r.kind, r.spec_name, r.subject))
"""

_REMOVE: Final = f"""
WITH {_COMPUTED}
DELETE FROM usage_usagerecord r USING changed c
WHERE r.subject = c.unit_uid AND r.kind = 'gpu' AND r.hour >= c.since AND {_NOT_COMPUTED}
"""  # noqa: S608 - constants

_CORRECT: Final = f"""
WITH {_COMPUTED},
known AS (
    SELECT hour, tenant_id, kind, spec_name, subject, {_SUMS}, count(*) AS number,
           (array_agg(id) FILTER (WHERE corrects_id IS NULL))[1] AS id,
           max(subject_name) AS subject_name, max(product) AS product,
           max(resource_name) AS resource_name, max(gpus) AS gpus
    FROM usage_usagerecord r JOIN changed c ON r.subject = c.unit_uid AND r.hour >= c.since
    WHERE r.sealed_at IS NOT NULL AND r.kind = 'gpu'
    GROUP BY hour, tenant_id, kind, spec_name, subject
)
INSERT INTO usage_usagerecord (
    id, corrects_id, sealed_at, hour, tenant_id, kind, spec_name, subject, {_COLUMNS})
SELECT md5(concat_ws('/', %(epoch)s::text, k.id, k.number))::uuid, k.id, now(),
       hour, tenant_id, kind, spec_name, subject, k.subject_name, k.product, k.resource_name,
       k.gpus, COALESCE(n.milliseconds, 0) - k.milliseconds,
       COALESCE(n.gpu_milliseconds, 0) - k.gpu_milliseconds,
       COALESCE(n.cpu_milliseconds, 0) - k.cpu_milliseconds,
       COALESCE(n.memory_mib_seconds, 0) - k.memory_mib_seconds, 0,
       COALESCE(n.is_estimated, false)
FROM known k LEFT JOIN computed n USING (hour, tenant_id, kind, spec_name, subject)
WHERE COALESCE(n.milliseconds, 0) <> k.milliseconds
   OR COALESCE(n.gpu_milliseconds, 0) <> k.gpu_milliseconds
"""  # noqa: S608 - constants

_SEAL: Final = f"""
UPDATE usage_usagerecord SET sealed_at = now()
WHERE sealed_at IS NULL AND kind = %(kind)s
  AND hour <= date_trunc('hour', now(), 'UTC') - interval '{SEAL_HOURS + 1} hours'
  AND subject <> ALL (ARRAY(
    SELECT i.unit_uid FROM operations_operation o
    JOIN usage_usageinterval i ON i.tenant_id = o.tenant_id AND i.unit_name = o.object_name
    WHERE o.phase = ANY(%(phases)s) AND o.object_kind = 'GPUUnit'))
"""  # noqa: S608 - constants


def records_update() -> int:
    """Compute the records of all changed intervals, and seal the records of past hours.

    Returns:
        The number of intervals whose changes were applied.
    """
    number = 0
    while done := _apply_changes():
        number += done
    with transaction.atomic():
        take_turn(TURN)
        _seal(UsageKind.GPU)
    return number


def records_store(kind: UsageKind, computed: str) -> None:
    """Compute the unsealed records of a kind, and seal the records of past hours.

    Args:
        kind: A kind that has no intervals.
        computed: A query of the columns of the records, from the hour `%(since)s` on.
    """
    with transaction.atomic():
        take_turn(TURN)
        values = {
            "kind": kind,
            "since": _unsealed_since(kind),
            "epoch": str(current_epoch().pk),
        }
        _execute(f"WITH computed AS ({computed}) {_UPSERT}", values)
        unsealed = f"r.kind = %(kind)s AND r.hour >= %(since)s AND {_NOT_COMPUTED}"
        remove = f"DELETE FROM usage_usagerecord r WHERE {unsealed}"  # noqa: S608 - constants
        _execute(f"WITH computed AS ({computed}) {remove}", values)
        _seal(kind)


def _unsealed_since(kind: UsageKind) -> datetime:
    """Return the first hour after all sealed records of a kind."""
    sealed = UsageRecord.objects.filter(kind=kind, sealed_at__isnull=False)
    last = sealed.order_by("-hour").values_list("hour", flat=True).first()
    return datetime.min.replace(tzinfo=UTC) if last is None else last + timedelta(hours=1)


def _seal(kind: UsageKind) -> None:
    _execute(_SEAL, {"kind": kind, "phases": sorted(OPEN_PHASES)})


def records_begin_epoch() -> None:
    """Compute all records again that are not sealed, after a recovery.

    Their ids differ from those that were exported before the database was restored.
    """
    with transaction.atomic():
        take_turn(TURN)
        unsealed = "DELETE FROM usage_usagerecord WHERE sealed_at IS NULL RETURNING subject, hour"
        with connection.cursor() as cursor:
            cursor.execute(
                f"WITH removed AS ({unsealed})"  # noqa: S608 - constants
                " UPDATE usage_usageinterval i SET changed_from = LEAST(i.changed_from, g.hour)"
                " FROM (SELECT subject, min(hour) AS hour FROM removed GROUP BY subject) g"
                " WHERE i.unit_uid = g.subject"
            )


def _apply_changes() -> int:
    """Apply the changes of at most `BATCH` intervals; return their number."""
    with transaction.atomic():
        take_turn(TURN)
        changed = UsageInterval.objects.filter(changed_from__isnull=False).order_by("unit_uid")
        locked = changed.select_for_update(no_key=True, skip_locked=True, of=("self",))[:BATCH]
        rows = list(locked.values_list("id", "unit_uid", "changed_from"))
        if not rows:
            return 0
        UsageInterval.objects.filter(pk__in=[pk for pk, *_ in rows]).update(changed_from=None)
        since: dict[str, datetime] = {}
        for _, unit, at in rows:
            if at is not None:
                since[unit] = min(since.get(unit, at), at)
        _compute(since)
    return len(rows)


def _compute(since: Mapping[str, datetime]) -> None:
    values: dict[str, Any] = {
        "units": list(since),
        "hours": [at.replace(minute=0, second=0, microsecond=0) for at in since.values()],
        "epoch": str(current_epoch().pk),
        "restored_at": _restored_at(),
    }
    _execute(_REMOVE, values)
    _execute(_CORRECT, values)
    _execute(_STORE, values)


def _restored_at() -> datetime:
    """Return the time of the last recovery; without one, a time before all records."""
    times = UsageEpoch.objects.order_by("-begun_at").values_list("begun_at", flat=True)[:2]
    return times[0] if len(times) > 1 else datetime.min.replace(tzinfo=UTC)


def _execute(statement: str, values: Mapping[str, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
