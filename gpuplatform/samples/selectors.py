"""Reading what was kept."""

from collections.abc import Mapping, Sequence

from django.db.models import Window
from django.db.models.functions import RowNumber

from gpuplatform.samples.models import KEPT_RUNS, TaskRun


def runs_of(schedules: Sequence[str]) -> Mapping[str, Sequence[TaskRun]]:
    """Return the newest runs of each schedule, newest first: one query."""
    newest_first = Window(RowNumber(), partition_by="schedule", order_by="-started_at")
    ranked = TaskRun.objects.filter(schedule__in=schedules).annotate(rank=newest_first)
    runs: dict[str, list[TaskRun]] = {}
    for run in ranked.filter(rank__lte=KEPT_RUNS).order_by("schedule", "rank"):
        runs.setdefault(run.schedule, []).append(run)
    return runs
