"""Text from outside (messages of the cluster, names in requests) made fit to be shown.

HTML is escaped by templates and `format_html`; here goes what escaping leaves: characters that
cannot be seen or that turn the reading direction, and length.
"""

import re
from typing import Any, Final

import yaml
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.masking import masked

LIST_LENGTH = 160
"""Characters of a message in a list."""

TITLE_LENGTH = 1000
"""Characters of a message in a tooltip."""

NONE: Final = SafeString('<span class="none">—</span>')
"""What stands where there is nothing; a phone leaves it out."""

_KEY_LENGTH: Final = 18
"""Characters of an operationID that a list has room for."""

_SPEAKER = re.compile(r"^Pod [-.a-z0-9]+: (?:container [-a-z0-9]+: )?")
_PULL = re.compile(
    r'failed to pull and unpack image "([^"]+)": (?:failed to resolve reference "[^"]+": )?'
    r'(?:failed to do request: [A-Za-z]+ "[^"]+": )?'
)
"""What the runtime says around an image and why it cannot be had."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def visible(text: str) -> str:
    r"""Return `text` with control characters and direction marks written out, such as `\u202e`."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text.replace("\r\n", "\n"))


def shortened(text: str, length: int = LIST_LENGTH) -> str:
    """Return `text` on one line, with at most `length` characters."""
    line = visible(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def operation_id_html(key: str) -> SafeString:
    """Return an operationID for a list: a long one without its middle, with the whole as a title.

    What differs between the keys of one action is their end.
    """
    whole = visible(key)
    if len(whole) <= _KEY_LENGTH:
        return format_html("{}", whole)
    cut = f"{whole[:7]}…{whole[-10:]}"
    return format_html('<span title="{}">{}</span>', whole, cut)


def humanize(reason: str) -> str:
    """Return a machine's word as people write it: `PodStartupFailed` → `Pod startup failed`."""
    # A word of capitals may have a plural: `GPUsMissing`.
    spaced = re.sub(
        r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?:[A-Z_]|$))[a-z])", " ", reason
    )
    said = (
        one if sum(map(str.isupper, one)) > 1 else one.lower()
        for one in spaced.replace("_", " ").split()
    )
    text = " ".join(said)
    return visible(text[:1].upper() + text[1:])


def condense(message: str) -> str:
    """Return a message of the cluster without the pod and container that it begins with.

    For one line about an object: which of its pods said it is on its page. Of a pull there is the
    image and why it cannot be had.
    """
    said = _PULL.sub(r"\1: ", _SPEAKER.sub("", message, count=1), count=1)
    return f"It {said[3:]}" if said.startswith("it ") else said


def message_or_reason(reason: str, message: str) -> str:
    """Return the message as one line; the reason in words where there is none."""
    return shortened(message) or humanize(reason)


def message_html(
    reason: str, message: str, title: str = "", *, is_title_shown: bool = False
) -> SafeString:
    """Return the message as one line of a list; the reason in words where there is none.

    The tooltip has both, the machine's word as well, and more of the message. `title` says the
    reason better than its own words; it can be shown in place of the message.
    """
    if not reason and not message:
        return SafeString("")
    said = title or humanize(reason)
    named = said if said == reason else f"{said} ({visible(reason)})"
    parts = [part for part in (named, shortened(message, TITLE_LENGTH)) if part]
    return format_html(
        '<span class="why" title="{}"><bdi>{}</bdi></span>',
        ": ".join(parts),
        said if is_title_shown else shortened(condense(message)) or said,
    )


def as_yaml(document: Any) -> str:
    """Return a JSON document as YAML, sorted: the database keeps no order; secrets are hidden."""
    return str(yaml.safe_dump(masked(document), sort_keys=True, allow_unicode=True, width=100))
