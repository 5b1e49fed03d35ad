"""Signs of life of the platform's parts, and what they say about readiness.

A worker's sign travels beat → broker → worker → database, so that it proves the whole way and not
only that a process exists.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class PartState:
    """Whether a part works, and one sentence about it."""

    ok: bool
    detail: str


NO_CLUSTER: Final = PartState(ok=True, detail="off by choice (KUBE_MODE=off)")
NO_QUEUE: Final = PartState(ok=True, detail="off: there is no queue (NATS_URL is not set)")

CLUSTER_PARTS: Final = frozenset({Part.CONTROLLER, Part.ACTIVATOR})
"""The parts that work while they hold a Lease in the cluster, and show life then only."""
_SERVERLESS: Final = frozenset({Part.ACTIVATOR, Part.RESULTS})
"""The parts that only functions need; without a cluster there are none."""


def parts_off() -> Mapping[Part, PartState]:
    """Return the parts that do not run by choice, with the choice."""
    off: dict[Part, PartState] = {} if settings.NATS_URL else dict.fromkeys(_SERVERLESS, NO_QUEUE)
    if settings.KUBE_MODE == "off":
        off |= dict.fromkeys((Part.CONTROLLER, *_SERVERLESS), NO_CLUSTER)
    return off


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


def part_states() -> Mapping[Part, PartState]:
    """Return the state of each part that shows signs of life."""
    fresh_since = Now() - timedelta(seconds=FRESH_SECONDS)
    fresh = dict(
        ProcessHeartbeat.objects.filter(seen_at__gt=fresh_since).values_list("part", "detail")
    )
    return {
        part: PartState(ok=True, detail=fresh[part] or "works")
        if part in fresh
        else PartState(ok=False, detail=f"no sign of life for {FRESH_SECONDS} s")
        for part in Part
    }
