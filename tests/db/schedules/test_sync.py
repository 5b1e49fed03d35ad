"""`sync_schedules` with a new database, edits, deletions and changes of the table."""

from collections.abc import Callable, Iterable
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from gpuplatform.schedules import sync
from gpuplatform.schedules.models import ScheduleRecord
from gpuplatform.schedules.sync import sync_schedules
from gpuplatform.schedules.table import SCHEDULES, Schedule

pytestmark = pytest.mark.django_db

SWEEP = Schedule("Sweep things", "things.sweep", 15, "Sweeps.")
PRUNE = Schedule("Prune things", "things.prune", 3600, "Prunes.")

MIGRATION = import_module("gpuplatform.schedules.migrations.0001_initial")

Release = Callable[[Iterable[Schedule]], None]


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Release:
    """`release([SWEEP])`: a release with these schedules prepares the database."""

    def prepare(schedules: Iterable[Schedule]) -> None:
        monkeypatch.setattr(sync, "SCHEDULES", tuple(schedules))
        sync_schedules()

    return prepare


def schedule(name: str = SWEEP.name) -> PeriodicTask:
    return PeriodicTask.objects.get(name=name)


def names() -> set[str]:
    return set(PeriodicTask.objects.values_list("name", flat=True))


def test_a_new_database_gets_every_schedule_of_the_table() -> None:
    assert names() == {one.name for one in SCHEDULES}
    assert set(ScheduleRecord.objects.values_list("name", flat=True)) == names()


def test_a_schedule_is_created_with_the_values_of_the_table(release: Release) -> None:
    release([SWEEP, PRUNE])

    sweep, prune = schedule(), schedule(PRUNE.name)
    assert (sweep.task, sweep.queue, sweep.description) == ("things.sweep", "periodic", "Sweeps.")
    assert (sweep.interval.every, sweep.interval.period) == (15, "seconds")
    assert (sweep.expire_seconds, prune.expire_seconds) == (60, 3600)
    assert sweep.enabled


def test_repeating_it_writes_nothing(release: Release) -> None:
    release([SWEEP, PRUNE])
    before = schedule().date_changed

    release([SWEEP, PRUNE])

    assert schedule().date_changed == before


def test_an_unedited_schedule_follows_the_table(release: Release) -> None:
    release([SWEEP])

    release([Schedule(SWEEP.name, "things.sweep_all", 30, "Sweeps more.")])

    assert schedule().task == "things.sweep_all"
    assert schedule().interval.every == 30
    assert schedule().description == "Sweeps more."


def test_an_edited_field_is_kept_and_the_others_are_updated(release: Release) -> None:
    release([SWEEP])
    PeriodicTask.objects.filter(name=SWEEP.name).update(expire_seconds=7)

    release([Schedule(SWEEP.name, SWEEP.task, 90, "Sweeps more.")])

    assert schedule().expire_seconds == 7
    assert schedule().interval.every == 90
    assert schedule().description == "Sweeps more."


def test_an_edited_interval_is_kept_even_if_the_table_changes_twice(release: Release) -> None:
    release([SWEEP])
    interval = IntervalSchedule.objects.create(every=5, period="seconds")
    PeriodicTask.objects.filter(name=SWEEP.name).update(interval=interval)

    release([Schedule(SWEEP.name, SWEEP.task, 30, "Sweeps.")])
    release([Schedule(SWEEP.name, SWEEP.task, 45, "Sweeps.")])

    assert schedule().interval.every == 5


def test_a_time_of_day_instead_of_the_interval_is_kept(release: Release) -> None:
    release([SWEEP])
    crontab = CrontabSchedule.objects.create(hour="3")
    PeriodicTask.objects.filter(name=SWEEP.name).update(interval=None, crontab=crontab)

    release([Schedule(SWEEP.name, SWEEP.task, 30, "Sweeps.")])

    assert schedule().interval is None
    assert schedule().crontab == crontab


def test_a_disabled_schedule_remains_disabled(release: Release) -> None:
    release([SWEEP])
    PeriodicTask.objects.filter(name=SWEEP.name).update(enabled=False)

    release([Schedule(SWEEP.name, SWEEP.task, 30, "Sweeps.")])

    assert not schedule().enabled


def test_a_deleted_schedule_is_not_created_again(release: Release) -> None:
    release([SWEEP])
    schedule().delete()

    release([Schedule(SWEEP.name, SWEEP.task, 30, "Sweeps.")])

    assert names() == set()


def test_a_schedule_that_was_dropped_from_the_table_is_deleted(release: Release) -> None:
    release([SWEEP, PRUNE])
    PeriodicTask.objects.filter(name=PRUNE.name).update(expire_seconds=7)

    release([SWEEP])

    assert names() == {SWEEP.name}
    assert not ScheduleRecord.objects.filter(name=PRUNE.name).exists()


def test_a_schedule_of_an_operator_is_left_alone(release: Release) -> None:
    interval = IntervalSchedule.objects.create(every=5, period="seconds")
    PeriodicTask.objects.create(name="Mine", task="things.mine", interval=interval)

    release([SWEEP])
    release([])

    assert names() == {"Mine"}


class Editor:
    """The schema editor of a migration."""

    connection = connection


@pytest.fixture
def earlier_release() -> None:
    """A database of a release whose migrations created the schedules, with two edits of it."""
    ScheduleRecord.objects.all().delete()
    recorder = MigrationRecorder(connection)
    for app, migration in MIGRATION.CREATED:
        recorder.record_applied(app, migration)
    PeriodicTask.objects.update(description="Written by a migration.")
    schedule("Sweep stock pools").delete()
    PeriodicTask.objects.filter(name="Prune samples").update(expire_seconds=7)
    MIGRATION.record_earlier_schedules(apps, Editor())


def test_edits_and_deletions_from_before_the_records_stay(earlier_release: None) -> None:
    sync_schedules()

    assert names() == {one.name for one in SCHEDULES} - {"Sweep stock pools"}
    assert schedule("Prune samples").expire_seconds == 7
    described = {one.name: one.description for one in SCHEDULES}
    assert schedule("Prune samples").description == described["Prune samples"]


def test_a_new_database_has_no_records_of_earlier_releases() -> None:
    ScheduleRecord.objects.all().delete()

    MIGRATION.record_earlier_schedules(apps, Editor())

    assert not ScheduleRecord.objects.exists()
