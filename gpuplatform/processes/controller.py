"""The controller, which watches the cluster, updates the mirror and marks rows due.

The controller does not change resources. Because of leader election one controller is active. Two
active controllers are safe, because each write of the mirror is guarded.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec

from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import close_old_connections, connection
from django.db.models.functions import Now

from gpuplatform.audit.services.observed import changes_observed
from gpuplatform.errors import InvariantBroken
from gpuplatform.kube.client import Cluster, Listing
from gpuplatform.kube.elector import Elector
from gpuplatform.kube.errors import ClusterError, ClusterUnavailable
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import (
    CONTROLLER_LEASE,
    DEPLOYMENT,
    GPU_UNIT,
    JOB,
    NODE,
    POD,
    SERVICE,
    STOCK_POOL,
    Manifest,
    ResourceKind,
)
from gpuplatform.kube.reflector import Reflector
from gpuplatform.operations.services import OperationTask
from gpuplatform.planning.ownership import POOL_LABEL, UNIT_LABEL
from gpuplatform.processes.event_filter import EventFilter
from gpuplatform.processes.node_watch import OTHERS, NodeWatch
from gpuplatform.queueing import Queue, Urgency, enqueue
from gpuplatform.reconciliation import epoch, gate
from gpuplatform.reconciliation.heartbeats import (
    FRESH_SECONDS,
    Part,
    alive_parts,
    delete_heartbeat,
    report_heartbeat,
)
from gpuplatform.reconciliation.mirror import Mirror
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.workloads.holders import holds_gpu
from inventory.mirror import POOL_MIRROR
from inventory.services.pools import InventoryTask
from units.mirror import UNIT_MIRROR, unit_freed, unit_touched
from units.phases import role_of
from units.services.names import UnitTask, urgency_of
from units.services.usage import usage_pod_ended

logger = logging.getLogger(__name__)

_P = ParamSpec("_P")

HEARTBEAT_SECONDS = FRESH_SECONDS / 8
COMPARE_SECONDS = 10.0
SWEEP_SECONDS = 30.0
NODES_SECONDS = 1.0
"""Minimum time in seconds between two writes of nodes, which each hand-over changes twice."""

STOP_SECONDS = 5.0
"""Maximum time in seconds that the controller waits for the end of its watches."""

BLIND_SECONDS = 180.0
"""Time in seconds without a list or an event after which the process exits, to be restarted."""


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """A kind of custom resource, and the functions that process its events."""

    kind: ResourceKind
    child_label: str
    """Key of the label of owned objects. The value is the name of the owner."""
    child_kinds: Sequence[ResourceKind]
    """The kinds of the owned objects that are watched."""
    mirror: Mirror[Any]
    mark_due: Callable[[str, str], list[int]]
    """Marks the row of the resource with this namespace and name due. Returns the ids to
    enqueue."""
    mark_waiting: Callable[[str, str], list[int]]
    """Marks the rows due that wait for the end of a pod of this resource. Returns the ids to
    enqueue."""
    pod_ended: Callable[[Manifest], None]
    """Records the last state of a pod that has ended or was deleted."""
    urgency: Callable[[str], Urgency]
    """Returns the urgency of resources in a namespace."""
    reconcile_task: str
    sweep_task: str
    compare_task: str

    def on_list(self, events: EventFilter, listing: Listing) -> None:
        """Copy the list and enqueue the changed rows."""
        events.reset(listing)
        for resource in listing.items:
            changes_observed(resource, self.mirror.model.objects)
        self._enqueue(self.mirror.listed(listing))

    def on_event(self, events: EventFilter, type_: str, resource: Manifest) -> None:
        """Copy the resource, or mark the row of a deleted resource due, and enqueue the row."""
        metadata = resource["metadata"]
        is_relevant = events.is_relevant(type_, resource)
        if type_ == "DELETED":
            due = self.mark_due(metadata["namespace"], metadata["name"])
        else:
            changes_observed(resource, self.mirror.model.objects)
            row = self.mirror.observed(resource, mark_due=is_relevant)
            due = [] if row is None else [row]
        self._enqueue(due, self.urgency(metadata["namespace"]))

    def on_children(self, events: EventFilter, listing: Listing) -> None:
        """Enqueue a comparison, because owned objects can have changed during a gap."""
        events.reset(listing)
        enqueue(self.compare_task, queue=Queue.PERIODIC)

    def on_child(self, events: EventFilter, type_: str, child: Manifest) -> None:
        """Mark the owner of a changed object due, and the rows that wait for a pod that ended."""
        if not events.is_relevant(type_, child):
            return
        metadata = child["metadata"]
        # The event of an object whose label was removed does not contain the label.
        name = str(field(metadata, "labels", self.child_label) or "")
        if not name:
            return
        place = metadata["namespace"], name
        if child.get("kind") == POD.kind and (type_ == "DELETED" or not holds_gpu(child)):
            self.pod_ended(child)
            self._enqueue(self.mark_waiting(*place), Urgency.LATER)
        self._enqueue(self.mark_due(*place), self.urgency(metadata["namespace"]))

    def _enqueue(self, rows: Iterable[int], urgency: Urgency = Urgency.NEXT) -> None:
        for row in rows:
            enqueue(self.reconcile_task, row, queue=Queue.RECONCILE, urgency=urgency)


WATCHED = (
    WatchedKind(
        kind=STOCK_POOL,
        child_label=POOL_LABEL,
        child_kinds=(DEPLOYMENT, SERVICE, POD),
        mirror=POOL_MIRROR,
        mark_due=POOL_MIRROR.marked,
        mark_waiting=lambda _namespace, _name: [],
        pod_ended=lambda _pod: None,
        urgency=lambda _namespace: Urgency.NEXT,
        reconcile_task=InventoryTask.RECONCILE_POOL,
        sweep_task=InventoryTask.SWEEP_POOLS,
        compare_task=InventoryTask.RECONCILE_ALL,
    ),
    WatchedKind(
        kind=GPU_UNIT,
        child_label=UNIT_LABEL,
        child_kinds=(DEPLOYMENT, JOB, SERVICE, POD),
        mirror=UNIT_MIRROR,
        mark_due=unit_touched,
        mark_waiting=unit_freed,
        pod_ended=usage_pod_ended,
        urgency=lambda namespace: urgency_of(role_of(namespace)),
        reconcile_task=UnitTask.RECONCILE_UNIT,
        sweep_task=UnitTask.SWEEP_UNITS,
        compare_task=UnitTask.RECONCILE_ALL,
    ),
)


class Controller:
    """The reflectors of a cluster, which run while this process is the leader."""

    def __init__(self, cluster: Cluster, watch_cluster: Cluster, identity: str) -> None:
        """Create the controller; `watch_cluster` has separate connections for watches."""
        self._cluster = cluster
        self._nodes = NodeWatch()
        self._is_foreign = False
        self._elector = Elector(
            cluster,
            namespace=settings.GPUPLATFORM_SYSTEM_NAMESPACE,
            name=CONTROLLER_LEASE,
            identity=identity,
        )
        self._reflectors = [
            self._reflector(watch_cluster, NODE, self._nodes.on_nodes, self._nodes.on_node),
            self._reflector(watch_cluster, POD, *self._nodes.pods_of(OTHERS), OTHERS),
            *(self._of_resources(watch_cluster, watched) for watched in WATCHED),
            *(
                self._of_children(watch_cluster, kind, watched)
                for watched in WATCHED
                for kind in watched.child_kinds
            ),
        ]

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the lease."""
        return self._elector.may_act()

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """The reflectors, which are idle while another process is the leader."""
        return tuple(self._reflectors)

    def run(self, stop: threading.Event) -> None:
        """Take part in the leader election, and watch while this process is the leader.

        Return after `stop` is set.

        Raises:
            ClusterUnavailable: If no list or watch succeeded for `BLIND_SECONDS`.
            InvariantBroken: If a watch ended with an unexpected error.
        """
        elector = threading.Thread(target=self._elector.run, args=(stop,), name="elector")
        elector.start()
        try:
            while not stop.is_set():
                if self._elector.may_act():
                    self._lead(stop)
                stop.wait(0.2)
        finally:
            stop.set()
            elector.join()
            close_old_connections()

    def _lead(self, stop: threading.Event) -> None:
        """Watch while this process is the leader and the epochs match."""
        over = threading.Event()
        threads = [
            threading.Thread(target=self._watch, args=(reflector, over), daemon=True)
            for reflector in self._reflectors
        ]
        duties = [
            _Duty(COMPARE_SECONDS, self._compare),
            _Duty(HEARTBEAT_SECONDS, self._report_heartbeat),
            _Duty(SWEEP_SECONDS, self._sweep_without_beat),
            _Duty(NODES_SECONDS, self._nodes.record),
            _Duty(SWEEP_SECONDS, self._nodes.recheck),
        ]
        duties[0].run_if_due()
        if self._is_foreign:
            stop.wait(HEARTBEAT_SECONDS)
            return
        started_at = time.monotonic()
        for thread in threads:
            thread.start()
        self._wait_for_first_lists(stop)
        try:
            while not stop.is_set() and self._elector.may_act() and not self._is_foreign:
                for duty in duties:
                    duty.run_if_due()
                self._check_watches(started_at, threads)
                stop.wait(0.5)
        finally:
            over.set()
            until = time.monotonic() + STOP_SECONDS
            for thread in threads:
                thread.join(timeout=max(0.0, until - time.monotonic()))
            _Duty(0, lambda: delete_heartbeat(Part.CONTROLLER)).run_if_due()

    def _wait_for_first_lists(self, stop: threading.Event) -> None:
        """Wait for the first lists, so that the first heartbeat is not delayed."""
        until = time.monotonic() + HEARTBEAT_SECONDS
        while time.monotonic() < until and not stop.is_set():
            if all(reflector.is_synced for reflector in self._reflectors):
                return
            stop.wait(0.05)

    def _of_resources(self, cluster: Cluster, watched: WatchedKind) -> Reflector:
        events = EventFilter.of_resources()
        on_list, on_event = partial(watched.on_list, events), partial(watched.on_event, events)
        return self._reflector(cluster, watched.kind, on_list, on_event)

    def _of_children(
        self, cluster: Cluster, kind: ResourceKind, watched: WatchedKind
    ) -> Reflector:
        events = EventFilter.of_children(kind)
        on_list, on_event = partial(watched.on_children, events), partial(watched.on_child, events)
        label = watched.child_label
        if kind != POD:
            return self._reflector(cluster, kind, on_list, on_event, label)
        first_list, first_event = self._nodes.pods_of(label)
        both = _both(first_list, on_list), _both(first_event, on_event)
        return self._reflector(cluster, kind, *both, label)

    def _reflector(
        self,
        cluster: Cluster,
        kind: ResourceKind,
        on_list: Callable[[Listing], None],
        on_event: Callable[[str, Manifest], None],
        label_selector: str = "",
    ) -> Reflector:
        def listed(listing: Listing) -> None:
            close_old_connections()
            on_list(listing)

        def happened(type_: str, resource: Manifest) -> None:
            close_old_connections()
            on_event(type_, resource)

        return Reflector(
            cluster,
            kind,
            on_list=listed,
            on_event=happened,
            label_selector=label_selector,
            retry_on=(DatabaseFault,),
        )

    def _watch(self, reflector: Reflector, over: threading.Event) -> None:
        try:
            reflector.run(over)
        finally:
            connection.close()

    def _report_heartbeat(self) -> None:
        """Record a heartbeat and the nodes, if all reflectors are synced and none fails."""
        if not all(reflector.is_synced for reflector in self._reflectors):
            return
        if any(reflector.is_failing for reflector in self._reflectors):
            delete_heartbeat(Part.CONTROLLER)
            return
        report_heartbeat(Part.CONTROLLER)
        nodes, ready = self._nodes.counts()
        ClusterState.objects.filter(id=ClusterState.SINGLETON).update(
            node_count=nodes, ready_node_count=ready, seen_at=Now()
        )

    def _compare(self) -> None:
        """Compare the epochs of cluster and database."""
        try:
            self._is_foreign = bool(epoch.compare(self._cluster))
            if not self._is_foreign:
                epoch.advance(self._cluster)
        except ClusterError as error:
            if gate.is_unreachable(error):
                gate.close(error)
            logger.warning("cluster and database could not be compared: %s", error)

    def _sweep_without_beat(self) -> None:
        """Enqueue the sweeps if beat, which usually enqueues them, is down."""
        if Part.BEAT not in alive_parts():
            for task in (OperationTask.SWEEP, *(watched.sweep_task for watched in WATCHED)):
                enqueue(task, queue=Queue.PERIODIC)

    def _blind_seconds(self) -> float:
        return max(reflector.last_good_list_age_seconds() for reflector in self._reflectors)

    def _check_watches(self, started_at: float, threads: Iterable[threading.Thread]) -> None:
        if not all(thread.is_alive() for thread in threads):
            msg = "A watch ended with an unexpected error, which is in the log above."
            raise InvariantBroken(msg)
        blind = min(self._blind_seconds(), time.monotonic() - started_at)
        if blind > BLIND_SECONDS:
            msg = f"No list or watch succeeded for {BLIND_SECONDS:.0f} s, so the controller exits."
            raise ClusterUnavailable(msg)


@dataclass
class _Duty:
    """A periodic function. Errors of the database are logged."""

    every_seconds: float
    do: Callable[[], None]
    due_at: float = 0.0

    def run_if_due(self) -> None:
        """Call the function if it is due."""
        if time.monotonic() < self.due_at:
            return
        self.due_at = time.monotonic() + self.every_seconds
        close_old_connections()
        try:
            self.do()
        except DatabaseFault as error:
            logger.warning("the database does not respond: %s", error)


def _both(first: Callable[_P, None], second: Callable[_P, None]) -> Callable[_P, None]:
    """Return a callback that calls both callbacks in this order."""

    def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        first(*args, **kwargs)
        second(*args, **kwargs)

    return call
