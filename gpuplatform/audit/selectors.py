"""Queries of the audit log."""

from collections.abc import Iterator
from typing import Final

from django.db import connection
from django.db.models import QuerySet

from gpuplatform.audit.models import AuditEntry

EXPORT_ROWS: Final = 1_000
"""Number of entries that an export reads with one statement."""

MAX_COUNTED: Final = 100_000
"""Maximum number of unsealed entries that are counted."""

# The subquery reads the newest seal; without one, all entries are unsealed.
_UNSEALED: Final = """
WITH last AS (
    SELECT floor_id, last_xact, last_id, highest_id FROM audit_auditseal
    ORDER BY number DESC LIMIT 1),
place AS (
    SELECT floor_id, last_xact, last_id FROM last
    UNION ALL SELECT 0, 0, 0 WHERE NOT EXISTS (SELECT FROM last)),
unsealed AS (
    SELECT e.at FROM audit_auditentry e, place
    WHERE (e.xact, e.id) > (place.last_xact, place.last_id) AND e.id > place.floor_id
    ORDER BY e.xact, e.id LIMIT %s)
SELECT count(*), COALESCE(extract(epoch FROM now() - min(at)), 0) FROM unsealed
"""


def unsealed() -> tuple[int, float]:
    """Return the number of unsealed entries, at most `MAX_COUNTED`, and the age of the oldest."""
    with connection.cursor() as cursor:
        cursor.execute(_UNSEALED, [MAX_COUNTED])
        number, seconds = cursor.fetchone()
        return int(number), max(float(seconds), 0.0)


def export(rows: QuerySet[AuditEntry]) -> Iterator[AuditEntry]:
    """Yield entries, oldest first. Entries that are inserted after its start are not included.

    Each read is a separate statement, so that a slow reader holds no transaction open.
    """
    newest = rows.order_by("-pk").values_list("pk", flat=True).first()
    last = 0
    while newest is not None and last < newest:
        found = list(rows.filter(pk__gt=last, pk__lte=newest).order_by("pk")[:EXPORT_ROWS])
        yield from found
        if len(found) < EXPORT_ROWS:
            return
        last = found[-1].pk
