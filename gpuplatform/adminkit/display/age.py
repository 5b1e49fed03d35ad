"""Ages and durations for display; the exact time of an age is in the tooltip."""

from datetime import datetime
from itertools import pairwise
from typing import Final

from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.text import NONE
from gpuplatform.clock import now, parse_rfc3339

_UNITS = ((60, 1, "s"), (3600, 60, "min"), (2 * 86400, 3600, "h"))
"""For ages below a limit in seconds: the size of the unit in seconds, and its symbol."""
_SIZES: Final = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def age(moment: datetime, at: datetime) -> str:
    """Return the time from `moment` until `at`: `5 min`, or `in 5 min` if `moment` is later."""
    seconds = int((at - moment).total_seconds())
    if seconds < 0:
        return f"in {_span(-seconds)}"
    return _span(seconds)


def age_html(moment: datetime | None) -> SafeString:
    """Return an age as HTML with the exact time as tooltip, or a dash without a time."""
    if moment is None:
        return NONE
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
        age(moment, now()),
    )


def ago_html(moment: datetime) -> SafeString:
    """Return `5 min ago` for a time in the past and `in 5 min` for a time in the future."""
    shown = age_html(moment)
    return format_html("{} ago", shown) if moment <= now() else shown


def duration(seconds: float) -> str:
    """Return a duration in seconds in one unit: `80 ms`, `1.4 s`, `3 min`."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    return f"{seconds:.1f} s" if seconds < 10 else _span(round(seconds))


def span(seconds: float) -> str:
    """Return a duration in seconds in at most two units: `0.04 s`, `12 s`, `3 min 5 s`."""
    if seconds < 10:
        return f"{round(seconds, 2):g} s"
    whole = round(seconds)
    for (unit, size), (smaller, below) in pairwise(_SIZES):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def timestamp_age_html(text: object) -> SafeString:
    """Return the age of an RFC 3339 timestamp as HTML, or a dash for any other value."""
    try:
        return age_html(parse_rfc3339(str(text)))
    except ValueError:
        return NONE


def _span(seconds: int) -> str:
    for limit, size, unit in _UNITS:
        if seconds < limit:
            return f"{seconds // size} {unit}"
    return f"{seconds // 86400} d"
