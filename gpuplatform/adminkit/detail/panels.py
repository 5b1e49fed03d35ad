"""The parts of a detail page: an app's admin fills them, `admin/detail.html` renders them."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
    """The first part: what is wrong, the message of the cluster, since when, and the next step."""

    shape: Shape
    title: str
    """For people, with the reason code where there is one: see `reason_html`."""
    text: str
    since: SafeString
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and its value; left out when the value is empty. `url` makes the value a link."""

    label: str
    value: str
    url: str = ""

    @classmethod
    def time(cls, label: str, moment: datetime | None) -> "Fact":
        """Return a fact whose value is a time."""
        return cls(label, "" if moment is None else ago_html(moment))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A desired and an observed value."""

    label: str
    desired: str
    actual: str
    is_equal: bool = False
    """Whether the two mean the same though their texts differ: `1` and `1000m`, a range."""

    @property
    def differs(self) -> bool:
        """Whether the difference is marked."""
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
    """A longer text, shown unchanged."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class RelatedRow:
    """A row of another table; `url` is empty where it has no page."""

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
    """The list of all of them."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A text to copy: a name or a command."""

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
        """Whether the first related rows are in the right column."""
        return self.is_right_short or not (
            self.timeline or self.has_conditions or self.comparisons
        )


def kubectl_copies(
    namespace: str, name: str, *, kind: str, service: str = "", port: int | None = None
) -> list[Copy]:
    """Return a resource's name and the `kubectl` commands to describe it and forward its port."""
    kubectl = f"kubectl -n {shlex.quote(namespace)}"
    copies = [
        Copy("Name", visible(name)),
        Copy("Describe", visible(f"{kubectl} describe {kind} {shlex.quote(name)}")),
    ]
    if service and port:
        command = f"{kubectl} port-forward service/{shlex.quote(service)} {port}:{port}"
        copies.append(Copy("Port-forward", visible(command)))
    return copies


def secrets_fact(spec: Any) -> Fact:
    """Return the variables that come from Secrets, with names and keys but no values.

    `spec` is that of a resource or function and can have any shape.
    """
    found = []
    for variable in items(spec, "template", "envs"):
        reference = field(variable, "valueFrom", "secretKeyRef")
        if isinstance(reference, dict):
            name, secret, key = (
                shortened(str(part))
                for part in (field(variable, "name"), reference.get("name"), reference.get("key"))
            )
            found.append(f"{name} from Secret {secret}, key {key}")
    return Fact("Variables", "; ".join(found))


def condition_lines(conditions: Any, *, failed: bool, cause: str = "") -> list[ConditionLine]:
    """Return conditions as lines; entries of another shape are left out.

    Args:
        conditions: the column; a list of `{type, status, reason, message, lastTransitionTime}`.
        failed: whether the object has failed, so that a `False` condition is the failure.
        cause: the cause of the object, which explains a failed condition.
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
