"""Display of text that others wrote: messages of the cluster, names in requests.

Templates and `format_html` escape HTML. This module handles the rest: invisible characters, marks
that change the reading direction, and length. Templates load the filters by `{% load adminkit %}`.
"""

import re
from typing import Any, Final

import yaml
from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.masking import masked

register = template.Library()

LIST_LENGTH = 160
"""Maximum number of characters of a message in a list."""

TITLE_LENGTH = 1000
"""Maximum number of characters of a message in a tooltip."""

NONE: Final = SafeString('<span class="none">—</span>')
"""Shown for an empty value; hidden on a phone."""

_KEY_LENGTH: Final = 18
"""Maximum number of characters of an operationID in a list."""

_SOURCE = re.compile(r"^Pod [-.a-z0-9]+: (?:container [-a-z0-9]+: )?")
_PULL = re.compile(
    r'failed to pull and unpack image "([^"]+)": (?:failed to resolve reference "[^"]+": )?'
    r'(?:failed to do request: [A-Za-z]+ "[^"]+": )?'
)
"""What the container runtime wraps around the image and the reason."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def visible(text: str) -> str:
    r"""Return `text` with control characters and direction marks escaped, such as `\u202e`."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text.replace("\r\n", "\n"))


def shortened(text: str, length: int = LIST_LENGTH) -> str:
    """Return `text` on one line, with at most `length` characters."""
    line = visible(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def operation_id_html(key: str) -> SafeString:
    """Return an operationID for a list: a long one without its middle, with the whole as tooltip.

    The operationIDs of one action differ at their end.
    """
    whole = visible(key)
    if len(whole) <= _KEY_LENGTH:
        return format_html("{}", whole)
    cut = f"{whole[:7]}…{whole[-10:]}"
    return format_html('<span title="{}">{}</span>', whole, cut)


def humanize(name: str) -> str:
    """Return a name from code as words: `PodStartupFailed` → `Pod startup failed`."""
    # An acronym can be plural: `GPUsMissing`.
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?:[A-Z_]|$))[a-z])", " ", name)
    words = spaced.replace("_", " ").split()
    text = " ".join(one if sum(map(str.isupper, one)) > 1 else one.lower() for one in words)
    return visible(text[:1].upper() + text[1:])


def condense(message: str) -> str:
    """Return a message of the cluster without the pod and container that it begins with.

    For one line about an object, whose page names the pod. The message of a failed pull keeps the
    image and the reason.
    """
    short = _PULL.sub(r"\1: ", _SOURCE.sub("", message, count=1), count=1)
    return short[:1].upper() + short[1:] if short.startswith("it ") else short


def message_or_reason(reason: str, message: str) -> str:
    """Return the message as one line; the reason if the message is empty."""
    return shortened(message) or humanize(reason)


def message_html(
    reason: str, message: str, title: str = "", *, is_title_shown: bool = False
) -> SafeString:
    """Return the message as one line of a list; the title of the reason if the message is empty.

    The tooltip has the title, the reason code and more of the message.

    Args:
        reason: the code, such as `PodStartupFailed`.
        message: the sentence of the cluster or the platform.
        title: a better title than the reason's own words.
        is_title_shown: shows the title in place of the message.
    """
    if not reason and not message:
        return SafeString("")
    heading = title or humanize(reason)
    named = heading if heading == reason else f"{heading} ({visible(reason)})"
    parts = [part for part in (named, shortened(message, TITLE_LENGTH)) if part]
    return format_html(
        '<span class="why" title="{}"><bdi>{}</bdi></span>',
        ": ".join(parts),
        heading if is_title_shown else shortened(condense(message)) or heading,
    )


def as_yaml(document: Any) -> str:
    """Return a JSON document as YAML with sorted keys and masked secrets."""
    return str(yaml.safe_dump(masked(document), sort_keys=True, allow_unicode=True, width=100))


@register.filter
def grouped(number: int) -> str:
    """Return a number with thousands separators."""
    return f"{number:,}"


@register.filter
def heading(text: object) -> str:
    """Return a name as a heading; one that has a capital letter, such as `operationID`, stays."""
    name = str(text)
    return name if any(map(str.isupper, name)) else name[:1].upper() + name[1:]
