"""The schedules of the periodic work (django-celery-beat), editable, in our look.

Replaces the admin pages that the library registers: they rest on inline scripts and on kinds of
schedule that the platform does not use. Changes reach beat by the library's own notes of change.
"""

import json
from datetime import timedelta
from typing import Any, ClassVar, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django_celery_beat.admin import TaskSelectWidget
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
    SolarSchedule,
)
from typing_extensions import override

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import Shape, shape_badge
from gpuplatform.adminkit.choosing import ChoosingAdmin
from gpuplatform.adminkit.fields import moment_field
from gpuplatform.adminkit.generics import ChoiceField, ModelForm
from gpuplatform.adminkit.run_columns import RunsAdmin
from gpuplatform.adminkit.text import visible
from gpuplatform.queueing import enqueue_schedule

LEAST_SECONDS: Final = 5
"""The shortest interval: shorter ones come before the one before them is dealt with."""


def registered_tasks() -> list[tuple[str, str]]:
    """Return the tasks that workers know, as choices."""
    return [(str(name), str(name)) for name, _label in TaskSelectWidget().tasks_as_choices()]


class TimingField(ChoiceField):
    """Offers intervals, or crontabs, in words."""

    @override
    def label_from_instance(self, obj: Any) -> str:
        return _when(obj)


class ScheduleForm(ModelForm):
    """Asks for a task by name out of those that exist, and for one kind of schedule."""

    task = forms.ChoiceField(choices=registered_tasks, help_text="What is sent.")
    start_time = moment_field(
        "Nothing is sent before this time; empty: at once.", label="Not before"
    )

    class Meta:
        model = PeriodicTask
        fields = (
            "name",
            "task",
            "enabled",
            "description",
            "interval",
            "crontab",
            "start_time",
            "one_off",
            "args",
            "kwargs",
            "queue",
            "expire_seconds",
        )
        labels: ClassVar[dict[str, str]] = {
            "task": "Task",
            "interval": "Interval",
            "crontab": "Crontab",
            "start_time": "Not before",
            "one_off": "Only once",
            "args": "Arguments",
            "kwargs": "Named arguments",
            "queue": "Queue",
            "expire_seconds": "Expires after seconds",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "task": "What is sent.",
            "start_time": "Nothing is sent before this time; empty: at once. In UTC.",
            "interval": "Choose either an interval or a crontab.",
            "crontab": "Choose either an interval or a crontab.",
            "name": "What people call it.",
            "enabled": "Whether it is sent at all.",
            "description": "What it is for.",
            "one_off": "It is disabled when it was sent.",
            "args": "A JSON list.",
            "kwargs": "A JSON object.",
            "queue": "Empty: the queue of periodic work.",
            "expire_seconds": "A worker that gets it later than this throws it away.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        present = self.instance.task
        known = registered_tasks()
        if present and present not in dict(known):
            known.append((present, f"{present} (unknown to this release)"))
        self.fields["task"].choices = known  # type: ignore[attr-defined]  # fields are untyped

    def clean_interval(self) -> IntervalSchedule | None:
        """Refuse an interval that would send more than there is time for."""
        interval: IntervalSchedule | None = self.cleaned_data["interval"]
        if interval is not None:
            _check_interval(interval.every, interval.period)
        return interval

    @override
    def validate_unique(self) -> None:
        """Ask for one of the two kinds of schedule, which the model asks for among four."""
        chosen = [self.cleaned_data.get(kind) for kind in ("interval", "crontab")]
        if chosen.count(None) == 1:
            super().validate_unique()
        elif not {"interval", "crontab"} & self.errors.keys():
            self.add_error("interval", "Choose either an interval or a crontab.")

    def clean_args(self) -> str:
        """Accept a JSON list only."""
        return self._json("args", list, "a JSON list such as [1]")

    def clean_kwargs(self) -> str:
        """Accept a JSON object only."""
        return self._json("kwargs", dict, 'a JSON object such as {"limit": 1}')

    def _json(self, field: str, kind: type, what: str) -> str:
        text = str(self.cleaned_data[field])
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, kind):
            msg = f"Must be {what}."
            raise forms.ValidationError(msg)
        return text


def _check_interval(every: int, period: str) -> None:
    seconds = timedelta(**{period: every}).total_seconds()
    if seconds < LEAST_SECONDS:
        msg = f"Must be {LEAST_SECONDS} seconds or more."
        raise forms.ValidationError(msg)


class IntervalForm(ModelForm):
    """An interval that is not too short; changing it changes every schedule that shares it."""

    class Meta:
        model = IntervalSchedule
        fields = ("every", "period")
        labels: ClassVar[dict[str, str]] = {"every": "Every", "period": "Unit"}
        help_texts: ClassVar[dict[str, str]] = {
            "every": f"{LEAST_SECONDS} seconds or more. Schedules that share it change with it.",
            "period": "",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["period"].choices = IntervalSchedule.PERIOD_CHOICES  # type: ignore[attr-defined]

    @override
    def clean(self) -> dict[str, Any]:
        """Check both fields together."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if "every" in data and "period" in data:
            _check_interval(data["every"], data["period"])
        return data


class CrontabForm(ModelForm):
    """A line of a crontab; changing it changes every schedule that shares it."""

    class Meta:
        model = CrontabSchedule
        fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week", "timezone")
        labels: ClassVar[dict[str, str]] = {
            "minute": "Minute",
            "hour": "Hour",
            "day_of_month": "Day of the month",
            "month_of_year": "Month",
            "day_of_week": "Day of the week",
            "timezone": "Time zone",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "minute": "0 to 59, as 0,30 or */5; * is each one.",
            "hour": "0 to 23, as 8,20 or */6.",
            "day_of_month": "1 to 31.",
            "month_of_year": "1 to 12.",
            "day_of_week": "0 to 7: Sunday is 0 and 7, Monday is 1.",
            "timezone": "Whose clock it is.",
        }


class ScheduleAdmin(RunsAdmin):
    """What runs when, and how that went."""

    form = ScheduleForm
    is_live_with_actions = True
    list_display = (
        "state",
        "name",
        "schedule_text",
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
        ("Schedule", {"fields": ("interval", "crontab", "start_time", "one_off")}),
        ("Message", {"fields": ("args", "kwargs", "queue", "expire_seconds")}),
        ("What happened", {"fields": ("last_sent", "runs", "newest")}),
    )
    readonly_fields = ("last_sent", "runs", "newest")

    @override
    def get_fieldsets(self, request: HttpRequest, obj: PeriodicTask | None = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        return fieldsets if obj else fieldsets[:-1]  # nothing has happened yet

    @override
    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name in {"interval", "crontab"}:
            kwargs |= {"form_class": TimingField, "empty_label": "None"}
        field: Any = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(getattr(field, "widget", None), RelatedFieldWidgetWrapper):
            field.widget.can_change_related = field.widget.can_view_related = False
        return field

    @admin.display(description="Enabled")
    def state(self, row: PeriodicTask) -> SafeString:
        """Return whether it is sent at all."""
        if row.enabled:
            return shape_badge(Shape.READY, "Enabled")
        return shape_badge(Shape.OFF, "Disabled")

    @admin.display(description="Schedule")
    def schedule_text(self, row: PeriodicTask) -> str:
        """Return when it is sent."""
        timing = row.interval or row.crontab
        return _when(timing) if timing else str(row.solar or row.clocked or "—")

    @admin.display(description="Last sent")
    def last_sent(self, row: PeriodicTask) -> SafeString:
        """Return when beat sent it last."""
        return age_html(row.last_run_at)

    @admin.display(description="Sent")
    def runs(self, row: PeriodicTask) -> str:
        """Return how often beat sent it."""
        return f"{row.total_run_count} times"

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[PeriodicTask]:
        related = ("interval", "crontab", "solar", "clocked")
        return super().get_queryset(request).select_related(*related)

    @override
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[PeriodicTask]) -> None:
        super().delete_queryset(request, queryset)
        PeriodicTasks.update_changed()

    @admin.action(description="Run now", permissions=["change"])
    def run_now(self, request: HttpRequest, rows: QuerySet[PeriodicTask]) -> None:
        """Send them at once, beside what beat sends; also those that are disabled."""
        for row in rows:
            name = f"Schedule {visible(row.name)}"
            if self._send(row):
                self.log_change(request, row, "Sent by hand.")
                self.message_user(request, f"{name}: sent to a worker.", messages.SUCCESS)
            else:
                text = f"{name}: the broker takes no messages. Try again when it answers."
                self.message_user(request, text, messages.ERROR)

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
        count = rows.update(enabled=enabled)
        PeriodicTasks.update_changed()
        word = "enabled" if enabled else "disabled"
        self.message_user(request, f"Schedules {word}: {count}.", messages.SUCCESS)


def _every(time: timedelta) -> str:
    """Return an interval in its largest whole unit; empty for one of seconds."""
    for words, unit in (
        ("days", timedelta(days=1)),
        ("hours", timedelta(hours=1)),
        ("minutes", timedelta(minutes=1)),
    ):
        number = time // unit
        if time == number * unit:
            return f"every {words[:-1]}" if number == 1 else f"every {number} {words}"
    return ""


def _when(timing: Any) -> str:
    """Return an interval, or a crontab as people write it with its time zone."""
    if not isinstance(timing, CrontabSchedule):
        return _every(timedelta(**{timing.period: timing.every})) or str(timing)
    days = (timing.day_of_month, timing.month_of_year, timing.day_of_week)
    return f"{' '.join((timing.minute, timing.hour, *days))} ({timing.timezone})"


class TimingAdmin(ChoosingAdmin):
    """An interval or a crontab line that schedules share."""

    is_live_with_actions = True
    list_display = ("when", "used_by")
    readonly_fields = ("used_by",)

    @admin.display(description="When")
    def when(self, row: Any) -> str:
        """Return when that is."""
        return _when(row)

    @admin.display(description="Used by")
    def used_by(self, row: IntervalSchedule | CrontabSchedule) -> str:
        """Return the names of its schedules; deleting it deletes them."""
        return ", ".join(sorted(task.name for task in row.periodictask_set.all())) or "—"

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("periodictask_set")


class IntervalAdmin(TimingAdmin):
    """An interval that schedules share."""

    form = IntervalForm
    when_empty = "There are no intervals yet. Schedules share them: add one for each."


class CrontabAdmin(TimingAdmin):
    """A line of a crontab that schedules share."""

    form = CrontabForm
    when_empty = (
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
