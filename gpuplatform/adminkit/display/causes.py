"""Titles of reasons and causes.

Apps register the explanations of their reasons with `register_reasons`. A row has a reason and,
if something prevents a pod from running, a cause. Pages display the title. The code, as `kubectl`
displays it, is next to the title on the page of an object and in the tooltip of a line. Filters
and URLs identify a cause by a key such as `PodStartupFailed:ImagePullFailed`.
"""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Q
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.text import humanize, message_html, visible
from gpuplatform.lifecycle.explanations import Explanation

SEPARATOR: Final = ":"
"""The separator between the reason and the cause in a key."""

_reasons: Final[dict[str, Explanation]] = {}


def register_reasons(reasons: Mapping[Any, Explanation]) -> None:
    """Register the reasons of an app. Apps that share a reason give it the same title."""
    _reasons.update({str(reason): explanation for reason, explanation in reasons.items()})


def key_of(reason: str, cause: str = "") -> str:
    """Return the key that identifies a reason, or one of its causes, in filters and URLs."""
    return f"{reason}{SEPARATOR}{cause}" if cause else reason


def of_key(reasons: Mapping[Any, Explanation], key: str) -> Q:
    """Return the query condition for the rows with the reason, or the cause, of a key."""
    reason, _, cause = key.partition(SEPARATOR)
    has_causes = reason in reasons and bool(reasons[reason].causes)
    return Q(reason=reason, cause=cause) if cause and has_causes else Q(reason=key)


def next_step_of(reasons: Mapping[Any, Explanation], reason: str, cause: str = "") -> str:
    """Return the next step for a cause or, without one, for a reason.

    Returns an empty string if `reasons` does not contain the reason.
    """
    found = reasons.get(reason)
    return found.causes.get(cause, found).next_step if found else ""


def title_of(reason: str, cause: str = "") -> str:
    """Return the title of a cause or, without one, of a reason; by default the code as words."""
    found = _reasons.get(reason)
    of_cause = found.causes.get(cause) if found else None
    if cause:
        return of_cause.title if of_cause and of_cause.title else humanize(cause)
    return found.title if found and found.title else humanize(reason)


def title_of_key(key: str) -> str:
    """Return the title of the reason or the cause of a key."""
    reason, _, cause = key.partition(SEPARATOR)
    return title_of(reason, cause)


def reason_html(reason: str, cause: str = "") -> SafeString:
    """Return the title followed by the reason code, for the page of an object."""
    title, code = title_of(reason, cause), visible(reason)
    if title == code:
        return format_html("{}", title)
    return format_html('{} <code class="off">{}</code>', title, code)


def reason_title_html(reason: str) -> SafeString:
    """Return the title of a reason with the reason code as the tooltip."""
    return format_html('<span title="{}">{}</span>', visible(reason), title_of(reason))


def message_of(row: Any) -> SafeString:
    """Return the message of a row on one line, with the title of the reason in the tooltip."""
    return message_html(row.reason, row.message, title_of(row.reason, cause_of(row)))


def cause_of(row: Any) -> str:
    """Return the cause of a row, or an empty string if the row or its model has none."""
    return str(getattr(row, "cause", ""))
