"""Badges: a text next to one of five shapes, each with its own color.

A contract test checks that `PHASE_SHAPES` contains every phase of every state machine.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from django.utils.html import format_html
from django.utils.safestring import SafeString


class Shape(StrEnum):
    """The shape and color of a badge; the value is the CSS class."""

    READY = "ready"
    PROGRESS = "progress"
    FAILED = "failed"
    WAITING = "waiting"
    OFF = "off"


PHASE_SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "Pending": Shape.WAITING,
        "Running": Shape.PROGRESS,
        "Succeeded": Shape.READY,
        "Failed": Shape.FAILED,
        "Cancelled": Shape.OFF,
        "Progressing": Shape.PROGRESS,
        "Ready": Shape.READY,
        "Empty": Shape.OFF,
        "Stopped": Shape.OFF,
        "Terminating": Shape.PROGRESS,
        "Queued": Shape.WAITING,
        "Pulling": Shape.PROGRESS,
        "Present": Shape.READY,
        "Open": Shape.WAITING,
        "Granted": Shape.READY,
        "Closed": Shape.OFF,
        "Expired": Shape.FAILED,
        "DeadLettered": Shape.FAILED,
        "Delivered": Shape.READY,
        "Deleted": Shape.OFF,
        "Active": Shape.READY,
        "Suspended": Shape.OFF,
        "Deleting": Shape.PROGRESS,
    }
)
"""The shape for each phase. `Deleted` is not a phase; it marks the row of a deleted resource."""

PHASE_TITLES: Mapping[str, str] = MappingProxyType({"Progressing": "Starting"})
"""Display names of phases that differ from the phase."""

CONDITION_SHAPES: Mapping[str, Shape] = MappingProxyType(
    {"True": Shape.READY, "False": Shape.WAITING, "Unknown": Shape.OFF}
)
"""The shape for each status of a condition; `False` is not always a failure."""
DEGRADED_SHAPES: Mapping[str, Shape] = MappingProxyType(
    {"True": Shape.WAITING, "False": Shape.READY, "Unknown": Shape.OFF}
)
"""The shapes for the condition Degraded, whose normal status is `False`."""

_DRAWINGS: Mapping[Shape, str] = MappingProxyType(
    {
        Shape.READY: (
            '<circle cx="6" cy="6" r="5.5" fill="currentColor"/>'
            '<path class="cut" d="M3.3 6.2 5.2 8l3.5-4" fill="none" stroke-width="1.6"/>'
        ),
        Shape.PROGRESS: (
            '<circle cx="6" cy="6" r="4.7" fill="none" stroke="currentColor" stroke-width="1.6"/>'
            '<path d="M6 1.3a4.7 4.7 0 0 1 0 9.4z" fill="currentColor"/>'
        ),
        Shape.FAILED: (
            '<path d="M6 .6 11.6 11H.4z" fill="currentColor"/>'
            '<path class="cut" d="M6 4.2v3.2M6 8.6v1" stroke-width="1.4"/>'
        ),
        Shape.WAITING: (
            '<rect x="1" y="1" width="10" height="10" rx="2.5" fill="none" stroke="currentColor"'
            ' stroke-width="1.6"/>'
            '<path d="M6 3.4V6l1.8 1.3" fill="none" stroke="currentColor" stroke-width="1.4"/>'
        ),
        Shape.OFF: (
            '<circle cx="6" cy="6" r="4.7" fill="none" stroke="currentColor" stroke-width="1.4"'
            ' stroke-dasharray="2 2"/>'
        ),
    }
)


def phase_shape(phase: str) -> Shape:
    """Return the shape for a phase; unknown phases get the shape `OFF`."""
    return PHASE_SHAPES.get(phase, Shape.OFF)


def phase_title(phase: str) -> str:
    """Return the display name of a phase."""
    return PHASE_TITLES.get(phase, phase)


def phase_badge(phase: str, text: str = "") -> SafeString:
    """Return the badge of a phase as HTML; `text` overrides the display name."""
    return shape_badge(phase_shape(phase), text or phase_title(phase))


def shape_badge(shape: Shape, text: str) -> SafeString:
    """Return a badge with a shape and a text as HTML."""
    drawing = SafeString(_DRAWINGS[shape])
    return format_html(
        '<span class="phase {}"><svg viewBox="0 0 12 12" aria-hidden="true">{}</svg>{}</span>',
        shape.value,
        drawing,
        text,
    )


def enabled_badge(*, is_enabled: bool) -> SafeString:
    """Return the badge Enabled or Disabled as HTML."""
    if is_enabled:
        return shape_badge(Shape.READY, "Enabled")
    return shape_badge(Shape.OFF, "Disabled")
