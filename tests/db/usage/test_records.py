"""Hourly records are exact, recomputable until they are sealed, and corrected by new rows."""

import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Sum

from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from gpuplatform.usage.models import UsageInterval, UsageRecord
from gpuplatform.usage.selectors import overdue_seconds
from gpuplatform.usage.services.intervals import (
    intervals_close,
    intervals_recover,
    sights_record,
)
from gpuplatform.usage.services.records import records_begin_epoch, records_update
from tests.db.usage.rows import opened, seconds, sight, use

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def this_hour() -> datetime:
    return now().replace(minute=0, second=0, microsecond=0)


def values(*names: str) -> list[Any]:
    return list(UsageRecord.objects.order_by("hour", "corrects_id").values_list(*names))


def test_the_hours_of_an_interval_are_exact() -> None:
    begin = this_hour() - 3 * HOUR + seconds(1800)
    opened(use(), begin, begin + 2 * HOUR)

    records_update()

    assert values(
        "milliseconds", "gpu_milliseconds", "cpu_milliseconds", "memory_mib_seconds"
    ) == [
        (1_800_000, 3_600_000, 7_200_000, 1_843_200),
        (3_600_000, 7_200_000, 14_400_000, 3_686_400),
        (1_800_000, 3_600_000, 7_200_000, 1_843_200),
    ]


def test_a_run_without_changes_changes_nothing() -> None:
    begin = this_hour() - 3 * HOUR
    opened(use(), begin, begin + HOUR)
    records_update()
    before = list(UsageRecord.objects.values())

    assert records_update() == 0
    UsageInterval.objects.update(changed_from=begin)
    records_update()

    assert list(UsageRecord.objects.values()) == before


def test_an_unsealed_record_follows_the_interval() -> None:
    used, begin = use(), this_hour() - HOUR
    opened(used, begin, begin + seconds(600))
    records_update()
    [before] = values("pk")
    sights_record([sight(used, begin, begin + seconds(900))])

    records_update()

    assert values("pk", "milliseconds") == [(*before, 900_000)]


def test_an_hour_whose_use_vanishes_has_no_record() -> None:
    used, begin = use(), this_hour() - HOUR
    opened(used, begin, begin + HOUR + seconds(600))
    records_update()
    assert len(values("pk")) == 2

    sights_record([sight(used, begin, begin + seconds(900), is_end=True)])
    intervals_close(used.unit_uid, used.source_uid)
    records_update()

    assert values("milliseconds", "is_estimated") == [(900_000, False)]


def test_records_are_sealed_two_hours_after_their_hour() -> None:
    begin = this_hour() - 5 * HOUR
    opened(use(), begin, begin + 5 * HOUR)

    records_update()

    hours = UsageRecord.objects.filter(sealed_at__isnull=False).values_list("hour", flat=True)
    assert sorted(hours) == [begin, begin + HOUR, begin + 2 * HOUR]


@pytest.mark.parametrize("change", ["update", "delete"])
def test_the_database_rejects_a_change_of_a_sealed_record(change: str) -> None:
    begin = this_hour() - 5 * HOUR
    opened(use(), begin, begin + HOUR)
    records_update()
    rows = UsageRecord.objects.filter(sealed_at__isnull=False)

    with pytest.raises(IntegrityError), transaction.atomic():
        rows.update(milliseconds=0) if change == "update" else rows.delete()


def test_a_change_of_a_sealed_hour_is_a_correction() -> None:
    used, begin = use(), this_hour() - 5 * HOUR
    opened(used, begin, begin + seconds(600))
    records_update()
    [(first, _)] = values("pk", "milliseconds")

    for end in (900, 800):
        sights_record([sight(used, begin, begin + seconds(end), is_end=end == 800)])
        records_update()

    corrections = UsageRecord.objects.filter(corrects=first, sealed_at__isnull=False)
    assert sorted(corrections.values_list("milliseconds", flat=True)) == [-100_000, 300_000]
    total = UsageRecord.objects.aggregate(ms=Sum("milliseconds"), gpu=Sum("gpu_milliseconds"))
    assert total == {"ms": 800_000, "gpu": 1_600_000}


def test_the_records_of_a_unit_with_an_open_operation_are_not_sealed() -> None:
    used, begin = use(), this_hour() - 5 * HOUR
    opened(used, begin, begin + HOUR)
    operation = Operation.objects.create(
        tenant_id=used.tenant_id,
        operation_id="stop-1",
        kind="unit.stop",
        hash_version=1,
        object_kind="GPUUnit",
        object_name=used.unit_name,
        due_at=now(),
    )
    records_update()
    assert values("sealed_at") == [(None,)]

    Operation.objects.filter(pk=operation.pk).update(
        phase="Succeeded", due_at=None, ended_at=now()
    )
    records_update()

    assert values("sealed_at") != [(None,)]


def test_the_delay_of_the_seal_is_a_metric() -> None:
    begin = this_hour() - 5 * HOUR
    opened(use(), begin, begin + seconds(60))
    assert overdue_seconds() == 0
    UsageInterval.objects.update(changed_from=None)
    UsageRecord.objects.create(
        id=uuid.uuid4(),
        hour=begin,
        tenant_id=use().tenant_id,
        kind="gpu",
        subject="u",
        subject_name="u",
        milliseconds=1,
    )

    assert 7200 <= overdue_seconds() <= 10_800
    records_update()

    assert overdue_seconds() == 0


def test_only_the_hour_of_an_estimated_end_is_estimated() -> None:
    used, begin = use(), this_hour() - 3 * HOUR
    opened(used, begin, begin + HOUR + seconds(60))
    intervals_close(used.unit_uid)

    records_update()

    assert values("is_estimated") == [(False,), (True,)]


def test_records_after_a_recovery_have_other_ids_and_are_estimated_before_it() -> None:
    used, begin = use(), this_hour() - 5 * HOUR
    opened(used, begin, now())
    records_update()
    before = dict(UsageRecord.objects.values_list("hour", "pk"))
    sealed = {*UsageRecord.objects.filter(sealed_at__isnull=False).values_list("pk", flat=True)}

    intervals_recover([used], {used.source_uid})
    records_begin_epoch()
    records_update()

    after = dict(UsageRecord.objects.values_list("hour", "pk"))
    assert after.keys() == before.keys()
    assert {hour for hour in after if after[hour] == before[hour]} == {
        hour for hour in before if before[hour] in sealed
    }
    rows = UsageRecord.objects.exclude(pk__in=sealed)
    assert set(rows.values_list("is_estimated", flat=True)) == {True}


def test_the_sum_of_all_hours_is_the_interval() -> None:
    begin = this_hour() - 30 * HOUR + timedelta(seconds=17.25)
    end = begin + timedelta(hours=21, seconds=1234.5)
    opened(use(), begin, end)

    records_update()

    [total] = UsageRecord.objects.aggregate(Sum("milliseconds")).values()
    assert total == round((end - begin).total_seconds() * 1000)
