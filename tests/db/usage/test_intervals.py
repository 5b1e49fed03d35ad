"""Intervals are opened once, do not overlap, and charge nothing without a proof."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from gpuplatform.clock import now
from gpuplatform.usage.models import EndBasis, UsageEpoch, UsageInterval
from gpuplatform.usage.services.intervals import (
    interval_open,
    intervals_close,
    intervals_recover,
    sights_record,
)
from tests.db.usage.rows import opened, seconds, sight, use
from tests.fakes.threads import at_once

pytestmark = pytest.mark.django_db


def rows(uid: str) -> list[UsageInterval]:
    return list(UsageInterval.objects.filter(unit_uid=uid).order_by("started_at", "id"))


def test_a_second_open_of_a_source_changes_nothing() -> None:
    used = use()
    opened(used)
    before = list(UsageInterval.objects.values())

    opened(used)

    assert list(UsageInterval.objects.values()) == before


def test_an_open_closes_the_older_interval_of_the_unit_where_it_was_seen() -> None:
    used, begin = use(), now() - seconds(100)
    opened(used, begin, begin + seconds(60))
    opened(use(unit_uid=used.unit_uid))

    first, second = rows(used.unit_uid)
    assert (first.ended_at, first.end_basis) == (begin + seconds(60), EndBasis.ESTIMATED)
    assert 39 <= first.uncertain_seconds <= 60
    assert (second.part, second.ended_at) == (1, None)


def test_the_database_rejects_overlapping_intervals_of_a_unit() -> None:
    row = opened(use())
    row.pk, row.source_uid = None, "other"

    with pytest.raises(IntegrityError), transaction.atomic():
        row.save(force_insert=True)


def test_a_gap_begins_a_part_that_charges_from_the_time_of_binding() -> None:
    used, begin = use(), now() - seconds(300)
    opened(used, begin, begin + seconds(60))

    sights_record([sight(used, begin + seconds(120), begin + seconds(200), "q")])

    first, second = rows(used.unit_uid)
    assert (first.part, first.ended_at) == (1, begin + seconds(60))
    assert (second.part, second.started_at, second.seen_at, second.ended_at) == (
        2,
        begin + seconds(120),
        begin + seconds(200),
        None,
    )
    assert second.source_uid == first.source_uid


def test_a_repeated_sight_writes_and_locks_nothing() -> None:
    used, begin = use(), now() - seconds(300)
    opened(used, begin, begin + seconds(60))

    with CaptureQueriesContext(connection) as queries:
        sights_record([sight(used, begin, begin + seconds(60))])

    verbs = {query["sql"].partition(" ")[0] for query in queries}
    assert verbs <= {"SELECT", "SAVEPOINT", "RELEASE"}
    assert [query for query in queries if "FOR NO KEY" in query["sql"]] == []


def test_the_sights_of_many_units_are_one_statement() -> None:
    uses, begin = [use() for _ in range(20)], now() - seconds(300)
    for used in uses:
        opened(used, begin, begin + seconds(60))

    with CaptureQueriesContext(connection) as queries:
        sights_record([sight(used, begin, begin + seconds(90)) for used in uses])

    assert sum(query["sql"].lstrip().startswith("UPDATE") for query in queries) == 1
    assert {*UsageInterval.objects.values_list("seen_at", flat=True)} == {begin + seconds(90)}


def test_a_close_after_the_proof_of_the_end_is_exact() -> None:
    used, begin = use(), now() - seconds(300)
    opened(used, begin, begin + seconds(60))
    sights_record([sight(used, begin, begin + seconds(100), is_end=True)])
    intervals_close(used.unit_uid, used.source_uid)

    [row] = rows(used.unit_uid)
    assert (row.ended_at, row.end_basis) == (begin + seconds(100), EndBasis.OBSERVED)
    assert row.uncertain_seconds == 0


def test_a_proof_after_the_close_makes_it_exact() -> None:
    used, begin = use(), now() - seconds(300)
    opened(used, begin, begin + seconds(60))
    intervals_close(used.unit_uid, used.source_uid)
    sights_record([sight(used, begin, begin + seconds(100), is_end=True)])

    [row] = rows(used.unit_uid)
    assert (row.ended_at, row.end_basis) == (begin + seconds(100), EndBasis.OBSERVED)


def test_a_proof_never_extends_an_interval_into_the_next_one() -> None:
    used, begin = use(), now() - seconds(300)
    opened(used, begin, begin + seconds(60))
    opened(use(unit_uid=used.unit_uid), begin + seconds(80))
    before = list(UsageInterval.objects.order_by("id").values())

    sights_record([sight(used, begin, begin + seconds(100), is_end=True)])

    after = list(UsageInterval.objects.order_by("id").values())
    assert after[0] == before[0]


def test_an_absence_closes_only_the_source_that_was_read_with_it() -> None:
    used = use()
    opened(used)

    intervals_close(used.unit_uid, "another source")

    assert rows(used.unit_uid)[0].ended_at is None


def test_a_recovery_closes_what_no_unit_names_and_opens_what_runs() -> None:
    gone, kept, lost = use(), use(), use()
    begin = now() - seconds(3600)
    opened(gone, begin, begin + seconds(60))
    opened(kept, begin, begin + seconds(60))

    intervals_recover([kept, lost], {kept.source_uid, lost.source_uid})

    assert rows(gone.unit_uid)[0].ended_at == begin + seconds(60)
    assert rows(kept.unit_uid)[0].ended_at is None
    [row] = rows(lost.unit_uid)
    assert (row.ended_at, row.seen_at) == (None, row.started_at)
    assert row.epoch_id != rows(kept.unit_uid)[0].epoch_id
    assert UsageEpoch.objects.count() == 2


def test_the_first_sight_after_a_recovery_charges_from_then() -> None:
    lost, bound = use(), now() - timedelta(days=1)
    intervals_recover([lost], {lost.source_uid})
    begun = rows(lost.unit_uid)[0].started_at

    sights_record([sight(lost, bound, now() + seconds(5))])

    [row] = rows(lost.unit_uid)
    assert row.started_at == begun
    assert row.seen_at > begun


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_concurrent_sights_and_closes_leave_one_exact_end() -> None:
    used, begin = use(), now() - seconds(300)
    opened(used, begin, begin + seconds(60))
    last = sight(used, begin, begin + seconds(100), is_end=True)

    def reopen() -> None:
        with transaction.atomic():
            interval_open(used)

    results = at_once(
        [
            lambda: intervals_close(used.unit_uid, used.source_uid),
            lambda: sights_record([last]),
            lambda: sights_record([sight(used, begin, begin + seconds(70))], may_skip=True),
            reopen,
        ]
    )

    assert results == [None] * 4
    [row] = rows(used.unit_uid)
    assert (row.ended_at, row.end_basis) == (begin + seconds(100), EndBasis.OBSERVED)
