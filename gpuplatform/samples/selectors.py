"""Reading what was kept."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db.models import Window
from django.db.models.functions import RowNumber
from pydantic import ValidationError

from gpuplatform.samples.capacity import CapacitySeen
from gpuplatform.samples.models import KEPT_RUNS, CapacitySnapshot, TaskRun


def runs_of(schedules: Sequence[str]) -> Mapping[str, Sequence[TaskRun]]:
    """Return the newest runs of each schedule, newest first: one query."""
    newest_first = Window(RowNumber(), partition_by="schedule", order_by="-started_at")
    ranked = TaskRun.objects.filter(schedule__in=schedules).annotate(rank=newest_first)
    runs: dict[str, list[TaskRun]] = {}
    for run in ranked.filter(rank__lte=KEPT_RUNS).order_by("schedule", "rank"):
        runs.setdefault(run.schedule, []).append(run)
    return runs


def capacity_seen() -> tuple[datetime | None, CapacitySeen | None]:
    """Return the capacity as it was last seen, and when; None before it was, and if unreadable."""
    snapshot = CapacitySnapshot.objects.filter(pk=CapacitySnapshot.SINGLETON).first()
    if snapshot is None:
        return None, None
    try:
        return snapshot.at, CapacitySeen.model_validate(snapshot.document)
    except ValidationError:
        return snapshot.at, None  # Of a release that tells it otherwise; the next sample is ours.
