"""Formatting of untrusted text, such as messages of the cluster and names in requests.

Templates and `format_html` escape HTML. This module escapes invisible characters and direction
marks, and limits the length. Templates load its filters with `{% load adminkit %}`.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import yaml
from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.formats.masking import masked
from gpuplatform.workloads.resources import GPU_RESOURCE

register = template.Library()

LIST_LENGTH = 160
"""Maximum number of characters of a message in a list."""

TITLE_LENGTH = 1000
"""Maximum number of characters of a message in a tooltip."""

NONE: Final = SafeString('<span class="none">—</span>')
"""Displayed for an empty value; hidden on small screens."""

_KEY_LENGTH: Final = 18
"""Maximum number of characters of an operationID in a list."""

_SOURCE = re.compile(r"^Pod [-.a-z0-9]+: (?:container [-a-z0-9]+: )?")
_PULL = re.compile(
    r'failed to pull and unpack image "([^"]+)": (?:failed to resolve reference "[^"]+": )?'
    r'(?:failed to do request: [A-Za-z]+ "[^"]+": )?'
)
"""Matches the text that the container runtime adds around the image and the reason."""
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
    """Return an operationID for a list; if it is long, its middle is omitted.

    The tooltip contains the complete value. The end is kept because the operationIDs of one
    action differ there.
    """
    full = visible(key)
    if len(full) <= _KEY_LENGTH:
        return format_html("{}", full)
    cut = f"{full[:7]}…{full[-10:]}"
    return format_html('<span title="{}">{}</span>', full, cut)


def humanize(name: str) -> str:
    """Return an identifier as words: `PodStartupFailed` → `Pod startup failed`."""
    # An acronym can be plural: `GPUsMissing`.
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?:[A-Z_]|$))[a-z])", " ", name)
    words = spaced.replace("_", " ").split()
    text = " ".join(one if sum(map(str.isupper, one)) > 1 else one.lower() for one in words)
    return visible(text[:1].upper() + text[1:])


def condense(message: str) -> str:
    """Return a message of the cluster without the pod and container that it begins with.

    It is for lists; the page of the object names the pod. The message of a failed image pull is
    reduced to the image and the reason.
    """
    short = _PULL.sub(r"\1: ", _SOURCE.sub("", message, count=1), count=1)
    return short[:1].upper() + short[1:] if short.startswith("it ") else short


def message_or_reason(reason: str, message: str) -> str:
    """Return the message on one line, or the reason as words if the message is empty."""
    return shortened(message) or humanize(reason)


def message_html(
    reason: str, message: str, title: str = "", *, is_title_shown: bool = False
) -> SafeString:
    """Return the message on one line, or the title of the reason if the message is empty.

    The tooltip contains the title, the reason and up to `TITLE_LENGTH` characters of the message.

    Args:
        reason: The code, such as `PodStartupFailed`.
        message: The message from the cluster or the platform.
        title: The title of the reason; the default is the reason as words.
        is_title_shown: Whether to display the title instead of the message.
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


def counted(number: int, noun: str, singular: str = "", plural: str = "") -> str:
    """Return a number with its noun and an optional verb: `1 GPU is`, `2 GPUs are`."""
    name, verb = (noun, singular) if number == 1 else (f"{noun}s", plural)
    return f"{number:,} {name} {verb}".rstrip()


def gpus_text(number: int, resource_name: str = GPU_RESOURCE) -> str:
    """Return a number of units of a GPU resource: `2 GPUs`, `7 nvidia.com/mig-1g.10gb`."""
    if resource_name == GPU_RESOURCE:
        return counted(number, "GPU")
    return f"{number:,} {visible(resource_name)}"


def gpu_value(number: int, resource_name: str) -> str:
    """Return a number of GPUs as a value: `2`, or with another resource `7 amd.com/gpu`."""
    is_default = resource_name == GPU_RESOURCE
    return str(number) if is_default else f"{number} {visible(resource_name)}"


def resources_value(resources: object) -> str:
    """Return further resources as a value: `1 rdma/hca, 4000 nvidia.com/gpumem`."""
    found = resources if isinstance(resources, dict) else {}
    return visible(", ".join(f"{amount} {name}" for name, amount in found.items()))


def all_gpus_text(numbers: Iterable[tuple[str, int]], *, sign: str = "") -> str:
    """Return the sums of the numbers of GPUs by resource: `2 GPUs and 7 amd.com/gpu`.

    Numbers of different resources are never added. `sign` precedes positive numbers.
    """
    sums = Counter[str]()
    for resource, number in numbers:
        sums[resource] += number
    held = {resource: number for resource, number in sums.items() if number} or {GPU_RESOURCE: 0}
    ordered = sorted(held.items(), key=lambda one: (one[0] != GPU_RESOURCE, one[0]))
    return " and ".join(
        f"{sign if number >= 0 else ''}{gpus_text(number, resource)}"
        for resource, number in ordered
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
    """Return a name with a capital first letter, unless it contains one, such as `operationID`."""
    name = str(text)
    return name if any(map(str.isupper, name)) else name[:1].upper() + name[1:]
