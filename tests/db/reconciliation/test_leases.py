"""Row leases: one worker at a time, and no change is lost between two workers."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings

from gpuplatform.process_local import ProcessLocal
from gpuplatform.reconciliation import leases
from gpuplatform.reconciliation.leases import RowLease, claim, mark_changed, mark_due, renewing
from inventory.models import StockPool
from tests.factories.inventory import pool_row
from tests.fakes.threads import DEADLINE_SECONDS, at_once

COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)


def row_due() -> StockPool:
    return pool_row(due_at=Now())


def claimed(row: StockPool) -> RowLease[StockPool]:
    lease = claim(StockPool.objects.all(), row.pk)
    assert lease is not None
    return lease


@pytest.mark.django_db
def test_a_claim_holds_the_row() -> None:
    row = row_due()

    assert claimed(row).row.pk == row.pk
    assert claim(StockPool.objects.all(), row.pk) is None


@pytest.mark.django_db
@pytest.mark.parametrize("due_at", [None, "2999-01-01T00:00:00Z"])
def test_a_row_that_is_not_due_is_not_claimed(due_at: str | None) -> None:
    row = pool_row(due_at=due_at)

    assert claim(StockPool.objects.all(), row.pk) is None


@COMMITTING
def test_of_many_concurrent_workers_one_claims_the_row() -> None:
    row = row_due()

    results = at_once([lambda: claim(StockPool.objects.all(), row.pk)] * 16)

    assert sum(isinstance(result, RowLease) for result in results) == 1
    assert sum(result is None for result in results) == 15


@pytest.mark.django_db
def test_an_expired_lease_is_claimed_again_and_its_late_record_is_dropped() -> None:
    row = row_due()
    first = claimed(row)
    StockPool.objects.update(lease_expires_at=Now() - timedelta(seconds=1))

    second = claimed(row)

    assert first.guarded().update(message="late") == 0
    assert second.guarded().update(message="in time") == 1
    assert StockPool.objects.get().message == "in time"


@pytest.mark.django_db
def test_a_mark_makes_a_row_due_and_increments_its_sequence() -> None:
    row = pool_row(due_at=None)

    assert mark_due(StockPool.objects.filter(pk=row.pk)) == 1

    row.refresh_from_db()
    assert row.due_seq == 1
    assert row.due_at is not None


@COMMITTING
def test_a_lease_is_renewed_while_the_work_runs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LEASE_SECONDS = 0.6
    monkeypatch.setattr(leases, "RENEWALS_PER_LEASE", 3)
    monkeypatch.setattr(leases, "_RENEWALS", ProcessLocal(leases._Renewals))
    row = row_due()
    lease = claimed(row)
    before = lease.row.lease_expires_at

    with renewing(lease):
        renewed = _until(lambda: StockPool.objects.filter(lease_expires_at__gt=before).exists())

    assert renewed
    assert lease.token not in leases._RENEWALS.get().held


@COMMITTING
def test_a_lost_lease_is_not_renewed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.LEASE_SECONDS = 0.6
    monkeypatch.setattr(leases, "RENEWALS_PER_LEASE", 3)
    monkeypatch.setattr(leases, "_RENEWALS", ProcessLocal(leases._Renewals))
    row = row_due()
    lost = claimed(row)
    StockPool.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    claimed(row)
    StockPool.objects.update(lease_expires_at="2026-01-01T00:00:00Z", failures=F("failures"))

    with renewing(lost):
        renewed = _until(
            lambda: StockPool.objects.filter(lease_expires_at__gt=Now()).exists(), seconds=0.6
        )

    assert not renewed


def _until(happened: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> bool:
    """Poll the condition with real time, even if a test replaces the clock."""
    waiting, rounds = threading.Event(), int(seconds / 0.05)
    for _ in range(rounds):
        if happened():
            return True
        waiting.wait(0.05)
    connection.ensure_connection()
    return False


@pytest.mark.django_db
def test_only_the_first_of_several_marks_is_returned() -> None:
    row = pool_row(due_at=None)
    rows = StockPool.objects.filter(pk=row.pk)

    assert mark_changed(rows) == [row.pk]
    assert mark_changed(rows) == [], "the first hint is still on its way"
    lease = claimed(row)
    assert mark_changed(rows) == [], "the end of the run sends a hint"
    row.refresh_from_db()
    assert row.due_seq == lease.row.due_seq + 1


@pytest.mark.django_db
def test_a_mark_of_a_later_row_or_an_expired_lease_needs_a_message() -> None:
    row = row_due()
    rows = StockPool.objects.filter(pk=row.pk)
    claimed(row)
    rows.update(lease_expires_at=Now() - timedelta(seconds=1), due_at=Now() + timedelta(seconds=9))

    assert mark_changed(rows) == [row.pk]
