"""Writes the table of schedules to the database, and keeps changes by operators.

A field is updated from the table if it still has the value that the platform last wrote; a field
that an operator changed is kept. A schedule that an operator deleted or renamed is not created
again. A schedule that is removed from the table is deleted.
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from gpuplatform.schedules.models import ScheduleRecord
from gpuplatform.schedules.table import SCHEDULES, Schedule

SECONDS = IntervalSchedule.SECONDS


@transaction.atomic
def sync_schedules() -> None:
    """Create, update and delete schedules according to the table. Idempotent."""
    records = {record.name: record for record in ScheduleRecord.objects.all()}
    tasks = {task.name: task for task in PeriodicTask.objects.select_related("interval")}
    for schedule in SCHEDULES:
        record, task = records.pop(schedule.name, None), tasks.get(schedule.name)
        if task is not None:
            _update(task, schedule, record.values if record else {})
        elif record is None:
            _write(PeriodicTask(name=schedule.name), _wanted(schedule))
        if record is None or record.values != _wanted(schedule):
            ScheduleRecord(name=schedule.name, values=_wanted(schedule)).save()
    PeriodicTask.objects.filter(name__in=records).delete()
    ScheduleRecord.objects.filter(name__in=records).delete()


def _update(task: PeriodicTask, schedule: Schedule, written: Mapping[str, Any]) -> None:
    current = _current(task)
    changes = {
        field: value
        for field, value in _wanted(schedule).items()
        if field in written and current[field] == written[field] != value
    }
    if changes:
        _write(task, changes)


def _wanted(schedule: Schedule) -> dict[str, Any]:
    return {
        "task": str(schedule.task),
        "every_seconds": schedule.every_seconds,
        "queue": str(schedule.queue),
        "expire_seconds": schedule.expire_seconds,
        "description": schedule.description,
    }


def _current(task: PeriodicTask) -> dict[str, Any]:
    """Return the fields of a row. `every_seconds` is `None` unless its interval is in seconds."""
    interval = task.interval
    is_in_seconds = interval is not None and interval.period == SECONDS
    return {
        "task": task.task,
        "every_seconds": interval.every if is_in_seconds else None,
        "queue": task.queue,
        "expire_seconds": task.expire_seconds,
        "description": task.description,
    }


def _write(task: PeriodicTask, values: Mapping[str, Any]) -> None:
    """Set the fields and save the row, which makes beat reload the schedules."""
    fields = dict(values)
    if (every := fields.pop("every_seconds", None)) is not None:
        task.interval = _interval(every)
    for field, value in fields.items():
        setattr(task, field, value)
    task.save()


def _interval(every_seconds: int) -> IntervalSchedule:
    intervals = IntervalSchedule.objects.filter(every=every_seconds, period=SECONDS)
    return intervals.first() or IntervalSchedule.objects.create(
        every=every_seconds, period=SECONDS
    )
