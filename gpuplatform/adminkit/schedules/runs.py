"""The runs of a periodic task: the time of the next run, and badges, bars and tables of runs."""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django_celery_beat.models import PeriodicTask

from gpuplatform.adminkit.display.age import age_html, duration
from gpuplatform.adminkit.display.badges import Shape, phase_badge, phase_shape, shape_badge
from gpuplatform.adminkit.display.text import NONE, counted, shortened
from gpuplatform.clock import now
from gpuplatform.samples.models import KEPT_RUNS, RunOutcome, TaskRun

_BAR, _STEP, _HEIGHT = 4, 5, 18
_SHORTEST, _LONGEST = 0.001, 60.0
"""The durations in seconds of the shortest and the tallest bar; the scale is logarithmic."""


def next_run(row: PeriodicTask, at: datetime) -> datetime | None:
    """Return the time after `at` at which beat sends the task next, or `None` if it is disabled.

    Beat stores the time of the last run only every few minutes, so an interval can have elapsed
    several times since the stored time.
    """
    if not row.enabled:
        return None
    start: datetime | None = row.start_time
    if start is not None and start > at:
        return start
    if row.interval is not None:
        step = timedelta(**{row.interval.period: row.interval.every})
        last: datetime = row.last_run_at or row.date_changed
        return last + step * max((at - last) // step + 1, 1)
    if row.crontab is not None:
        begin, wait, _ = row.crontab.schedule.remaining_delta(at)
        due: datetime = begin + wait
        return due
    return None


def run_time(run: TaskRun | None) -> str:
    """Return the duration of a run, or the time since its start if it is still running."""
    return NONE if run is None else duration(_seconds(run))


def run_badge(run: TaskRun | None) -> SafeString:
    """Return the outcome of a run as a badge, with the error as tooltip."""
    if run is None:
        return NONE
    if run.outcome:
        return format_html(
            '<span title="{}">{}</span>', shortened(run.message), phase_badge(run.outcome)
        )
    if _seconds(run) > settings.CELERY_TASK_TIME_LIMIT:
        return shape_badge(Shape.WAITING, "No result")
    return shape_badge(Shape.PROGRESS, "Running")


def runs_strip(runs: Sequence[TaskRun]) -> SafeString:
    """Return the runs as bars, oldest first; the height represents the duration."""
    if not runs:
        return NONE
    bars = [_bar(place, run) for place, run in enumerate(reversed(runs), KEPT_RUNS - len(runs))]
    return format_html(
        '<svg class="strip" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>',
        KEPT_RUNS * _STEP,
        _HEIGHT,
        _summary(runs),
        SafeString("".join(bars)),
    )


def runs_table(runs: Sequence[TaskRun]) -> SafeString:
    """Return the runs as a table, newest first."""
    lines = format_html_join(
        "",
        '<tr><td>{}</td><td class="num">{}</td><td>{}</td><td><bdi>{}</bdi></td></tr>',
        (
            (age_html(run.started_at), run_time(run), run_badge(run), shortened(run.message))
            for run in runs
        ),
    )
    return format_html(
        '<table class="plain runs"><thead><tr><th scope="col">Started</th>'
        '<th scope="col" class="num">Duration</th><th scope="col">Result</th>'
        '<th scope="col">Error</th></tr></thead><tbody>{}</tbody></table>',
        lines,
    )


def _seconds(run: TaskRun) -> float:
    return max(((run.ended_at or now()) - run.started_at).total_seconds(), 0.0)


def _bar(place: int, run: TaskRun) -> SafeString:
    within = min(max(_seconds(run), _SHORTEST), _LONGEST)
    part = math.log(within / _SHORTEST) / math.log(_LONGEST / _SHORTEST)
    height = round(3 + part * (_HEIGHT - 3), 1)
    shape = phase_shape(run.outcome) if run.outcome else Shape.PROGRESS
    is_failed = run.outcome == RunOutcome.FAILED
    return format_html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>',
        shape.value,
        place * _STEP,
        0 if is_failed else round(_HEIGHT - height, 1),
        _BAR,
        _HEIGHT if is_failed else height,
        f"{run.started_at:%H:%M:%S} UTC, {run_time(run)}, {run.outcome or 'Running'}",
    )


def _summary(runs: Sequence[TaskRun]) -> str:
    failed = sum(run.outcome == RunOutcome.FAILED for run in runs)
    seconds = [_seconds(run) for run in runs]
    span = f"{duration(min(seconds))} to {duration(max(seconds))}"
    return f"{counted(len(runs), 'run')}, {failed} failed, {span}"
