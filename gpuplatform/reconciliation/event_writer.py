"""Writes Events in the background, best effort: reconciliation never waits for one.

Called by the driver with the Events of a plan. One thread of the process writes them. Events
beyond the capacity of the queue, and Events that the cluster rejects, are dropped.
"""

import logging
import time
from collections.abc import Iterable
from concurrent.futures import Future, wait
from datetime import datetime
from typing import Final

from gpuplatform import clock
from gpuplatform.errors import ClusterConflict, ClusterError
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.kinds import EVENT
from gpuplatform.planning.plan import Event
from gpuplatform.process_local import ProcessThreads
from gpuplatform.reconciliation import gate
from gpuplatform.reconciliation.events import InvolvedObject, Limits, event_manifest, repeated

logger = logging.getLogger(__name__)

MAX_QUEUED: Final = 1000
WRITE_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 30.0
"""Pause after a request that the cluster did not answer."""

_THREAD = ProcessThreads(1, "events")
_LIMITS = Limits()
_waiting: set[Future[None]] = set()


class _Pause:
    """The end of the pause, on the monotonic clock."""

    until = 0.0


def submit(cluster: Cluster, subject: InvolvedObject, events: Iterable[Event]) -> None:
    """Queue the Events; return immediately."""
    for event in events:
        at = clock.now()
        if len(_waiting) < MAX_QUEUED and _LIMITS.allow(subject.uid, at):
            future = _THREAD.submit(_write, cluster, subject, event, at)
            _waiting.add(future)
            future.add_done_callback(_ended)


def finish(seconds: float) -> None:
    """Wait until the queued Events are written or dropped, at most `seconds`."""
    wait(_waiting.copy(), timeout=seconds)


def _ended(future: Future[None]) -> None:
    _waiting.discard(future)
    if (fault := future.exception()) is not None:
        logger.error("an Event could not be written", exc_info=fault)


def _write(cluster: Cluster, subject: InvolvedObject, event: Event, at: datetime) -> None:
    if time.monotonic() < _Pause.until:
        return
    try:
        with deadline(WRITE_SECONDS):
            _count_up(cluster, subject, event, at)
    except ClusterError as error:
        if gate.is_unreachable(error):
            _Pause.until = time.monotonic() + PAUSE_SECONDS
        logger.info("Event about %s '%s' dropped: %s", subject.kind.kind, subject.name, error)


def _count_up(cluster: Cluster, subject: InvolvedObject, event: Event, at: datetime) -> None:
    manifest = event_manifest(subject, event, at)
    try:
        cluster.create(EVENT, manifest)
    except ClusterConflict:
        place = {"name": manifest["metadata"]["name"], "namespace": subject.namespace}
        found = cluster.get(EVENT, **place)
        if found is not None:
            cluster.merge_patch(EVENT, patch=repeated(found, at), **place)
