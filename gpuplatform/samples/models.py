"""Rows that say how things were: nobody decides by them, and all of them are forgotten soon."""

from typing import ClassVar, Final

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

KEPT_RUNS: Final = 20
"""Runs of each schedule that are kept."""


class RunOutcome(models.TextChoices):
    """How a run of periodic work ended."""

    SUCCEEDED = "Succeeded", "Succeeded"
    FAILED = "Failed", "Failed"


class TaskRun(models.Model):
    """One run of a schedule's task. Written by the edge of the tasks; the newest ones are kept."""

    task_id = models.CharField(max_length=64, unique=True, help_text="Celery's id of the message.")
    schedule = models.CharField(max_length=200, help_text="Name of the schedule that sent it.")
    started_at = models.DateTimeField(help_text="When a worker took it.")
    ended_at = models.DateTimeField(
        null=True, blank=True, help_text="When it ended; empty: it runs, or its worker died."
    )
    outcome = models.CharField(
        max_length=16, choices=RunOutcome.choices, blank=True, help_text="How it ended."
    )
    message = models.CharField(max_length=300, blank=True, help_text="What was raised.")

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
    """What happened on the platform since the sample before; taken by beat. Kept for two days.

    *Claim to ready* is the time from the acceptance of a unit, which claims its stock, until the
    unit was ready first: of those that became ready within the last hour, and the last day.
    """

    at = models.DateTimeField(help_text="Up to when jobs are counted.")
    seconds = models.FloatField(help_text="What it covers; more than that is not known.")
    accepted = models.PositiveIntegerField(help_text="Jobs that were accepted.")
    failed = models.PositiveIntegerField(help_text="Jobs that failed.")
    oldest_due_seconds = models.FloatField(
        null=True, help_text="For how long the oldest row is due; empty: none is."
    )
    hour_claims = models.PositiveIntegerField(help_text="Units ready within an hour.")
    hour_p50 = models.FloatField(null=True, help_text="Half of them took at most these seconds.")
    hour_p95 = models.FloatField(null=True, help_text="19 of 20 took at most these seconds.")
    day_claims = models.PositiveIntegerField(help_text="Units ready within a day.")
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
    """The one row with the capacity as it was last seen, counted by beat and not by pages."""

    SINGLETON: ClassVar[int] = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    at = models.DateTimeField(db_default=Now(), help_text="When it was seen.")
    document = models.JSONField(help_text="What was seen, as `samples.capacity` has it.")

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=Q(id=1), name="capacity_snapshot_is_one_row"),
        ]

    @override
    def __str__(self) -> str:
        return "capacity"
