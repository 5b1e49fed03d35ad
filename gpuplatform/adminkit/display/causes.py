"""Titles of reasons and causes.

Apps register the explanations of their reasons (`register_reasons`). A row has a reason and, while
something keeps a pod from running, a cause; both are columns, and no message decides anything.
Pages show the title; the code, which `kubectl` shows, is next to it on the page of one object and
in the tooltip of a line. Filters and addresses name a cause as `PodStartupFailed:ImagePullFailed`.
"""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Q
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.text import humanize, message_html, visible
from gpuplatform.lifecycle.explanations import Explanation

SEPARATOR: Final = ":"
"""Between reason and cause in a key."""

_reasons: Final[dict[str, Explanation]] = {}


def register_reasons(reasons: Mapping[Any, Explanation]) -> None:
    """Add the reasons of an app; where two apps have the same one, its title is the same."""
    _reasons.update({str(reason): explanation for reason, explanation in reasons.items()})


def key_of(reason: str, cause: str = "") -> str:
    """Return the key of a reason, or of a cause of it, in filters and addresses."""
    return f"{reason}{SEPARATOR}{cause}" if cause else reason


def of_key(reasons: Mapping[Any, Explanation], key: str) -> Q:
    """Return the condition for rows of the reason, and cause if any, that `key` names."""
    reason, _, cause = key.partition(SEPARATOR)
    has_causes = reason in reasons and bool(reasons[reason].causes)
    return Q(reason=reason, cause=cause) if cause and has_causes else Q(reason=key)


def next_step_of(reasons: Mapping[Any, Explanation], reason: str, cause: str = "") -> str:
    """Return the next step for a cause, or a reason, of an app's table; empty if unknown."""
    found = reasons.get(reason)
    return found.causes.get(cause, found).next_step if found else ""


def title_of(reason: str, cause: str = "") -> str:
    """Return the title of the cause, or of the reason; without one, its code as words."""
    found = _reasons.get(reason)
    of_cause = found.causes.get(cause) if found else None
    if cause:
        return of_cause.title if of_cause and of_cause.title else humanize(cause)
    return found.title if found and found.title else humanize(reason)


def title_of_key(key: str) -> str:
    """Return the title of the reason or cause that `key` names."""
    reason, _, cause = key.partition(SEPARATOR)
    return title_of(reason, cause)


def reason_html(reason: str, cause: str = "") -> SafeString:
    """Return the title with the value of the reason next to it, for the page of one object."""
    title, value = title_of(reason, cause), visible(reason)
    if title == value:
        return format_html("{}", title)
    return format_html('{} <code class="off">{}</code>', title, value)


def reason_title_html(reason: str) -> SafeString:
    """Return the title of a reason, with its value as the tooltip."""
    return format_html('<span title="{}">{}</span>', visible(reason), title_of(reason))


def message_of(row: Any) -> SafeString:
    """Return the message of a row as one line of a list, with the title as tooltip."""
    return message_html(row.reason, row.message, title_of(row.reason, cause_of(row)))


def cause_of(row: Any) -> str:
    """Return the cause of a row; empty where the row has none, or its kind has no causes."""
    return str(getattr(row, "cause", ""))
