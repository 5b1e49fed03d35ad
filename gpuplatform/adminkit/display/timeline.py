"""Timelines: steps in the order of their times, each with the time since the first.

The module of a page yields the steps; a step without a time has not happened yet.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.badges import Shape, shape_badge


@dataclass(frozen=True, slots=True)
class Step:
    """One step; without a time it has not happened yet."""

    name: str
    at: datetime | None
    shape: Shape = Shape.READY
    text: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class TimelineLine:
    """A step, rendered."""

    badge: SafeString
    text: str
    url: str
    when: SafeString


def timeline(steps: Iterable[Step]) -> Sequence[TimelineLine]:
    """Return the steps in order: the first with its time, the others with the time since then."""
    known = list(steps)
    start = min((step.at for step in known if step.at is not None), default=None)
    done = sorted(
        ((step.at, position, step) for position, step in enumerate(known) if step.at is not None),
        key=lambda one: one[:2],
    )
    pending = [step for step in known if step.at is None]
    return [
        *(_line(step, _when(at, start)) for at, _, step in done),
        *(_line(step, SafeString("")) for step in pending),
    ]


def _line(step: Step, when: SafeString) -> TimelineLine:
    return TimelineLine(shape_badge(step.shape, step.name), step.text, step.url, when)


def _when(at: datetime, start: datetime | None) -> SafeString:
    exact = at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
    since = 0.0 if start is None else (at - start).total_seconds()
    shown = f"+ {_between(since)}" if since else at.strftime("%H:%M:%S")
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), exact, shown)


def _between(seconds: float) -> str:
    """Return a duration; Kubernetes timestamps have whole seconds, which stay whole."""
    return f"{seconds:.0f} s" if seconds < 10 and seconds.is_integer() else span(seconds)


def span(seconds: float) -> str:
    """Return a duration in seconds in at most two units: `0.04 s`, `12 s`, `3 min 5 s`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    whole = round(seconds)
    for unit, size, below, smaller in (
        ("d", 86400, 3600, "h"),
        ("h", 3600, 60, "min"),
        ("min", 60, 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"
