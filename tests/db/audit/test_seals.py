"""Entries are sealed once, in the order of their transactions, and the chain shows each change."""

from functools import partial
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from gpuplatform.audit.core.chain import Break, Fault
from gpuplatform.audit.models import AuditEntry, AuditSeal
from gpuplatform.audit.selectors import unsealed
from gpuplatform.audit.services import seals
from gpuplatform.audit.services.seals import entries_prune, entries_seal
from gpuplatform.audit.services.verification import chain_breaks
from tests.db.audit.chain import inserted, open_transaction, seal_all, tampered
from tests.fakes.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def sealed() -> list[int]:
    """Return the ids of all sealed entries in the sealed order."""
    rows = AuditSeal.objects.order_by("number").values_list("entry_ids", flat=True)
    return [entry for ids in rows for entry in ids]


def test_the_entries_are_sealed_in_order_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seals, "BATCH", 2)
    ids = [inserted(f"unit-{n}") for n in range(5)]

    assert seal_all() == 5
    assert seal_all() == 0

    assert sealed() == ids
    assert list(AuditSeal.objects.values_list("number", flat=True)) == [1, 2, 3]
    assert unsealed() == (0, 0.0)
    assert list(chain_breaks()) == []


def test_an_entry_of_an_open_transaction_is_not_skipped() -> None:
    first = inserted("before")
    with open_transaction(partial(inserted, "slow")):
        later = inserted("later")

        entries_seal()

        assert later not in sealed()
        assert unsealed()[0] >= 1
    seal_all()

    slow = AuditEntry.objects.get(object_name="slow").pk
    assert sealed() == [first, slow, later]
    assert list(chain_breaks()) == []


def test_the_entry_of_a_transaction_that_is_rolled_back_is_missing_without_a_break() -> None:
    with transaction.atomic():
        inserted("lost")
        transaction.set_rollback(True)
    kept = inserted("kept")

    seal_all()

    assert sealed() == [kept]
    assert list(chain_breaks()) == []


def test_concurrent_writers_and_seals_seal_each_entry_once() -> None:
    def write(worker: int) -> None:
        for n in range(10):
            inserted(f"unit-{worker}-{n}")

    def seal(_: int) -> None:
        for _round in range(10):
            entries_seal()

    jobs = [partial(write, n) for n in range(4)] + [partial(seal, n) for n in range(3)]

    assert at_once(jobs) == [None] * 7
    seal_all()

    assert sorted(sealed()) == sorted(AuditEntry.objects.values_list("pk", flat=True))
    assert len(sealed()) == 40
    places = dict(AuditEntry.objects.values_list("pk", "xact"))
    assert [(places[one], one) for one in sealed()] == sorted(
        (xact, entry) for entry, xact in places.items()
    )
    assert list(chain_breaks()) == []


def test_entries_are_sealed_after_a_copy_to_a_server_with_lower_transaction_ids() -> None:
    first = inserted("first")
    seal_all()
    waiting = inserted("waiting")
    tampered("UPDATE audit_auditentry SET xact = xact + 1000000000")
    tampered("UPDATE audit_auditseal SET last_xact = last_xact + 1000000000")
    later = inserted("later")

    seal_all()

    assert sealed() == [first, waiting, later]
    last = inserted("last")
    seal_all()
    assert sealed() == [first, waiting, later, last]
    assert list(chain_breaks()) == []


TAMPERED = [
    ("UPDATE audit_auditentry SET actor = 'nobody' WHERE id = %s", Fault.CHANGED),
    ("UPDATE audit_auditentry SET at = at + interval '1 s' WHERE id = %s", Fault.CHANGED),
    ("UPDATE audit_auditentry SET changes = '[]' WHERE id = %s", Fault.CHANGED),
    ("DELETE FROM audit_auditentry WHERE id = %s", Fault.MISSING),
]


@pytest.mark.parametrize(("statement", "fault"), TAMPERED)
def test_a_changed_or_removed_entry_is_found(
    statement: str, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    inserted("a")
    entry = inserted("b")
    tampered('UPDATE audit_auditentry SET changes = \'[{"field": "gpu"}]\'')
    seal_all()
    inserted("c")
    seal_all()

    tampered(statement, entry)

    assert list(chain_breaks()) == [Break(1, entry, fault)]
    with pytest.raises(CommandError):
        call_command("verify_audit")
    assert capsys.readouterr().out == f"Seal 1, entry {entry}: {fault.value}\n"


def test_exchanged_entries_are_found() -> None:
    first, second = inserted("a"), inserted("b")
    seal_all()

    for old, new in ((first, -1), (second, first), (-1, second)):
        tampered("UPDATE audit_auditentry SET id = %s WHERE id = %s", new, old)

    assert list(chain_breaks()) == [
        Break(1, first, Fault.CHANGED),
        Break(1, second, Fault.CHANGED),
    ]


def test_an_inserted_entry_is_found() -> None:
    inserted("a")
    seal_all()
    forged = inserted("forged")
    tampered("UPDATE audit_auditentry SET xact = 1 WHERE id = %s", forged)

    assert list(chain_breaks()) == [Break(2, forged, Fault.INSERTED)]


def test_a_removed_seal_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b", "c"):
        inserted(name)
        seal_all()
    call_command("verify_audit")
    newest = capsys.readouterr().out.split()[-1]
    assert newest.startswith("3:")

    tampered(
        "DELETE FROM audit_auditentry WHERE id = ANY (%s)", AuditSeal.objects.get(pk=2).entry_ids
    )
    tampered("DELETE FROM audit_auditseal WHERE number = 2")
    assert next(chain_breaks()) == Break(3, None, Fault.SEAL_MISSING)

    tampered(
        "DELETE FROM audit_auditentry WHERE id = ANY (%s)", AuditSeal.objects.get(pk=3).entry_ids
    )
    tampered("DELETE FROM audit_auditseal WHERE number = 3")
    assert list(chain_breaks()) == []  # Only a copy of the digest shows that the end was removed.
    with pytest.raises(CommandError):
        call_command("verify_audit", seal=newest)
    assert "does not exist" in capsys.readouterr().out


def aged(number: int, days: int) -> None:
    """Make a seal and its entries older, and chain all seals again."""
    seal = AuditSeal.objects.get(pk=number)
    interval = f"{days} days"
    tampered(
        "UPDATE audit_auditentry SET at = at - %s::interval WHERE id = ANY (%s)",
        interval,
        seal.entry_ids,
    )
    tampered(
        "UPDATE audit_auditseal SET newest_at = newest_at - %s::interval WHERE number = %s",
        interval,
        number,
    )


def test_the_retention_deletes_old_seals_and_the_chain_remains_verifiable(settings: Any) -> None:
    settings.AUDIT_RETENTION_DAYS = 400
    for name in ("old", "older than the limit of the database", "young"):
        inserted(name)
    seals_of = [inserted(f"more-{n}") for n in range(2)]
    tampered("UPDATE audit_auditentry SET at = at - interval '401 days' WHERE object_name = 'old'")
    seal_all()
    assert entries_prune() == 0  # The seal has a young entry.
    for _round in range(2):
        inserted("next")
        seal_all()
    aged(1, 402)

    number = entries_prune()

    assert number == 5
    assert not AuditEntry.objects.filter(pk__in=seals_of).exists()
    assert list(AuditSeal.objects.order_by("number").values_list("number", flat=True)) == [2, 3]
    assert list(chain_breaks()) == []
    seal_all()
    assert list(chain_breaks()) == []

    tampered("DELETE FROM audit_auditseal WHERE number = 2")

    assert Fault.SEAL_MISSING in {one.fault for one in chain_breaks()}


def test_an_old_seal_after_a_young_one_is_kept(settings: Any) -> None:
    settings.AUDIT_RETENTION_DAYS = 400
    for name in ("old", "young", "old again"):
        inserted(name)
        seal_all()
    aged(1, 402)
    aged(3, 402)

    assert entries_prune() == 1
    assert list(AuditSeal.objects.order_by("number").values_list("number", flat=True)) == [2, 3]


def test_the_retention_has_a_lower_limit(settings: Any) -> None:
    settings.AUDIT_RETENTION_DAYS = 1
    inserted("a")
    seal_all()
    aged(1, 20)

    assert entries_prune() == 0
    assert AuditSeal.objects.count() == 1
