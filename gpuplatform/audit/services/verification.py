"""Verifies the chain of the audit log."""

from collections.abc import Iterator
from typing import Final

from django.db import connection

from gpuplatform.audit.core.chain import GENESIS, Break, Fault, Seal, entry_digest, seal_breaks
from gpuplatform.audit.exports import entry_fields
from gpuplatform.audit.models import AuditEntry, AuditSeal
from gpuplatform.audit.services.seals import ENTRY_KIND, PRUNE_VERB, PRUNED_DIGEST, PRUNED_SEAL

_INSERTED: Final = """
SELECT e.id FROM audit_auditentry e, (
    SELECT floor_id, last_xact, last_id FROM audit_auditseal ORDER BY number DESC LIMIT 1) last
WHERE (e.id <= last.floor_id OR (e.xact, e.id) <= (last.last_xact, last.last_id))
  AND e.id NOT IN (SELECT unnest(entry_ids) FROM audit_auditseal)
ORDER BY e.id
"""


def chain_breaks() -> Iterator[Break]:
    """Yield each place at which the chain is broken, from the oldest seal on."""
    number, previous = _begin()
    for row in AuditSeal.objects.order_by("number").iterator(chunk_size=10):
        seal = _seal(row)
        stored = AuditEntry.objects.filter(pk__in=seal.entries)
        entries = {one.pk: entry_digest(entry_fields(one)) for one in stored}
        yield from seal_breaks(seal, number, previous, entries)
        number, previous = seal.number + 1, seal.digest
    with connection.cursor() as cursor:
        cursor.execute(_INSERTED)
        for (entry,) in cursor.fetchall():
            yield Break(number, entry, Fault.INSERTED)


def newest_seal() -> Seal | None:
    """Return the newest seal. Nothing else proves that no newer one was removed."""
    row = AuditSeal.objects.order_by("-number").first()
    return None if row is None else _seal(row)


def is_sealed(number: int, digest: str) -> bool:
    """Return whether the seal with this number has this digest, in hexadecimal digits."""
    row = AuditSeal.objects.filter(number=number).first()
    return row is not None and bytes(row.digest).hex() == digest


def _begin() -> tuple[int, bytes]:
    """Return the number of the first seal that must exist, and the digest that it continues."""
    pruned = AuditEntry.objects.filter(object_kind=ENTRY_KIND, verb=PRUNE_VERB)
    entry = pruned.order_by("-pk").first()
    if entry is None:
        return 1, GENESIS
    values = {one["field"]: one["to"] for one in entry.changes}
    return int(values[PRUNED_SEAL]) + 1, bytes.fromhex(values[PRUNED_DIGEST])


def _seal(row: AuditSeal) -> Seal:
    digests = [bytes(one) for one in row.entry_digests]
    return Seal(row.number, row.entry_ids, digests, bytes(row.previous), bytes(row.digest))
