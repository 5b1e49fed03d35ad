"""Charts as HTML and SVG: stacked bars, columns and lines over time, and progress bars.

Each chart has a text for screen readers. Colors are CSS classes because of the dark mode and the
Content Security Policy. Charts scale with the width of the page.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WIDTH: Final = 1000
_MIN_WIDTH: Final = 8
"""The minimum width of a segment, so that small ones are visible."""
_HEIGHT: Final = 100


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a stacked bar; `kind` is the suffix of its CSS class."""

    kind: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a chart; `number` is `None` without data, and `bad` is its failed part."""

    number: float | None
    text: str = ""
    bad: float = 0.0


def stacked_bar(segments: Sequence[Segment], label: str, *, mark: int | None = None) -> SafeString:
    """Return a stacked bar of the segments that are not empty, with a mark at the value `mark`."""
    shown = [segment for segment in segments if segment.number > 0]
    total = max(sum(segment.number for segment in shown), mark or 0)
    widths = (
        [max(segment.number / total * WIDTH, _MIN_WIDTH) for segment in shown] if total else []
    )
    shrink = min(WIDTH / sum(widths), 1.0) if widths else 1.0
    parts, x = [], 0.0
    for segment, width in zip(shown, widths, strict=True):
        parts.append((f"seg-{segment.kind}", x, width * shrink, segment.text))
        x += width * shrink
    rects = format_html_join(
        "",
        '<rect class="{}" x="{}" y="4" width="{}" height="12"><title>{}</title></rect>',
        ((kind, round(left, 1), round(width, 1), text) for kind, left, width, text in parts),
    )
    line = SafeString("")
    if mark is not None and total:
        at = round(min(max(mark / total * WIDTH, 1), WIDTH - 1), 1)
        line = format_html('<path class="mark" d="M{} 0V20"/>', at)
    return format_html(
        '<svg class="bar" viewBox="0 0 {} 20" preserveAspectRatio="none" role="img"'
        ' aria-label="{}"><rect class="seg-none" y="4" width="{}" height="12"/>{}{}</svg>',
        WIDTH,
        label,
        WIDTH,
        rects,
        line,
    )


def columns(values: Sequence[Column], label: str) -> SafeString:
    """Return a column chart; the highest column fills the height."""
    top = max((value.number or 0.0 for value in values), default=0.0)
    step = WIDTH / max(len(values), 1)
    rects = format_html_join(
        "", "{}", ((_column(place, value, step, top),) for place, value in enumerate(values))
    )
    return _over_time("columns", label, rects)


def lines(series: Sequence[tuple[str, Sequence[float | None]]], label: str) -> SafeString:
    """Return a line chart with one line per series; missing data interrupts a line."""
    known = [value for _, values in series for value in values if value is not None]
    top = max(known, default=0.0)
    drawn = format_html_join(
        "",
        '<path class="line-{}" d="{}"/>',
        ((name, _path(values, top)) for name, values in series),
    )
    return _over_time("lines", label, drawn)


def _over_time(kind: str, label: str, content: SafeString) -> SafeString:
    grid = SafeString('<path class="grid" d="M0 0H1000M0 50H1000M0 100H1000"/>')
    return format_html(
        '<svg class="chart {}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}">{}{}</svg>',
        kind,
        WIDTH,
        _HEIGHT,
        label,
        grid,
        content,
    )


def _column(place: int, value: Column, step: float, top: float) -> SafeString:
    left, width = round(place * step + step * 0.1, 1), round(step * 0.8, 1)
    if value.number is None:
        kind, good, bad = "unknown", 4.0, 0.0
    else:
        kind = "good"
        good = _part(max(value.number - value.bad, 0.0), top)
        bad = _part(min(value.bad, value.number), top)
    return format_html(
        '<g><title>{}</title><rect class="{}" x="{}" y="{}" width="{}" height="{}"/>'
        '<rect class="bad" x="{}" y="{}" width="{}" height="{}"/></g>',
        *(value.text, kind, left, round(_HEIGHT - good, 1), width, round(good, 1)),
        *(left, round(_HEIGHT - good - bad, 1), width, round(bad, 1)),
    )


def _part(number: float, top: float) -> float:
    return number / top * _HEIGHT if top else 0.0


def _path(values: Iterable[float | None], top: float) -> str:
    found = list(values)
    step = WIDTH / max(len(found) - 1, 1)
    points, is_drawn = [], False
    for place, value in enumerate(found):
        if value is not None:
            height = round(_HEIGHT - _part(value, top), 1)
            points.append(f"{'L' if is_drawn else 'M'}{round(place * step, 1)} {height}")
            if not is_drawn:
                points.append("h3")  # A single value is visible only as a short line.
        is_drawn = value is not None
    return "".join(points)


def progress_bar(done: int, total: int) -> SafeString:
    """Return a progress bar with its numbers, or an empty string if `total` is at most 1."""
    if total <= 1:
        return SafeString("")
    return format_html(
        '<span class="so-far"><progress max="{}" value="{}" aria-hidden="true"></progress>'
        "{} of {}</span>",
        total,
        min(done, total),
        done,
        total,
    )
