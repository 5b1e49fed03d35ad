"""Timelines: steps in chronological order, each with the time since the first step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.age import span
from gpuplatform.adminkit.display.badges import Shape, shape_badge


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a timeline; a step without a time has not happened yet."""

    name: str
    at: datetime | None
    shape: Shape = Shape.READY
    text: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class TimelineLine:
    """A rendered step of a timeline."""

    badge: SafeString
    text: str
    url: str
    when: SafeString


def timeline(steps: Iterable[Step]) -> Sequence[TimelineLine]:
    """Return the steps in chronological order, followed by the steps without a time.

    The first one has its time of day, and the others have the time since the first one.
    """
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
    shown = f"+ {span(since)}" if since else at.strftime("%H:%M:%S")
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), exact, shown)
