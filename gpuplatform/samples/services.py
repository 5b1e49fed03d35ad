"""Stores and deletes samples and runs. The only writer of this app's rows."""

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
"""Retention of runs, also of deleted schedules."""

SAMPLE_RETENTION: Final = timedelta(days=2)
"""Twice the time that the overview displays."""

_MESSAGE_LENGTH: Final = 300


def run_began(task_id: str, *, schedule: str) -> None:
    """Record that a worker started a schedule's task; a redelivered task starts again."""
    TaskRun.objects.bulk_create(
        [TaskRun(task_id=task_id, schedule=schedule[:200], started_at=Now())],
        update_conflicts=True,
        unique_fields=["task_id"],
        update_fields=["started_at"],
    )


def run_ended(task_id: str, fault: BaseException | None = None) -> None:
    """Record that the task ended, and the exception that it raised."""
    outcome = RunOutcome.SUCCEEDED if fault is None else RunOutcome.FAILED
    message = "" if fault is None else _text_of(fault)
    open_run = TaskRun.objects.filter(task_id=task_id, ended_at__isnull=True)
    open_run.update(ended_at=Now(), outcome=outcome, message=message)


def runs_prune() -> int:
    """Delete all but the newest runs of each schedule; return the count."""
    newest_first = Window(RowNumber(), partition_by="schedule", order_by="-started_at")
    ranked = TaskRun.objects.annotate(rank=newest_first)
    old = Q(rank__gt=KEPT_RUNS) | Q(started_at__lt=Now() - RUN_RETENTION)
    numbers = list(ranked.filter(old).order_by().values_list("pk", flat=True))
    return TaskRun.objects.filter(pk__in=numbers).delete()[0]


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
    """Delete samples past their retention; return the count."""
    return PlatformSample.objects.filter(at__lt=Now() - SAMPLE_RETENTION).delete()[0]


def _text_of(fault: BaseException) -> str:
    text = str(fault).replace("\x00", "") or type(fault).__name__
    return " ".join(text.split())[:_MESSAGE_LENGTH]
