"""What the pages of the schedules show of the runs."""

from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django_celery_beat.models import PeriodicTask
from typing_extensions import override

from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.lists.choosing import PlatformModelAdmin
from gpuplatform.adminkit.schedules.next_run import next_run
from gpuplatform.adminkit.schedules.runs import run_badge, run_time, runs_strip, runs_table
from gpuplatform.clock import now
from gpuplatform.samples.models import TaskRun
from gpuplatform.samples.selectors import runs_of

SHOWN_RUNS: Final = 5


class ScheduleList(ChangeList):
    """A page of schedules with the newest runs of each."""

    @override
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)
        found = runs_of([row.name for row in rows])
        for row in rows:
            row.newest_runs = found.get(row.name, ())
        self.result_list = rows


class RunsAdmin(PlatformModelAdmin):
    """The columns and fields about runs that a page of schedules has."""

    @admin.display(description="Next")
    def next(self, row: PeriodicTask) -> SafeString:
        """Return when beat sends it next."""
        return age_html(next_run(row, now()))

    @admin.display(description="Last run")
    def last_run(self, row: Any) -> SafeString:
        """Return when a worker took it last; until one did, when beat sent it."""
        run = _newest(row)
        moment = run.started_at if run else row.last_run_at
        return age_html(moment) if moment else SafeString('<span class="none">not yet</span>')

    @admin.display(description="Took")
    def took(self, row: Any) -> str:
        """Return how long the last run took."""
        return run_time(_newest(row))

    @admin.display(description="Result")
    def result(self, row: Any) -> SafeString:
        """Return how the last run ended."""
        return run_badge(_newest(row))

    @admin.display(description="Newest runs")
    def recent(self, row: Any) -> SafeString:
        """Return the newest runs as bars: how long, and which of them failed."""
        return runs_strip(row.newest_runs)

    @admin.display(description="Newest runs")
    def newest(self, row: PeriodicTask) -> SafeString:
        """Return the newest runs: when, how long, and how they ended; most of them on demand."""
        runs = runs_of([row.name]).get(row.name, ())
        if not runs:
            return SafeString("None yet.")
        first, further = runs[:SHOWN_RUNS], runs[SHOWN_RUNS:]
        parts = [runs_strip(runs), runs_table(first)]
        if further:
            parts.append(
                format_html(
                    "<details><summary>{} further runs</summary>{}</details>",
                    len(further),
                    runs_table(further),
                )
            )
        return format_html_join("", "{}", ((part,) for part in parts))

    @override
    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return ScheduleList


def _newest(row: Any) -> TaskRun | None:
    return row.newest_runs[0] if row.newest_runs else None
