"""Ages and durations for people; the exact time is in the tooltip."""

from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.text import NONE
from gpuplatform.clock import now, parse_rfc3339

_UNITS = ((60, 1, "s"), (3600, 60, "min"), (2 * 86400, 3600, "h"))


def age(moment: datetime, at: datetime) -> str:
    """Return the time from the moment until `at`, in one unit: `5 min`; `in 5 min` when later."""
    seconds = int((at - moment).total_seconds())
    if seconds < 0:
        return f"in {_span(-seconds)}"
    return _span(seconds)


def age_html(moment: datetime | None) -> SafeString:
    """Return the age as HTML, with the exact time as its title; a dash for no time."""
    if moment is None:
        return NONE
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
        age(moment, now()),
    )


def ago_html(moment: datetime) -> SafeString:
    """Return `5 min ago` for a past moment and `in 5 min` for a future one."""
    shown = age_html(moment)
    return format_html("{} ago", shown) if moment <= now() else shown


def duration(seconds: float) -> str:
    """Return a number of seconds for people, in one unit: `80 ms`, `1.4 s`, `3 min`."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    return f"{seconds:.1f} s" if seconds < 10 else _span(round(seconds))


def timestamp_age_html(text: object) -> SafeString:
    """Return the age of an RFC 3339 timestamp as HTML; a dash for anything else."""
    try:
        return age_html(parse_rfc3339(str(text)))
    except ValueError:
        return NONE


def _span(seconds: int) -> str:
    for limit, size, unit in _UNITS:
        if seconds < limit:
            return f"{seconds // size} {unit}"
    return f"{seconds // 86400} d"
