"""The pages of periodic tasks, intervals and crontabs of django-celery-beat.

They replace the pages of the library, which require inline scripts and offer kinds of schedule
that the platform does not use. `PeriodicTasks.update_changed` makes beat reload the schedules.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
    SolarSchedule,
)
from typing_extensions import override

from gpuplatform.adminkit.display.age import age_html, ago_html
from gpuplatform.adminkit.display.badges import enabled_badge
from gpuplatform.adminkit.display.text import NONE, counted, shortened, visible
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.adminkit.lists.journal import form_observed
from gpuplatform.adminkit.lists.model_admin import Deletion, PlatformModelAdmin, column
from gpuplatform.adminkit.schedules.forms import (
    CrontabForm,
    IntervalForm,
    ScheduleForm,
    TimingField,
    timing_text,
)
from gpuplatform.adminkit.schedules.runs import (
    next_run,
    run_badge,
    run_time,
    runs_strip,
    runs_table,
)
from gpuplatform.clock import now
from gpuplatform.queueing import enqueue_schedule
from gpuplatform.samples.models import TaskRun
from gpuplatform.samples.selectors import runs_of

SHOWN_RUNS: Final = 5
"""Number of runs that the page of a task displays initially; users can expand the others."""


def _latest(row: Any) -> TaskRun | None:
    return row.latest_runs[0] if row.latest_runs else None


def _schedule_text(row: PeriodicTask) -> str:
    timing = row.interval or row.crontab
    return timing_text(timing) if timing else str(row.solar or row.clocked or NONE)


def _last_run(row: Any) -> SafeString:
    """Return the age of the last start by a worker or, before the first one, by beat."""
    run = _latest(row)
    moment = run.started_at if run else row.last_run_at
    return age_html(moment) if moment else SafeString('<span class="none">never</span>')


class ScheduleAdmin(PlatformModelAdmin):
    """Periodic tasks with their schedules and runs."""

    form = ScheduleForm
    is_live_with_actions = True
    list_display = (
        "state",
        "name",
        "schedule_text",
        "next",
        "last_run",
        "duration",
        "result",
        "recent",
        "task",
    )
    list_display_links = ("name",)
    list_filter = ("enabled",)
    search_fields = ("name", "task")
    search_help_text = "name or task"
    ordering = ("name",)
    sortable_by = ("name", "task")
    actions = ("run_now", "enable", "disable")
    fieldsets = (
        (None, {"fields": ("name", "task", "enabled", "description")}),
        ("Runs", {"fields": ("next", "run_count", "latest")}),
        ("Schedule", {"fields": ("interval", "crontab", "start_time", "one_off")}),
        ("Message", {"fields": ("args", "kwargs", "queue", "expire_seconds")}),
    )
    readonly_fields = ("next", "run_count", "latest")

    @override
    def get_fieldsets(self, request: HttpRequest, obj: PeriodicTask | None = None) -> Any:
        first, runs, *rest = super().get_fieldsets(request, obj)
        return [first, runs, *rest] if obj else [first, *rest]  # A new task has no runs.

    @override
    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name in {"interval", "crontab"}:
            kwargs |= {"form_class": TimingField, "empty_label": "None"}
        field: Any = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(getattr(field, "widget", None), RelatedFieldWidgetWrapper):
            field.widget.can_change_related = field.widget.can_view_related = False
        return field

    state = column("State", lambda row: enabled_badge(is_enabled=row.enabled))
    schedule_text = column("Schedule", _schedule_text)
    next = column("Next run", lambda row: age_html(next_run(row, now())))
    last_run = column("Last run", _last_run)
    duration = column("Duration", lambda row: run_time(_latest(row)))
    result = column("Result", lambda row: run_badge(_latest(row)))
    recent = column("Latest runs", lambda row: runs_strip(row.latest_runs))

    @admin.display(description="Latest runs")
    def latest(self, row: PeriodicTask) -> SafeString:
        """Return the latest runs as bars and as a table, which is partly collapsed."""
        runs = runs_of([row.name]).get(row.name, ())
        if not runs:
            return SafeString("None yet.")
        first, further = runs[:SHOWN_RUNS], runs[SHOWN_RUNS:]
        parts = [runs_strip(runs), runs_table(first)]
        if further:
            folded = "<details><summary>{} more runs</summary>{}</details>"
            parts.append(format_html(folded, len(further), runs_table(further)))
        return format_html_join("", "{}", ((part,) for part in parts))

    @admin.display(description="Sent")
    def run_count(self, row: PeriodicTask) -> SafeString:
        """Return the number of times that beat sent the task, and when beat stored the number."""
        if row.last_run_at is None:
            return SafeString("never")
        times = counted(row.total_run_count, "time")
        return format_html("{} (as of {})", times, ago_html(row.last_run_at))

    @override
    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        found = runs_of([row.name for row in rows])
        for row in rows:
            row.latest_runs = found.get(row.name, ())

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[PeriodicTask]:
        related = ("interval", "crontab", "solar", "clocked")
        return super().get_queryset(request).select_related(*related)

    @override
    def deletion(self, rows: Sequence[PeriodicTask]) -> Deletion:
        others = PeriodicTask.objects.filter(task__in=[row.task for row in rows], enabled=True)
        kept = set(others.exclude(pk__in=[row.pk for row in rows]).values_list("task", flat=True))
        stopped = [visible(row.name) for row in rows if row.task not in kept]
        no_other = f" No other schedule runs {', '.join(stopped)}." if stopped else ""
        it, is_not, task = (
            ("It", "It is", "task") if len(rows) == 1 else ("They", "They are", "tasks")
        )
        return Deletion(
            f"{it} will no longer run.{no_other} {is_not} not recreated, not even on restart. To"
            f" pause the {task}, disable the {task} instead.",
            [(row.name, visible(row.description)) for row in rows],
        )

    @override
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[PeriodicTask]) -> None:
        super().delete_queryset(request, queryset)
        PeriodicTasks.update_changed()

    @admin.action(description="Run now", permissions=["change"])
    def run_now(
        self, request: HttpRequest, rows: QuerySet[PeriodicTask]
    ) -> HttpResponseRedirect | None:
        """Send the tasks immediately, even the disabled ones, in addition to their schedules."""
        for row in rows:
            if self._send(row):
                self.log_change(request, row, "Run now.")
                text, level = "sent to a worker.", messages.SUCCESS
            else:
                text, level = "the broker is unavailable. Try again later.", messages.ERROR
            self.message_user(request, f"Periodic task {visible(row.name)}: {text}", level)
        if "from_page" not in request.POST:
            return None
        return HttpResponseRedirect(page_url(rows[0]))

    @staticmethod
    def _send(row: PeriodicTask) -> bool:
        return enqueue_schedule(
            row.task,
            json.loads(row.args or "[]"),
            json.loads(row.kwargs or "{}"),
            queue=row.queue or "",
            schedule=row.name,
        )

    @admin.action(description="Enable", permissions=["change"])
    def enable(self, request: HttpRequest, rows: QuerySet[PeriodicTask]) -> None:
        """Resume the schedules of the tasks."""
        names = self._switch(rows, enabled=True)
        self.message_user(request, f"Enabled: {names}.", messages.SUCCESS)

    @admin.action(description="Disable", permissions=["change"])
    def disable(self, request: HttpRequest, rows: QuerySet[PeriodicTask]) -> None:
        """Pause the schedules of the tasks."""
        names = self._switch(rows, enabled=False)
        text = f"Disabled: {names}. Disabled tasks do not run until they are enabled."
        self.message_user(request, text, messages.WARNING)

    @staticmethod
    def _switch(rows: QuerySet[PeriodicTask], *, enabled: bool) -> str:
        names = shortened(", ".join(row.name for row in rows))
        with transaction.atomic():
            for row in rows:
                form_observed(row, "enable" if enabled else "disable", "")
            rows.update(enabled=enabled)
            PeriodicTasks.update_changed()
        return names


class TimingAdmin(PlatformModelAdmin):
    """The common part of the pages of intervals and crontabs, which periodic tasks share."""

    is_live_with_actions = True
    list_display = ("timing", "used_by")
    readonly_fields = ("used_by",)

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return super().get_readonly_fields(request, obj) if obj else ()  # No task uses a new one.

    timing = column("Schedule", timing_text)

    @admin.display(description="Used by")
    def used_by(self, row: IntervalSchedule | CrontabSchedule) -> str:
        """Return the names of the periodic tasks that use the schedule."""
        return ", ".join(sorted(task.name for task in row.periodictask_set.all())) or NONE

    @override
    def deletion(self, rows: Sequence[IntervalSchedule | CrontabSchedule]) -> Deletion:
        return Deletion("No periodic task is affected.", [(timing_text(row), "") for row in rows])

    @override
    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Protect schedules in use, because their periodic tasks would be deleted with them."""
        deleted, counts, lacking, _ = super().get_deleted_objects(objs, request)
        using = [task.name for row in objs for task in row.periodictask_set.all()]
        return deleted, counts, lacking, sorted(using)

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("periodictask_set")


class IntervalAdmin(TimingAdmin):
    """The list of intervals and their form."""

    form = IntervalForm
    empty_text = "No intervals yet. Create an interval, then select it in periodic tasks."


class CrontabAdmin(TimingAdmin):
    """The list of crontabs and their form."""

    form = CrontabForm
    empty_text = (
        "No crontabs yet. For tasks that run at fixed times, create a crontab, then select it in"
        " periodic tasks."
    )


def register_schedules() -> None:
    """Replace the pages that the library has registered."""
    admin.site.unregister(
        [PeriodicTask, IntervalSchedule, CrontabSchedule, SolarSchedule, ClockedSchedule]
    )
    admin.site.register(PeriodicTask, ScheduleAdmin)
    admin.site.register(IntervalSchedule, IntervalAdmin)
    admin.site.register(CrontabSchedule, CrontabAdmin)
