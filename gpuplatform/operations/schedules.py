"""Beat schedules that migrations put into the database, where operators edit them.

A migration adds a schedule once and never touches it again, so an edit stays. Called by migrations
only, with their own `apps`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.apps.registry import Apps

from gpuplatform.queueing import Queue


@dataclass(frozen=True, slots=True)
class Schedule:
    """One periodic task as it is installed."""

    name: str
    task: str
    every_seconds: int
    description: str


def add_schedules(apps: Apps, schedules: Sequence[Schedule]) -> None:
    """Put the schedules into the database, unless one of that name is there."""
    intervals = apps.get_model("django_celery_beat", "IntervalSchedule")
    tasks = apps.get_model("django_celery_beat", "PeriodicTask")
    for schedule in schedules:
        interval, _ = intervals.objects.get_or_create(
            every=schedule.every_seconds, period="seconds"
        )
        tasks.objects.get_or_create(
            name=schedule.name,
            defaults={
                "task": schedule.task,
                "interval": interval,
                "queue": Queue.PERIODIC.value,
                "expire_seconds": max(schedule.every_seconds, 60),
                "description": schedule.description,
            },
        )


def remove_schedules(apps: Apps, schedules: Sequence[Schedule]) -> None:
    """Take the schedules out again."""
    tasks = apps.get_model("django_celery_beat", "PeriodicTask")
    tasks.objects.filter(name__in=[schedule.name for schedule in schedules]).delete()
