"""Signs of life of the platform's parts, and what they say about readiness.

A worker's sign travels beat → broker → worker → database, so that it proves the whole way and not
only that a process exists.
"""

import time
from datetime import timedelta
from enum import StrEnum
from typing import Final

from django.conf import settings
from django.db.models.functions import Now

from gpuplatform.reconciliation.models import ProcessHeartbeat

FRESH_SECONDS: Final[int] = settings.FRESH_SECONDS
"""Older signs mean that the part is down; each shows several in this time."""

WORK_SECONDS: Final = FRESH_SECONDS / 8
_shown_at: dict["Part", float] = {}


class Part(StrEnum):
    """Parts of the platform that show signs of life."""

    CONTROLLER = "controller"
    ACTIVATOR = "activator"
    RESULTS = "results"
    OPERATIONS = "operations"
    RECONCILE = "reconcile"
    PERIODIC = "periodic"
    BEAT = "beat"


def report_heartbeat(part: Part, detail: str = "") -> None:
    """Record that `part` lives now."""
    ProcessHeartbeat.objects.bulk_create(
        [ProcessHeartbeat(part=part, seen_at=Now(), detail=detail[:200])],
        update_conflicts=True,
        unique_fields=["part"],
        update_fields=["seen_at", "detail"],
    )


def report_activity(part: Part) -> None:
    """Record that `part` lives, at most every few seconds: called for each piece of work.

    A worker with a long queue is alive, though the message that asks for its sign waits far back.
    """
    now = time.monotonic()
    if now - _shown_at.get(part, -WORK_SECONDS) >= WORK_SECONDS:
        report_heartbeat(part)
        _shown_at[part] = now


def delete_heartbeat(part: Part) -> None:
    """Record that `part` stopped on purpose."""
    ProcessHeartbeat.objects.filter(part=part).delete()


def alive_parts() -> frozenset[Part]:
    """Return the parts with a recent heartbeat."""
    fresh_since = Now() - timedelta(seconds=FRESH_SECONDS)
    fresh = ProcessHeartbeat.objects.filter(seen_at__gt=fresh_since, part__in=list(Part))
    return frozenset(map(Part, fresh.values_list("part", flat=True)))
