"""Whether the platform is well: cluster, database, processes, and whatever else is registered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models.functions import Now
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.age import age_html, duration
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import humanize, shortened
from gpuplatform.reconciliation.heartbeats import (
    CLUSTER_PARTS,
    FRESH_SECONDS,
    Part,
    parts_off,
)
from gpuplatform.reconciliation.models import ClusterState, ProcessHeartbeat
from gpuplatform.samples.models import PlatformSample

LATE_SECONDS: Final = 120.0
"""A row that is due for longer is late, as the alert has it."""

SAMPLE_SECONDS: Final = 180.0
"""An older sample says nothing about now; beat takes one every half minute."""


@dataclass(frozen=True, slots=True)
class Health:
    """A part of the platform and how it is."""

    name: str
    badge: SafeString
    shape: Shape
    text: str
    since: SafeString = SafeString("")  # noqa: RUF009 - a string
    detail: str = ""
    """What there is to say beside the few words of the text."""


AskHealth = Callable[[], Sequence[Health]]

_ASKED: list[AskHealth] = []


def register_health(ask: AskHealth) -> None:
    """Add parts that another layer knows how to ask; called once, by its `admin.py`."""
    _ASKED.append(ask)


def health_of(
    shape: Shape, part: str, text: str, seen_at: datetime | None = None, detail: str = ""
) -> Health:
    """Return a part's line."""
    since = age_html(seen_at) if seen_at else SafeString("")
    badge = shape_badge(shape, humanize(part))
    return Health(part, badge, shape, text, since, shortened(detail))


def platform_health(sample: PlatformSample | None, now: datetime) -> list[Health]:
    """Return every part: first what all of them need, then the processes."""
    cluster = cluster_health()
    processes = process_health(cluster_is_away=cluster.shape is Shape.FAILED)
    database = health_of(Shape.READY, "database", "answers")  # It has just answered.
    asked = [line for ask in _ASKED for line in ask()]
    return [cluster, database, *asked, due_health(sample, now), *processes]


def cluster_health() -> Health:
    """Return whether the cluster answers and belongs to this database."""
    if settings.KUBE_MODE == "off":
        return health_of(Shape.OFF, "cluster", "off by choice")
    state = ClusterState.objects.filter(pk=ClusterState.SINGLETON).first()
    if state is None or (state.seen_at is None and not state.error):
        return health_of(Shape.WAITING, "cluster", "Not seen yet")
    if state.recovery_reason:
        return health_of(
            Shape.FAILED, "cluster", "Has to be recovered", state.seen_at, state.recovery_reason
        )
    if state.closed_until is not None:
        return health_of(Shape.FAILED, "cluster", "Does not answer", state.seen_at, state.error)
    ready, nodes = state.ready_node_count or 0, state.node_count or 0
    shape = Shape.READY if ready or not nodes else Shape.FAILED
    return health_of(shape, "cluster", f"{ready} of {nodes} nodes ready", state.seen_at)


def due_health(sample: PlatformSample | None, now: datetime) -> Health:
    """Return for how long the oldest row is due that nobody works on."""
    name = "due work"
    if sample is None:
        return health_of(Shape.OFF, name, "No sample yet")
    if (now - sample.at).total_seconds() > SAMPLE_SECONDS:
        return health_of(Shape.WAITING, name, "No fresh sample; see beat", sample.at)
    oldest = sample.oldest_due_seconds
    if oldest is None:
        return health_of(Shape.READY, name, "nothing waits")
    shape = Shape.FAILED if oldest > LATE_SECONDS else Shape.READY
    return health_of(shape, name, f"oldest row due for {duration(oldest)}")


def process_health(*, cluster_is_away: bool) -> list[Health]:
    """Return each part that shows signs of life, and when it showed one last.

    Those that hold a Lease in the cluster show none while that is away, and are not to blame.
    """
    beats = {beat.part: beat for beat in ProcessHeartbeat.objects.annotate(asked_at=Now())}
    off = parts_off()
    return [
        _process(part, beats.get(part), waits=cluster_is_away and part in CLUSTER_PARTS)
        if part not in off or part in beats
        else health_of(Shape.OFF, part, "off by choice")
        for part in Part
    ]


def health_summary(health: Sequence[Health]) -> SafeString:
    """Return all parts in one badge."""
    bad = sum(part.shape is Shape.FAILED for part in health)
    if bad:
        return shape_badge(Shape.FAILED, f"{bad} {'part' if bad == 1 else 'parts'} not well")
    if any(part.shape is Shape.WAITING for part in health):
        return shape_badge(Shape.WAITING, "Not everything runs")
    return shape_badge(Shape.READY, "Healthy")


def _process(part: Part, beat: Any, *, waits: bool) -> Health:
    is_alive = beat and beat.asked_at - beat.seen_at <= timedelta(seconds=FRESH_SECONDS)
    if waits and not is_alive:
        return health_of(Shape.WAITING, part, "Waits for the cluster", beat and beat.seen_at)
    if beat is None:
        return health_of(Shape.WAITING, part, "Not running")
    if not is_alive:
        return health_of(Shape.FAILED, part, "No sign of life", beat.seen_at)
    return health_of(Shape.READY, part, shortened(beat.detail), beat.seen_at)
