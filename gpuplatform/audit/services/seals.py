"""Seals entries in the order of their transactions, and deletes them after their retention.

Requests insert plain entries and take no common lock. A periodic task chains the entries of all
transactions that ended before the oldest open one: no later entry can belong before them.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from gpuplatform.audit.core.chain import GENESIS, entry_digest, seal_digest
from gpuplatform.audit.exports import entry_fields
from gpuplatform.audit.models import AuditEntry, AuditSeal, Outcome
from gpuplatform.audit.services.entries import Entry, entry_insert
from gpuplatform.locks import take_turn

logger = logging.getLogger(__name__)

TURN: Final = "audit.seals"
"""The turn of the seals, so that each entry is sealed once."""

BATCH: Final = 1_000
"""Maximum number of entries of a seal."""

PRUNED_SEALS: Final = 200
"""Maximum number of seals that one transaction deletes."""

MIN_RETENTION_DAYS: Final = 30
"""Days for which the triggers of the database keep each row."""

PRUNED_SEAL: Final = "lastSeal"
PRUNED_DIGEST: Final = "digest"
"""The fields of the entry about a deletion of old entries: the last deleted seal."""

PRUNE_VERB: Final = "prune"
ENTRY_KIND: Final = "AuditEntry"
"""The kind of the object of entries about the audit log itself."""

_ENTRIES: Final = AuditEntry._meta.db_table  # noqa: SLF001 - Django's public name
_XMIN: Final = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_XMAX: Final = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_AFTER: Final = f"SELECT * FROM {_ENTRIES} WHERE id > %s AND (xact, id) > (%s, %s)"  # noqa: S608 - constants
_FINISHED: Final = f"{_AFTER} AND xact < {_XMIN} ORDER BY xact, id LIMIT %s"
_OF_BEFORE: Final = f"{_AFTER} AND xact >= {_XMAX} ORDER BY xact, id LIMIT %s"


class AuditTask(StrEnum):
    """Names of the tasks of this app."""

    SEAL = "audit.seal_entries"
    PRUNE = "audit.prune_entries"


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The place after the last sealed entry."""

    floor: int = 0
    xact: int = 0
    entry: int = 0


def entries_seal() -> int:
    """Seal all entries whose transactions and all earlier ones have ended; return their number."""
    number = 0
    while done := _seal_batch():
        number += done
    return number


def entries_prune() -> int:
    """Delete the seals whose entries are older than the retention, with these entries.

    An entry with the digest of the last deleted seal proves where the remaining chain begins.

    Returns:
        The number of deleted entries.
    """
    number = 0
    while done := _prune_batch():
        number += done
    return number


def _prune_batch() -> int:
    """Delete up to `PRUNED_SEALS` seals with their entries; return the number of entries."""
    with transaction.atomic():
        take_turn(TURN)
        kept = timedelta(days=max(settings.AUDIT_RETENTION_DAYS, MIN_RETENTION_DAYS))
        young = AuditSeal.objects.filter(newest_at__gte=Now() - kept).order_by("number")
        old = AuditSeal.objects.filter(newest_at__lt=Now() - kept).order_by("number")
        if (first := young.values_list("number", flat=True).first()) is not None:
            old = old.filter(number__lt=first)
        seals = list(old.only("number", "digest")[:PRUNED_SEALS])
        if not seals:
            return 0
        last = seals[-1]
        changes: list[dict[str, Any]] = [
            {"field": PRUNED_SEAL, "to": last.number},
            {"field": PRUNED_DIGEST, "to": bytes(last.digest).hex()},
        ]
        entry_insert(
            Entry(outcome=Outcome.ACCEPTED, verb=PRUNE_VERB, kind=ENTRY_KIND, changes=changes)
        )
        with connection.cursor() as cursor:
            cursor.execute("SELECT audit_prune(%s)", [last.number])
            return int(cursor.fetchone()[0])


def _seal_batch() -> int:
    """Seal up to `BATCH` entries; return their number."""
    with transaction.atomic():
        take_turn(TURN)
        last = AuditSeal.objects.order_by("-number").first()
        cursor, rows = _sealable(last)
        if not rows:
            return 0
        digests = [entry_digest(entry_fields(row)) for row in rows]
        ids = [row.pk for row in rows]
        previous = GENESIS if last is None else bytes(last.digest)
        number = 1 if last is None else last.number + 1
        digest = seal_digest(number, previous, digests)
        AuditSeal.objects.create(
            number=number,
            newest_at=max(row.at for row in rows),
            entry_ids=ids,
            entry_digests=digests,
            previous=previous,
            digest=digest,
            last_xact=rows[-1].xact,
            last_id=rows[-1].pk,
            highest_id=max([0 if last is None else last.highest_id, *ids]),
            floor_id=cursor.floor,
        )
    # A copy of the digest outside of the database proves later that no newer seal was removed.
    extra = {"seal": number, "digest": digest.hex(), "entries": len(ids)}
    logger.info("audit entries sealed", extra=extra)
    return len(ids)


def _sealable(last: AuditSeal | None) -> tuple[_Cursor, Sequence[AuditEntry]]:
    """Return the place after the last sealed entry, and the next entries to seal."""
    if last is None:
        cursor = _Cursor()
        return cursor, _rows(_FINISHED, cursor)
    cursor = _Cursor(last.floor_id, last.last_xact, last.last_id)
    if last.last_xact < _oldest_open():
        return cursor, _rows(_FINISHED, cursor)
    # Transaction ids have begun again: the database was copied to another server. All entries of
    # the copy belong to transactions that had ended, and all later entries have higher ids.
    if rows := _rows(_OF_BEFORE, cursor):
        return cursor, rows
    cursor = _Cursor(floor=last.highest_id)
    return cursor, _rows(_FINISHED, cursor)


def _rows(statement: str, cursor: _Cursor) -> list[AuditEntry]:
    values: Iterable[Any] = [cursor.floor, cursor.xact, cursor.entry, BATCH]
    return list(AuditEntry.objects.raw(statement, values))


def _oldest_open() -> int:
    """Return the oldest open transaction of the server, or the next one if none is open."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_XMIN}")
        return int(cursor.fetchone()[0])
