"""The forms for periodic tasks, intervals and crontabs."""

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from django import forms
from django_celery_beat.admin import TaskSelectWidget
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
from typing_extensions import override

from gpuplatform.adminkit.actions.forms import datetime_field
from gpuplatform.adminkit.lists.model_admin import ModelForm

if TYPE_CHECKING:
    ModelChoiceField: TypeAlias = forms.ModelChoiceField[Any]
else:
    ModelChoiceField = forms.ModelChoiceField

PARTS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
"""The fields of a crontab."""
MIN_SECONDS: Final = 5
"""The minimum interval; with a shorter one, a run could start before the previous run ends."""


def registered_tasks() -> list[tuple[str, str]]:
    """Return the registered Celery tasks as choices."""
    return [(str(name), str(name)) for name, _label in TaskSelectWidget().tasks_as_choices()]


class TimingField(ModelChoiceField):
    """A choice of an interval or a crontab."""

    @override
    def label_from_instance(self, obj: Any) -> str:
        return timing_text(obj)


class ScheduleForm(ModelForm):
    """The form for a periodic task: a registered task with either an interval or a crontab."""

    task = forms.ChoiceField(choices=registered_tasks, help_text="Celery task to run.")
    start_time = datetime_field(
        "Earliest time of the first run. Leave empty to start immediately.", label="Not before"
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
            "interval": "Interval",
            "crontab": "Crontab",
            "one_off": "Run once",
            "args": "Arguments",
            "kwargs": "Keyword arguments",
            "queue": "Queue",
            "expire_seconds": "Expires after (seconds)",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "interval": "Select either an interval or a crontab.",
            "crontab": "Select either an interval or a crontab.",
            "name": "Unique name of the periodic task.",
            "enabled": "Whether the task runs on its schedule.",
            "description": "Purpose of the task.",
            "one_off": "Disable the task after its first run.",
            "args": "Positional arguments, as a JSON list.",
            "kwargs": "Keyword arguments, as a JSON object.",
            "queue": "Celery queue. Leave empty to use the queue for periodic tasks.",
            "expire_seconds": "A run is discarded if no worker starts it within this time.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        present = self.instance.task
        known = registered_tasks()
        if present and present not in dict(known):
            known.append((present, f"{present} (not in this release)"))
        if not present:
            known.insert(0, ("", "Select…"))
        self.fields["task"].choices = known  # type: ignore[attr-defined]  # fields are untyped

    def clean_interval(self) -> IntervalSchedule | None:
        """Reject an interval that is too short."""
        interval: IntervalSchedule | None = self.cleaned_data["interval"]
        if interval is not None:
            _check_interval(interval.every, interval.period)
        return interval

    @override
    def validate_unique(self) -> None:
        """Require either an interval or a crontab; the model supports more kinds of schedule."""
        chosen = [self.cleaned_data.get(kind) for kind in ("interval", "crontab")]
        if chosen.count(None) == 1:
            super().validate_unique()
        elif not {"interval", "crontab"} & self.errors.keys():
            self.add_error("interval", "Select either an interval or a crontab.")

    def clean_args(self) -> str:
        """Require a JSON list."""
        return self._json("args", list, "a JSON list such as [1]")

    def clean_kwargs(self) -> str:
        """Require a JSON object."""
        return self._json("kwargs", dict, 'a JSON object such as {"limit": 1}')

    def _json(self, field: str, kind: type, expected: str) -> str:
        text = str(self.cleaned_data[field])
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, kind):
            msg = f"Enter {expected}."
            raise forms.ValidationError(msg)
        return text


def _check_interval(every: int, period: str) -> None:
    seconds = timedelta(**{period: every}).total_seconds()
    if seconds < MIN_SECONDS:
        msg = f"The interval must be at least {MIN_SECONDS} seconds."
        raise forms.ValidationError(msg)


class IntervalForm(ModelForm):
    """The form for an interval."""

    class Meta:
        model = IntervalSchedule
        fields = ("every", "period")
        labels: ClassVar[dict[str, str]] = {"every": "Every", "period": "Unit"}
        help_texts: ClassVar[dict[str, str]] = {
            "every": f"At least {MIN_SECONDS} seconds. A change affects all tasks that use it.",
            "period": "",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["period"].choices = IntervalSchedule.PERIOD_CHOICES  # type: ignore[attr-defined]
        self.fields["period"].initial = IntervalSchedule.MINUTES

    @override
    def clean(self) -> dict[str, Any]:
        """Validate both fields together; the field `every` displays the error."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if "every" in data and "period" in data:
            try:
                _check_interval(data["every"], data["period"])
            except forms.ValidationError as error:
                self.add_error("every", error)
        return data


class CrontabForm(ModelForm):
    """The form for a crontab."""

    class Meta:
        model = CrontabSchedule
        fields = (*PARTS, "timezone")
        labels: ClassVar[dict[str, str]] = {
            "minute": "Minute",
            "hour": "Hour",
            "day_of_month": "Day of the month",
            "month_of_year": "Month",
            "day_of_week": "Day of the week",
            "timezone": "Time zone",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "minute": "0 to 59, for example 0,30 or */5; * for every minute.",
            "hour": "0 to 23, for example 8,20 or */6.",
            "day_of_month": "1 to 31, for example 1,15 or */2.",
            "month_of_year": "1 to 12, for example 1,7 or */3.",
            "day_of_week": "0 (Sunday) to 6, for example 1-5 or sun.",
            "timezone": "Time zone of the hours and minutes.",
        }

    @override
    def clean(self) -> dict[str, Any]:
        """Reject each part that beat cannot parse; the error states the allowed values."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        for name in {*PARTS} & data.keys():
            column = CrontabSchedule._meta.get_field(name)  # noqa: SLF001 - the documented accessor
            try:
                column.run_validators(data[name])
                # Beat rejects more values than the validators.
                _ = CrontabSchedule(**{name: data[name]}).schedule
            except (forms.ValidationError, ValueError):
                self.add_error(name, f"Allowed values: {self.fields[name].help_text}")
        return data


def _every(time: timedelta) -> str:
    """Return an interval in its largest whole unit, or an empty string if that is the second."""
    for name, unit in (
        ("days", timedelta(days=1)),
        ("hours", timedelta(hours=1)),
        ("minutes", timedelta(minutes=1)),
    ):
        number = time // unit
        if time == number * unit:
            return f"every {name[:-1]}" if number == 1 else f"every {number} {name}"
    return ""


def timing_text(timing: Any) -> str:
    """Return an interval as words, or a crontab in cron notation with its time zone."""
    if not isinstance(timing, CrontabSchedule):
        return _every(timedelta(**{timing.period: timing.every})) or str(timing)
    days = (timing.day_of_month, timing.month_of_year, timing.day_of_week)
    return f"{' '.join((timing.minute, timing.hour, *days))} ({timing.timezone})"
