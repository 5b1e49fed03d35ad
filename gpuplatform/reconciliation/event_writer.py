"""Writes Events beside reconciliation: nobody waits for one, and a lost one costs nothing.

Called by the driver with what a plan declared and what became of it. One thread of the process
writes; what is more than it can write, or what the cluster does not take, is dropped.
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
SILENT_SECONDS: Final = 30.0
"""How long nothing is told after the cluster did not answer."""

_THREAD = ProcessThreads(1, "events")
_LIMITS = Limits()
_waiting: set[Future[None]] = set()


class _Silence:
    """Until when nothing is told, by the clock that never runs backwards."""

    until = 0.0


def submit(cluster: Cluster, subject: InvolvedObject, events: Iterable[Event]) -> None:
    """Have the Events written; return at once."""
    for event in events:
        at = clock.now()
        if len(_waiting) < MAX_QUEUED and _LIMITS.allow(subject.uid, at):
            future = _THREAD.submit(_write, cluster, subject, event, at)
            _waiting.add(future)
            future.add_done_callback(_ended)


def finish(seconds: float) -> None:
    """Wait until what was told so far is written or lost, for so long at most."""
    wait(_waiting.copy(), timeout=seconds)


def _ended(future: Future[None]) -> None:
    _waiting.discard(future)
    if (fault := future.exception()) is not None:
        logger.error("an Event was not written", exc_info=fault)


def _write(cluster: Cluster, subject: InvolvedObject, event: Event, at: datetime) -> None:
    if time.monotonic() < _Silence.until:
        return
    try:
        with deadline(WRITE_SECONDS):
            _count_up(cluster, subject, event, at)
    except ClusterError as error:
        if gate.is_unreachable(error):
            _Silence.until = time.monotonic() + SILENT_SECONDS
        logger.info("an Event about %s '%s' is lost: %s", subject.kind.kind, subject.name, error)


def _count_up(cluster: Cluster, subject: InvolvedObject, event: Event, at: datetime) -> None:
    manifest = event_manifest(subject, event, at)
    try:
        cluster.create(EVENT, manifest)
    except ClusterConflict:
        place = {"name": manifest["metadata"]["name"], "namespace": subject.namespace}
        found = cluster.get(EVENT, **place)
        if found is not None:
            cluster.merge_patch(EVENT, patch=repeated(found, at), **place)
