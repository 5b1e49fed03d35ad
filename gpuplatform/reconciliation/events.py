"""Kubernetes Events about the platform's resources: selection, manifests and rate limits. Pure.

Source: Kubernetes documentation, "Event v1". The limits equal the defaults of client-go.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gpuplatform import clock
from gpuplatform.kube.fields import condition, field
from gpuplatform.kube.kinds import EVENT, Manifest, ResourceKind
from gpuplatform.planning.ownership import MANAGER
from gpuplatform.planning.plan import Event, EventType, Status

BURST: Final = 25
REFILL_SECONDS: Final = 300.0
MAX_OBJECTS: Final = 4096
_MAX_MESSAGE: Final = 1024
_MAX_NAME: Final = 220
"""Maximum length of the name without the digest."""


@dataclass(frozen=True, slots=True)
class InvolvedObject:
    """The resource that an Event is about."""

    kind: ResourceKind
    namespace: str
    name: str
    uid: str


def new_events(before: Manifest, status: Status) -> list[Event]:
    """Return the Events to write when `status` replaces the status of the resource `before`.

    A changed phase or a changed failure causes an Event. A changed count does not.
    """
    event = status.event
    if event is None:
        return []
    if field(before, "status", "phase") != status.phase:
        return [event]
    ready = condition(before, "Ready")
    is_same = (ready.get("reason"), ready.get("message")) == (event.reason, event.message)
    return [] if event.type is EventType.NORMAL or is_same else [event]


def event_manifest(subject: InvolvedObject, event: Event, at: datetime) -> Manifest:
    """Return the manifest of an Event. Equal Events about one object have the same name."""
    content = "\n".join((subject.uid, event.type, event.reason, event.message))
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    seen = clock.rfc3339(at)
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": f"{subject.name[:_MAX_NAME].rstrip('.-')}.{digest}",
            "namespace": subject.namespace,
        },
        "involvedObject": {
            "apiVersion": subject.kind.api_version,
            "kind": subject.kind.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "type": event.type.value,
        "reason": event.reason,
        "message": event.message[:_MAX_MESSAGE],
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "firstTimestamp": seen,
        "lastTimestamp": seen,
        "count": 1,
    }


def repeated(found: Mapping[str, Any], at: datetime) -> Manifest:
    """Return the patch that adds one occurrence to an existing Event."""
    count = found.get("count")
    return {
        "count": (count if isinstance(count, int) else 1) + 1,
        "lastTimestamp": clock.rfc3339(at),
    }


class Limits:
    """A limit for the Events of each object: a burst of 25, then one every five minutes."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, datetime]] = OrderedDict()

    def allow(self, uid: str, at: datetime) -> bool:
        """Return whether another Event is allowed. If so, count it."""
        left, since = self._left.pop(uid, (float(BURST), at))
        left = min(BURST, left + max((at - since).total_seconds(), 0) / REFILL_SECONDS)
        is_allowed = left >= 1
        self._left[uid] = (left - is_allowed, at)
        if len(self._left) > MAX_OBJECTS:
            self._left.popitem(last=False)
        return is_allowed
