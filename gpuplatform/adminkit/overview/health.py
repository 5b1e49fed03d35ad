"""The health of the parts of the platform on the overview and in the header of each page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import counted, humanize, shortened
from gpuplatform.health import (
    HealthCode,
    PartHealth,
    broker_health,
    database_health,
    due_work_health,
    process_health,
    queue_lengths,
    rates_health,
    recorded_cluster_health,
)
from gpuplatform.samples.models import PlatformSample

_SHAPES: Final[Mapping[HealthCode, Shape]] = MappingProxyType(
    {
        HealthCode.HEALTHY: Shape.READY,
        HealthCode.OFF: Shape.OFF,
        HealthCode.NO_SAMPLE: Shape.OFF,
        HealthCode.BACKLOG: Shape.WAITING,
        HealthCode.DEGRADED: Shape.WAITING,
        HealthCode.STALE_SAMPLE: Shape.WAITING,
        HealthCode.UNKNOWN: Shape.WAITING,
        HealthCode.NOT_RUNNING: Shape.WAITING,
        HealthCode.WAITING_FOR_CLUSTER: Shape.WAITING,
    }
)
"""The shape for each code; all other codes are failures."""


@dataclass(frozen=True, slots=True)
class HealthLine:
    """A part of the platform as a line of a table."""

    name: str
    badge: SafeString
    shape: Shape
    text: str
    since: SafeString
    detail: str
    """The error, or an empty string if the part is healthy."""


def platform_health(sample: PlatformSample | None, now: datetime) -> list[HealthLine]:
    """Return the health of every part: first the servers, then the processes.

    The broker is probed. The state of the cluster is read from its row.
    """
    cluster = recorded_cluster_health()
    parts = [
        cluster,
        database_health(),
        broker_health(queue_lengths()),
        rates_health(),
        due_work_health(sample, now),
        *process_health(cluster),
    ]
    return [_line(part) for part in parts]


def health_summary(health: Sequence[HealthLine]) -> SafeString:
    """Return a badge that summarizes the health of all parts."""
    failed = sum(line.shape is Shape.FAILED for line in health)
    if failed:
        return shape_badge(Shape.FAILED, f"{counted(failed, 'part')} unhealthy")
    if any(line.shape is Shape.WAITING for line in health):
        return shape_badge(Shape.WAITING, "Not all parts are running")
    return shape_badge(Shape.READY, "Healthy")


def _line(part: PartHealth) -> HealthLine:
    shape = _SHAPES.get(part.code, Shape.FAILED)
    return HealthLine(
        name=part.part,
        badge=shape_badge(shape, humanize(part.part)),
        shape=shape,
        text=shortened(part.detail if part.ok and part.detail else part.summary),
        since=age_html(part.since) if part.since else SafeString(""),
        detail="" if part.ok else shortened(part.detail),
    )
