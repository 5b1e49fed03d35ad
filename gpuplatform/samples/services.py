"""Stores and deletes samples and runs. The only writer of the rows of this app."""

from datetime import timedelta
from typing import Final

from django.db.models import Q, Window
from django.db.models.functions import Now, RowNumber

from gpuplatform.samples.capacity import Capacity
from gpuplatform.samples.models import (
    KEPT_RUNS,
    CapacitySnapshot,
    PlatformSample,
    RunOutcome,
    TaskRun,
)

RUN_RETENTION: Final = timedelta(days=30)
"""Retention of runs, including runs of deleted schedules."""

SAMPLE_RETENTION: Final = timedelta(days=2)
"""Retention of samples: twice the period that the overview displays."""

_MESSAGE_LENGTH: Final = 300


def run_began(task_id: str, *, schedule: str) -> None:
    """Record that a worker started a periodic task. If it is redelivered, it starts again."""
    TaskRun.objects.bulk_create(
        [TaskRun(task_id=task_id, schedule=schedule[:200], started_at=Now())],
        update_conflicts=True,
        unique_fields=["task_id"],
        update_fields=["started_at"],
    )


def run_ended(task_id: str, error: BaseException | None = None) -> None:
    """Record that a periodic task ended. `error` is the exception of a failed task."""
    outcome = RunOutcome.SUCCEEDED if error is None else RunOutcome.FAILED
    message = "" if error is None else _text_of(error)
    open_run = TaskRun.objects.filter(task_id=task_id, ended_at__isnull=True)
    open_run.update(ended_at=Now(), outcome=outcome, message=message)


def runs_prune() -> int:
    """Delete all but the newest runs of each schedule, and return the number of deleted runs."""
    newest_first = Window(RowNumber(), partition_by="schedule", order_by="-started_at")
    ranked = TaskRun.objects.annotate(rank=newest_first)
    old = Q(rank__gt=KEPT_RUNS) | Q(started_at__lt=Now() - RUN_RETENTION)
    ids = list(ranked.filter(old).order_by().values_list("pk", flat=True))
    return TaskRun.objects.filter(pk__in=ids).delete()[0]


def capacity_store(capacity: Capacity) -> None:
    """Replace the stored capacity."""
    CapacitySnapshot.objects.bulk_create(
        [
            CapacitySnapshot(
                id=CapacitySnapshot.SINGLETON, at=Now(), document=capacity.model_dump(mode="json")
            )
        ],
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=["at", "document"],
    )


def samples_prune() -> int:
    """Delete samples after their retention, and return the number of deleted samples."""
    return PlatformSample.objects.filter(at__lt=Now() - SAMPLE_RETENTION).delete()[0]


def _text_of(error: BaseException) -> str:
    text = str(error).replace("\x00", "") or type(error).__name__
    return " ".join(text.split())[:_MESSAGE_LENGTH]
