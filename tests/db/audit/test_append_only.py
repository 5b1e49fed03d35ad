"""The database rejects each change of the audit log, also with raw SQL."""

import pytest
from django.db import IntegrityError, connection, transaction

from gpuplatform.audit.models import AuditEntry, AuditSeal, Outcome
from gpuplatform.audit.services.entries import Entry, entry_insert

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def entry() -> AuditEntry:
    entry_insert(Entry(outcome=Outcome.ACCEPTED, verb="create", kind="GPUUnit", name="trainer"))
    seal = {"number": 1, "newest_at": "2026-12-01T00:00:00Z", "entry_ids": [], "digest": b"1"}
    AuditSeal.objects.create(
        **seal,
        entry_digests=[],
        previous=b"0",
        last_xact=0,
        last_id=0,
        highest_id=0,
        floor_id=0,
    )
    return AuditEntry.objects.get()


@pytest.mark.parametrize("table", ["audit_auditentry", "audit_auditseal"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET {column} = {column}",
        "UPDATE {table} SET {column} = {column} WHERE false",
        "DELETE FROM {table}",
        "TRUNCATE {table}",
        "SET LOCAL gpuplatform.audit_prune = 'on'; UPDATE {table} SET {column} = {column}",
        "SET LOCAL gpuplatform.audit_prune = 'on'; TRUNCATE {table}",
    ],
)
def test_the_database_rejects_changes(table: str, statement: str) -> None:
    column = "verb" if table == "audit_auditentry" else "digest"
    before = list(AuditEntry.objects.values()), list(AuditSeal.objects.values())

    with (
        pytest.raises(IntegrityError, match="the audit log cannot be changed"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement.format(table=table, column=column))

    assert (list(AuditEntry.objects.values()), list(AuditSeal.objects.values())) == before


def test_the_way_of_the_retention_deletes_no_young_entry(entry: AuditEntry) -> None:
    with (
        pytest.raises(IntegrityError, match="the audit log cannot be changed"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute("SET LOCAL gpuplatform.audit_prune = 'on'; DELETE FROM audit_auditentry")

    assert AuditEntry.objects.get() == entry


def test_the_orm_cannot_change_an_entry(entry: AuditEntry) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        AuditEntry.objects.filter(pk=entry.pk).update(actor="nobody")
    with pytest.raises(IntegrityError), transaction.atomic():
        entry.delete()
