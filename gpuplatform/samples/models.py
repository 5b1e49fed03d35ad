"""Models of samples and runs. They are only displayed, and have a short retention."""

from typing import ClassVar, Final

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

KEPT_RUNS: Final = 20
"""Number of runs that are kept for each schedule."""


class RunOutcome(models.TextChoices):
    """The outcome of a run of a periodic task."""

    SUCCEEDED = "Succeeded", "Succeeded"
    FAILED = "Failed", "Failed"


class TaskRun(models.Model):
    """A run of a periodic task, recorded by the worker. Only the newest runs are kept."""

    task_id = models.CharField(max_length=64, unique=True, help_text="ID of the Celery task.")
    schedule = models.CharField(
        max_length=200, help_text="Name of the schedule that sent the task."
    )
    started_at = models.DateTimeField(help_text="Time at which a worker started the task.")
    ended_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time at which the task ended. Empty if it is running or was killed.",
    )
    outcome = models.CharField(
        max_length=16, choices=RunOutcome.choices, blank=True, help_text="Outcome of the run."
    )
    message = models.CharField(
        max_length=300, blank=True, help_text="Exception that the task raised."
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
    """Statistics of the platform since the previous sample. Kept for two days.

    The columns `hour_…` and `day_…` describe the units that became ready within the last hour and
    the last day: their number and the quantiles of the time from claim to ready, in seconds.
    """

    at = models.DateTimeField(help_text="End of the period of the sample.")
    seconds = models.FloatField(help_text="Duration of the period in seconds.")
    accepted = models.PositiveIntegerField(help_text="Number of accepted operations.")
    failed = models.PositiveIntegerField(help_text="Number of failed operations.")
    oldest_due_seconds = models.FloatField(
        null=True, help_text="Seconds since the oldest due row became due. Empty if no row is due."
    )
    hour_claims = models.PositiveIntegerField(
        help_text="Number of units that became ready within the last hour."
    )
    hour_p50 = models.FloatField(null=True, help_text="Median from claim to ready in seconds.")
    hour_p95 = models.FloatField(
        null=True, help_text="95th percentile from claim to ready in seconds."
    )
    day_claims = models.PositiveIntegerField(
        help_text="Number of units that became ready within the last day."
    )
    day_p50 = models.FloatField(null=True, help_text="Median from claim to ready in seconds.")
    day_p95 = models.FloatField(
        null=True, help_text="95th percentile from claim to ready in seconds."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["at"], name="platform_sample_at"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S}"


class CapacitySnapshot(models.Model):
    """The latest capacity, in a single row. A periodic task updates it for the pages."""

    SINGLETON: ClassVar[int] = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    at = models.DateTimeField(db_default=Now(), help_text="Time at which it was stored.")
    document = models.JSONField(help_text="JSON of a `samples.capacity.Capacity`.")

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=Q(id=1), name="capacity_snapshot_is_one_row"),
        ]

    @override
    def __str__(self) -> str:
        return "capacity"
