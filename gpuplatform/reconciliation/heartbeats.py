"""Heartbeats of the platform's processes.

Beat sends the heartbeat task of a worker through the broker, and the worker records it in the
database. A recent heartbeat therefore shows that all of them work.
"""

import time
from datetime import timedelta
from enum import StrEnum
from typing import Final

from django.conf import settings
from django.db.models.functions import Now

from gpuplatform.reconciliation.models import ProcessHeartbeat

FRESH_SECONDS: Final[int] = settings.FRESH_SECONDS
"""Maximum age in seconds of the heartbeat of a running process. Processes send them more often."""

WORK_SECONDS: Final = FRESH_SECONDS / 8
_reported_at: dict["Part", float] = {}


class Part(StrEnum):
    """The processes that send heartbeats."""

    CONTROLLER = "controller"
    ACTIVATOR = "activator"
    RESULTS = "results"
    OPERATIONS = "operations"
    RECONCILE = "reconcile"
    PERIODIC = "periodic"
    BEAT = "beat"


def report_heartbeat(part: Part, detail: str = "") -> None:
    """Record a heartbeat of `part`."""
    ProcessHeartbeat.objects.bulk_create(
        [ProcessHeartbeat(part=part, seen_at=Now(), detail=detail[:200])],
        update_conflicts=True,
        unique_fields=["part"],
        update_fields=["seen_at", "detail"],
    )


def report_activity(part: Part) -> None:
    """Record a heartbeat of `part` because it does work, at most once every `WORK_SECONDS`.

    The heartbeat task of a busy worker can wait in a long queue.
    """
    now = time.monotonic()
    if now - _reported_at.get(part, -WORK_SECONDS) >= WORK_SECONDS:
        report_heartbeat(part)
        _reported_at[part] = now


def delete_heartbeat(part: Part) -> None:
    """Delete the heartbeat of `part`, because the process stops."""
    ProcessHeartbeat.objects.filter(part=part).delete()


def alive_parts() -> frozenset[Part]:
    """Return the parts with a recent heartbeat."""
    fresh_since = Now() - timedelta(seconds=FRESH_SECONDS)
    fresh = ProcessHeartbeat.objects.filter(seen_at__gt=fresh_since, part__in=list(Part))
    return frozenset(map(Part, fresh.values_list("part", flat=True)))
