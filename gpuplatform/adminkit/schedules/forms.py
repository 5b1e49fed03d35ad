"""The forms of the schedules: what is sent, and when; only what makes sense is taken."""

import json
from datetime import timedelta
from typing import Any, ClassVar, Final

from django import forms
from django_celery_beat.admin import TaskSelectWidget
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
from typing_extensions import override

from gpuplatform.adminkit.actions.fields import datetime_field
from gpuplatform.adminkit.display.generics import ChoiceField, ModelForm

PARTS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
"""The five of a crontab's line."""
LEAST_SECONDS: Final = 5
"""The shortest interval: shorter ones come before the one before them is dealt with."""


def registered_tasks() -> list[tuple[str, str]]:
    """Return the tasks that workers know, as choices."""
    return [(str(name), str(name)) for name, _label in TaskSelectWidget().tasks_as_choices()]


class TimingField(ChoiceField):
    """Offers intervals, or crontabs, in words."""

    @override
    def label_from_instance(self, obj: Any) -> str:
        return when_of(obj)


class ScheduleForm(ModelForm):
    """Asks for a task by name out of those that exist, and for one kind of schedule."""

    task = forms.ChoiceField(choices=registered_tasks, help_text="What is sent.")
    start_time = datetime_field(
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
            "interval": "Either this, or a crontab.",
            "crontab": "Either this, or an interval.",
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
        if not present:
            known.insert(0, ("", "Choose…"))
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
        self.fields["period"].initial = IntervalSchedule.MINUTES

    @override
    def clean(self) -> dict[str, Any]:
        """Check both fields together; what is too short is said at the number, once."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if "every" in data and "period" in data:
            try:
                _check_interval(data["every"], data["period"])
            except forms.ValidationError as error:
                self.add_error("every", error)
        return data


class CrontabForm(ModelForm):
    """A line of a crontab; changing it changes every schedule that shares it."""

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
            "minute": "0 to 59, as 0,30 or */5; * is each one.",
            "hour": "0 to 23, as 8,20 or */6.",
            "day_of_month": "1 to 31, as 1,15 or */2.",
            "month_of_year": "1 to 12, as 1,7 or */3.",
            "day_of_week": "0 to 6, as 1-5 or sun: Sunday is 0, Monday is 1.",
            "timezone": "Whose clock it is.",
        }

    @override
    def clean(self) -> dict[str, Any]:
        """Say of each part that beat could not go by what may stand there, in our words."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        for name in {*PARTS} & data.keys():
            column = CrontabSchedule._meta.get_field(name)  # noqa: SLF001 - there is no other way
            try:
                column.run_validators(data[name])
                _ = CrontabSchedule(**{name: data[name]}).schedule  # beat knows less than those
            except (forms.ValidationError, ValueError):
                self.add_error(name, f"Must be {self.fields[name].help_text}")
        return data


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


def when_of(timing: Any) -> str:
    """Return an interval, or a crontab as people write it with its time zone."""
    if not isinstance(timing, CrontabSchedule):
        return _every(timedelta(**{timing.period: timing.every})) or str(timing)
    days = (timing.day_of_month, timing.month_of_year, timing.day_of_week)
    return f"{' '.join((timing.minute, timing.hour, *days))} ({timing.timezone})"
