"""The schedules of the periodic work (django-celery-beat), editable, in our look.

Replaces the admin pages that the library registers: they rest on inline scripts and on kinds of
schedule that the platform does not use. Changes reach beat by the library's own notes of change.
"""

import json
from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
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

from gpuplatform.adminkit.actions.action import counted
from gpuplatform.adminkit.display.age import ago_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import NONE, shortened, visible
from gpuplatform.adminkit.lists.choosing import Deletion, PlatformModelAdmin
from gpuplatform.adminkit.schedules.forms import (
    CrontabForm,
    IntervalForm,
    ScheduleForm,
    TimingField,
    when_of,
)
from gpuplatform.adminkit.schedules.run_columns import RunsAdmin
from gpuplatform.queueing import enqueue_schedule


class ScheduleAdmin(RunsAdmin):
    """What runs when, and how that went."""

    form = ScheduleForm
    is_live_with_actions = True
    list_display = (
        "state",
        "name",
        "schedule_text",
        "next",
        "last_run",
        "took",
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
        ("Runs", {"fields": ("next", "runs", "newest")}),
        ("Schedule", {"fields": ("interval", "crontab", "start_time", "one_off")}),
        ("Message", {"fields": ("args", "kwargs", "queue", "expire_seconds")}),
    )
    readonly_fields = ("next", "runs", "newest")

    @override
    def get_fieldsets(self, request: HttpRequest, obj: PeriodicTask | None = None) -> Any:
        first, runs, *rest = super().get_fieldsets(request, obj)
        return [first, runs, *rest] if obj else [first, *rest]  # nothing has run yet

    @override
    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name in {"interval", "crontab"}:
            kwargs |= {"form_class": TimingField, "empty_label": "None"}
        field: Any = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(getattr(field, "widget", None), RelatedFieldWidgetWrapper):
            field.widget.can_change_related = field.widget.can_view_related = False
        return field

    @admin.display(description="State")
    def state(self, row: PeriodicTask) -> SafeString:
        """Return whether it is sent at all."""
        if row.enabled:
            return shape_badge(Shape.READY, "Enabled")
        return shape_badge(Shape.OFF, "Disabled")

    @admin.display(description="Schedule")
    def schedule_text(self, row: PeriodicTask) -> str:
        """Return when it is sent."""
        timing = row.interval or row.crontab
        return when_of(timing) if timing else str(row.solar or row.clocked or NONE)

    @admin.display(description="Sent")
    def runs(self, row: PeriodicTask) -> SafeString:
        """Return how often beat sent it, and when it wrote that down."""
        if row.last_run_at is None:
            return SafeString("not yet")
        often = counted(row.total_run_count, "time")
        return format_html("{}, as beat wrote down {}", often, ago_html(row.last_run_at))

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[PeriodicTask]:
        related = ("interval", "crontab", "solar", "clocked")
        return super().get_queryset(request).select_related(*related)

    @override
    def deletion(self, rows: Sequence[PeriodicTask]) -> Deletion:
        them = "It is" if len(rows) == 1 else "They are"
        lines = [(row.name, visible(row.description)) for row in rows]
        return Deletion(f"{them} sent no more. {_what_stops(rows)}", lines)

    @override
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[PeriodicTask]) -> None:
        super().delete_queryset(request, queryset)
        PeriodicTasks.update_changed()

    @admin.action(description="Run now", permissions=["change"])
    def run_now(
        self, request: HttpRequest, rows: QuerySet[PeriodicTask]
    ) -> HttpResponseRedirect | None:
        """Send them at once, beside what beat sends; also those that are disabled."""
        for row in rows:
            if self._send(row):
                self.log_change(request, row, "Sent by hand.")
                text, level = "sent to a worker.", messages.SUCCESS
            else:
                text, level = "the broker takes no messages. Try again later.", messages.ERROR
            self.message_user(request, f"Periodic task {visible(row.name)}: {text}", level)
        return HttpResponseRedirect(_page_of(rows)) if "from_page" in request.POST else None

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
        """Send them again."""
        self._switch(request, rows, enabled=True)

    @admin.action(description="Disable", permissions=["change"])
    def disable(self, request: HttpRequest, rows: QuerySet[PeriodicTask]) -> None:
        """Send them no more."""
        self._switch(request, rows, enabled=False)

    def _switch(
        self, request: HttpRequest, rows: QuerySet[PeriodicTask], *, enabled: bool
    ) -> None:
        names = shortened(", ".join(row.name for row in rows))
        rows.update(enabled=enabled)
        PeriodicTasks.update_changed()
        if enabled:
            self.message_user(request, f"Enabled: {names}.", messages.SUCCESS)
        else:
            text = f"Disabled: {names}. What that does is not done until it is enabled again."
            self.message_user(request, text, messages.WARNING)


def _page_of(rows: QuerySet[PeriodicTask]) -> str:
    (row,) = rows[:1]
    return reverse("admin:django_celery_beat_periodictask_change", args=[row.pk])


def _what_stops(rows: Sequence[PeriodicTask]) -> str:
    """Return which work ends with these schedules, and what could be done instead."""
    others = PeriodicTask.objects.filter(task__in=[row.task for row in rows], enabled=True)
    kept = set(others.exclude(pk__in=[row.pk for row in rows]).values_list("task", flat=True))
    stopped = [visible(row.name) for row in rows if row.task not in kept]
    work = f"Nothing else does the work of {', '.join(stopped)}: it stops. " if stopped else ""
    return (
        f"{work}A deleted schedule does not come back by itself, at the next start neither."
        " Disable it instead to stop it for a while."
    )


class TimingAdmin(PlatformModelAdmin):
    """An interval or a crontab line that schedules share."""

    is_live_with_actions = True
    list_display = ("when", "used_by")
    readonly_fields = ("used_by",)

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return super().get_readonly_fields(request, obj) if obj else ()  # nothing uses it yet

    @admin.display(description="When")
    def when(self, row: Any) -> str:
        """Return when that is."""
        return when_of(row)

    @admin.display(description="Used by")
    def used_by(self, row: IntervalSchedule | CrontabSchedule) -> str:
        """Return the names of its schedules; while there are any, it cannot be deleted."""
        return ", ".join(sorted(task.name for task in row.periodictask_set.all())) or NONE

    @override
    def deletion(self, rows: Sequence[IntervalSchedule | CrontabSchedule]) -> Deletion:
        return Deletion("No schedule uses it.", [(when_of(row), "") for row in rows])

    @override
    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Refuse what schedules share: with it they would go, too."""
        deleted, counts, lacking, _ = super().get_deleted_objects(objs, request)
        sharing = [task.name for row in objs for task in row.periodictask_set.all()]
        return deleted, counts, lacking, sorted(sharing)

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("periodictask_set")


class IntervalAdmin(TimingAdmin):
    """An interval that schedules share."""

    form = IntervalForm
    empty_text = "There are no intervals yet. Schedules share them: add one for each."


class CrontabAdmin(TimingAdmin):
    """A line of a crontab that schedules share."""

    form = CrontabForm
    empty_text = (
        "There are no crontabs. Schedules that run at a time of the day share them: add one, and"
        " choose it on the page of the schedule."
    )


def register_schedules() -> None:
    """Put our pages in place of the library's; called when all of its own are registered."""
    admin.site.unregister(
        [PeriodicTask, IntervalSchedule, CrontabSchedule, SolarSchedule, ClockedSchedule]
    )
    admin.site.register(PeriodicTask, ScheduleAdmin)
    admin.site.register(IntervalSchedule, IntervalAdmin)
    admin.site.register(CrontabSchedule, CrontabAdmin)
