"""Rows that say how things were: nobody decides by them, and all of them are forgotten soon."""

from typing import ClassVar, Final

from django.db import models
from django.db.models import Q
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
