"""The parts of a detail page: an app's admin fills them, and `admin/detail.html` renders them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.age import ago_html, timestamp_age_html
from gpuplatform.adminkit.display.badges import (
    CONDITION_SHAPES,
    DEGRADED_SHAPES,
    Shape,
    shape_badge,
)
from gpuplatform.adminkit.display.causes import reason_html
from gpuplatform.adminkit.display.text import shortened, visible
from gpuplatform.adminkit.display.timeline import TimelineLine
from gpuplatform.kube.fields import field, items
from gpuplatform.lifecycle.conditions import DEGRADED


@dataclass(frozen=True, slots=True)
class Panel:
    """The first part of a page: the reason, the message, their age, and the next step."""

    shape: Shape
    title: str
    """The title of the reason, with the reason code if there is one (see `reason_html`)."""
    text: str
    since: SafeString
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and a value. Pages omit facts without a value; `url` makes the value a link."""

    label: str
    value: str
    url: str = ""

    @classmethod
    def time(cls, label: str, moment: datetime | None) -> "Fact":
        """Return a fact whose value is the age of a time."""
        return cls(label, "" if moment is None else ago_html(moment))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A desired and an observed value."""

    label: str
    desired: str
    actual: str
    is_equal: bool = False
    """Whether the values are equivalent although their texts differ, such as `1` and `1000m`."""

    @property
    def differs(self) -> bool:
        """Whether the page marks a difference."""
        return self.desired != self.actual and not self.is_equal


@dataclass(frozen=True, slots=True)
class ConditionLine:
    """A Kubernetes condition as a line of a table."""

    badge: SafeString
    status: str
    reason: SafeString
    message: str
    since: SafeString


@dataclass(frozen=True, slots=True)
class Document:
    """A preformatted text with a title."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class RelatedRow:
    """A row of another table; `url` is empty if the row has no page."""

    badge: SafeString
    name: str
    url: str
    text: str
    since: SafeString


@dataclass(frozen=True, slots=True)
class Related:
    """Rows of another table under a title."""

    title: str
    rows: Sequence[RelatedRow] = ()
    url: str = ""
    """The URL of the list of all rows."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A text that users can copy, such as a name or a command."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Detail:
    """The content of the page of one object."""

    title: str
    badge: SafeString
    since: SafeString
    panel: Panel | None = None
    facts: Sequence[Fact] = ()
    comparisons: Sequence[Comparison] = ()
    comparison_note: str = ""
    timeline: Sequence[TimelineLine] = ()
    copies: Sequence[Copy] = ()
    conditions: Sequence[ConditionLine] = ()
    has_conditions: bool = False
    related: Sequence[Related] = ()
    documents: Sequence[Document] = ()
    is_right_short: bool = False
    """Whether the right column is shorter than the facts."""

    @property
    def begins_right(self) -> bool:
        """Whether the first table of related rows is in the right column."""
        return self.is_right_short or not (
            self.timeline or self.has_conditions or self.comparisons
        )


_SOURCES: Final = {
    "secretKeyRef": "Secret",
    "secretRef": "Secret",
    "configMapKeyRef": "ConfigMap",
    "configMapRef": "ConfigMap",
}


def secrets_fact(spec: Any) -> Fact:
    """Return the environment variables that come from Secrets and ConfigMaps, without values.

    Args:
        spec: The spec of a resource or a function, which can have any shape.
    """
    found = []
    for variable in items(spec, "template", "envs"):
        for kind, reference in _references(field(variable, "valueFrom")):
            name, source, key = (
                shortened(str(part))
                for part in (field(variable, "name"), reference.get("name"), reference.get("key"))
            )
            found.append(f"{name} from {kind} {source}, key {key}")
    for entry in items(spec, "template", "envFrom"):
        prefix = shortened(str(field(entry, "prefix") or ""))
        for kind, reference in _references(entry):
            found.append(f"{prefix}… from {kind} {shortened(str(reference.get('name')))}")
    return Fact("Variables", "; ".join(found))


def _references(source: Any) -> list[tuple[str, dict[str, Any]]]:
    found = ((kind, field(source, name)) for name, kind in _SOURCES.items())
    return [(kind, one) for kind, one in found if isinstance(one, dict)]


def condition_lines(conditions: Any, *, failed: bool, cause: str = "") -> list[ConditionLine]:
    """Return conditions as lines of a table; entries of another shape are omitted.

    Args:
        conditions: A list of `{type, status, reason, message, lastTransitionTime}`.
        failed: Whether the object has failed; a condition that is `False` is then a failure.
        cause: The cause of the failure, for the title of a failed condition.
    """
    entries = conditions if isinstance(conditions, list) else []
    return [
        _line(entry, failed=failed, cause=cause) for entry in entries if isinstance(entry, dict)
    ]


def _line(entry: dict[str, Any], *, failed: bool, cause: str) -> ConditionLine:
    kind, status = str(entry.get("type", "")), str(entry.get("status", ""))
    shapes = DEGRADED_SHAPES if kind == DEGRADED else CONDITION_SHAPES
    shape = shapes.get(status, Shape.OFF)
    is_failure = failed and status == "False" and kind != DEGRADED
    if is_failure:
        shape = Shape.FAILED
    return ConditionLine(
        badge=shape_badge(shape, visible(kind)),
        status=visible(status),
        reason=reason_html(str(entry.get("reason", "")), cause if is_failure else ""),
        message=visible(str(entry.get("message", ""))),
        since=timestamp_age_html(entry.get("lastTransitionTime")),
    )
