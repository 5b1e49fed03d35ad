"""What the first page of the admin says: is all well, how much is there, what has failed.

Knows no app: each app's `admin.py` registers a `DashboardPart` that reads its own tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.safestring import SafeString

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import Shape, shape_badge
from gpuplatform.adminkit.text import shortened, words
from gpuplatform.reconciliation.heartbeats import FRESH_SECONDS, Part
from gpuplatform.reconciliation.models import ClusterState, ProcessHeartbeat

NEWEST_FAILURES = 8


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows are in a phase."""

    badge: SafeString
    number: str
    url: str


@dataclass(frozen=True, slots=True)
class Tile:
    """A big number, what it is out of, and the phases behind it."""

    title: str
    number: str
    of: str
    url: str
    counts: Sequence[Count] = ()
    alarms: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """An object that needs a person; `order` is its age for sorting, newest first."""

    badge: SafeString
    name: str
    url: str
    why: str
    since: SafeString
    order: float


@dataclass(frozen=True, slots=True)
class Health:
    """A part of the platform and how it is."""

    badge: SafeString
    shape: Shape
    text: str
    since: SafeString


class DashboardPart(Protocol):
    """What an app adds to the dashboard; it shows nothing that the user may not see."""

    def tiles(self, request: HttpRequest) -> Sequence[Tile]:
        """Return the app's numbers."""

    def failures(self, request: HttpRequest) -> Sequence[Failure]:
        """Return the app's newest failures."""


_PARTS: list[DashboardPart] = []


def register_dashboard_part(part: DashboardPart) -> None:
    """Add an app's part; called once, by its `admin.py`."""
    _PARTS.append(part)


def dashboard_context(request: HttpRequest) -> dict[str, Any]:
    """Return what `admin/index.html` draws."""
    failures = [failure for part in _PARTS for failure in part.failures(request)]
    failures.sort(key=lambda failure: failure.order, reverse=True)
    health = [cluster_health(), *process_health()]
    return {
        "tiles": [tile for part in _PARTS for tile in part.tiles(request)],
        "failures": failures[:NEWEST_FAILURES],
        "health": health,
        "health_badge": _summary(health),
    }


def cluster_health() -> Health:
    """Return whether the cluster answers and belongs to this database."""
    state = ClusterState.objects.filter(pk=ClusterState.SINGLETON).first()
    if state is None or (state.seen_at is None and not state.error):
        return _health(Shape.OFF, "cluster", "Not seen", None)
    if state.recovery_reason:
        return _health(Shape.FAILED, "cluster", shortened(state.recovery_reason), state.seen_at)
    if state.closed_until is not None:
        return _health(Shape.FAILED, "cluster", shortened(state.error), state.seen_at)
    nodes = f"{state.ready_node_count or 0} of {state.node_count or 0} nodes ready"
    return _health(Shape.READY, "cluster", nodes, state.seen_at)


def process_health() -> list[Health]:
    """Return each part that shows signs of life, and when it showed one last."""
    beats = {beat.part: beat for beat in ProcessHeartbeat.objects.annotate(asked_at=Now())}
    return [_process(part, beats.get(part)) for part in Part]


def _process(part: Part, beat: Any) -> Health:
    if beat is None:
        return _health(Shape.OFF, part, "Not running", None)
    if beat.asked_at - beat.seen_at > timedelta(seconds=FRESH_SECONDS):
        return _health(Shape.FAILED, part, "No sign of life", beat.seen_at)
    return _health(Shape.READY, part, shortened(beat.detail), beat.seen_at)


def _health(shape: Shape, part: str, text: str, seen_at: datetime | None) -> Health:
    return Health(shape_badge(shape, words(part)), shape, text, age_html(seen_at))


def _summary(health: Sequence[Health]) -> SafeString:
    bad = sum(part.shape is Shape.FAILED for part in health)
    if bad:
        return shape_badge(Shape.FAILED, f"{bad} {'part' if bad == 1 else 'parts'} not well")
    if any(part.shape is Shape.OFF for part in health):
        return shape_badge(Shape.WAITING, "Not everything runs")
    return shape_badge(Shape.READY, "Healthy")
