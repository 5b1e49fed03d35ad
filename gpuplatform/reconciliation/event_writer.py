"""Writes Events in the background, so that reconciliation does not wait for them.

The driver submits the Events of a plan, and one thread of the process writes them. Events that
exceed the capacity of the queue and Events that the cluster rejects are dropped.
"""

import logging
import time
from collections.abc import Iterable
from concurrent.futures import Future, wait
from datetime import datetime
from typing import Final

from gpuplatform import clock
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.errors import ClusterConflict, ClusterError
from gpuplatform.kube.kinds import EVENT
from gpuplatform.planning.plan import Event
from gpuplatform.process_local import ProcessThreads
from gpuplatform.reconciliation import gate
from gpuplatform.reconciliation.events import InvolvedObject, Limits, event_manifest, repeated

logger = logging.getLogger(__name__)

MAX_QUEUED: Final = 1000
WRITE_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 30.0
"""Pause in seconds after a request to which the cluster did not respond."""

_THREAD = ProcessThreads(1, "events")
_LIMITS = Limits()
_waiting: set[Future[None]] = set()


class _Pause:
    """The end of the pause, in seconds of the monotonic clock."""

    until = 0.0


def submit(cluster: Cluster, subject: InvolvedObject, events: Iterable[Event]) -> None:
    """Queue the Events without waiting for a request."""
    for event in events:
        at = clock.now()
        if len(_waiting) < MAX_QUEUED and _LIMITS.allow(subject.uid, at):
            future = _THREAD.submit(_write, cluster, subject, event, at)
            _waiting.add(future)
            future.add_done_callback(_ended)


def finish(seconds: float) -> None:
    """Wait at most `seconds` until the queued Events are written or dropped."""
    wait(_waiting.copy(), timeout=seconds)


def _ended(future: Future[None]) -> None:
    _waiting.discard(future)
    if (error := future.exception()) is not None:
        logger.error("an Event could not be written", exc_info=error)


def _write(cluster: Cluster, subject: InvolvedObject, event: Event, at: datetime) -> None:
    if time.monotonic() < _Pause.until:
        return
    try:
        with deadline(WRITE_SECONDS):
            _create_or_count(cluster, subject, event, at)
    except ClusterError as error:
        if gate.is_unreachable(error):
            _Pause.until = time.monotonic() + PAUSE_SECONDS
        logger.info(
            "an Event about %s '%s' was dropped: %s", subject.kind.kind, subject.name, error
        )


def _create_or_count(
    cluster: Cluster, subject: InvolvedObject, event: Event, at: datetime
) -> None:
    manifest = event_manifest(subject, event, at)
    try:
        cluster.create(EVENT, manifest)
    except ClusterConflict:
        place = {"name": manifest["metadata"]["name"], "namespace": subject.namespace}
        found = cluster.get(EVENT, **place)
        if found is not None:
            cluster.merge_patch(EVENT, patch=repeated(found, at), **place)
