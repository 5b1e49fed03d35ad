"""Rows for display: no decision reads them, and all of them have a short retention."""

from typing import ClassVar, Final

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

KEPT_RUNS: Final = 20
"""Number of runs of each schedule that are kept."""


class RunOutcome(models.TextChoices):
    """Outcome of a run of a periodic task."""

    SUCCEEDED = "Succeeded", "Succeeded"
    FAILED = "Failed", "Failed"


class TaskRun(models.Model):
    """One run of a schedule's task, recorded by the worker; the newest runs are kept."""

    task_id = models.CharField(max_length=64, unique=True, help_text="Celery's id of the message.")
    schedule = models.CharField(max_length=200, help_text="Name of the schedule that sent it.")
    started_at = models.DateTimeField(help_text="When a worker started it.")
    ended_at = models.DateTimeField(
        null=True, blank=True, help_text="When it ended; empty: it runs, or its worker was killed."
    )
    outcome = models.CharField(
        max_length=16, choices=RunOutcome.choices, blank=True, help_text="Outcome of the run."
    )
    message = models.CharField(
        max_length=300, blank=True, help_text="The exception that it raised."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, outcome="")
                | Q(ended_at__isnull=False, outcome__in=RunOutcome.values),
                name="task_run_end_says_how",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["schedule", "-started_at"], name="task_run_of_schedule"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.schedule} {self.started_at:%Y-%m-%d %H:%M:%S}"


class PlatformSample(models.Model):
    """What happened on the platform since the previous sample. Kept for two days.

    *Claim to ready* is the time from the acceptance of a unit, which claims its stock, until the
    unit was ready first: of those that became ready within the last hour, and the last day.
    """

    at = models.DateTimeField(help_text="Time up to which operations are counted.")
    seconds = models.FloatField(help_text="Seconds that the sample covers.")
    accepted = models.PositiveIntegerField(help_text="Number of accepted operations.")
    failed = models.PositiveIntegerField(help_text="Number of failed operations.")
    oldest_due_seconds = models.FloatField(
        null=True, help_text="Seconds since the oldest row is due; empty: none is due."
    )
    hour_claims = models.PositiveIntegerField(
        help_text="Units that became ready within the last hour."
    )
    hour_p50 = models.FloatField(null=True, help_text="Half of them took at most these seconds.")
    hour_p95 = models.FloatField(null=True, help_text="19 of 20 took at most these seconds.")
    day_claims = models.PositiveIntegerField(
        help_text="Units that became ready within the last day."
    )
    day_p50 = models.FloatField(null=True, help_text="Half of them took at most these seconds.")
    day_p95 = models.FloatField(null=True, help_text="19 of 20 took at most these seconds.")

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["at"], name="platform_sample_at"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S}"


class CapacitySnapshot(models.Model):
    """The one row with the latest capacity, which beat counts for the pages."""

    SINGLETON: ClassVar[int] = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    at = models.DateTimeField(db_default=Now(), help_text="When it was stored.")
    document = models.JSONField(help_text="A `samples.capacity.Capacity`.")

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=Q(id=1), name="capacity_snapshot_is_one_row"),
        ]

    @override
    def __str__(self) -> str:
        return "capacity"
