"""The controller: watches the cluster, fills the mirror, and marks rows due.

It does not write to the cluster. Leader election keeps one controller active; two active ones
would be harmless, since every write of the mirror is guarded.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import close_old_connections, connection
from django.db.models.functions import Now

from gpuplatform.errors import ClusterError, ClusterUnavailable, InvariantBroken
from gpuplatform.kube.client import Cluster, Listing
from gpuplatform.kube.elector import Elector
from gpuplatform.kube.fields import condition, field
from gpuplatform.kube.kinds import (
    CONTROLLER_LEASE,
    DEPLOYMENT,
    GPU_UNIT,
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
from gpuplatform.queueing import Queue, Urgency, enqueue
from gpuplatform.reconciliation import epoch, gate
from gpuplatform.reconciliation.heartbeats import (
    FRESH_SECONDS,
    Part,
    alive_parts,
    delete_heartbeat,
    report_heartbeat,
)
from gpuplatform.reconciliation.models import ClusterState
from inventory.mirror import POOL_MIRROR
from inventory.services.pools import InventoryTask
from units.core.shortage import gpus_offered
from units.mirror import UNIT_MIRROR, unit_freed, unit_touched
from units.phases import role_of
from units.selectors import short_nodes
from units.services.names import UnitTask, urgency_of

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = FRESH_SECONDS / 8
COMPARE_SECONDS = 10.0
SWEEP_SECONDS = 30.0
STOP_SECONDS = 5.0
"""Time that all watches together have to end; they are daemon threads."""

BLIND_SECONDS = 180.0
"""Without a successful list or watch for this time the process exits, to be restarted."""

CHILD_KINDS = (DEPLOYMENT, SERVICE, POD)


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """A kind of custom resource, and how its events reach the rows."""

    kind: ResourceKind
    child_label: str
    """Label of the owned objects; its value is the name of the owner."""
    listed: Callable[[Listing], list[int]]
    """Copy a complete list; return the ids of the rows to reconcile, as the others do."""
    observed: Callable[[Manifest], int | None]
    """Copy one resource and mark its row due."""
    copied: Callable[[Manifest], int | None]
    """Copy one resource; mark its row due only if the row is new."""
    marked: Callable[[str, str], list[int]]
    """Mark the row of the resource with this namespace and name due."""
    freed: Callable[[str, str], list[int]]
    """Mark the rows due that wait until the pods of this resource are deleted."""
    urgency: Callable[[str], Urgency]
    """Return the urgency of resources in this namespace."""
    reconcile_task: str
    sweep_task: str
    compare_task: str

    def on_list(self, events: EventFilter, listing: Listing) -> None:
        """Copy the list and enqueue the rows that are due."""
        events.reset(listing)
        self._enqueue(self.listed(listing))

    def on_event(self, events: EventFilter, type_: str, resource: Manifest) -> None:
        """Copy the resource; mark the row of a deleted one due."""
        metadata = resource["metadata"]
        is_relevant = events.is_relevant(type_, resource)
        if type_ == "DELETED":
            marked = self.marked(metadata["namespace"], metadata["name"])
        else:
            copy = self.observed if is_relevant else self.copied
            marked = _as_list(copy(resource))
        self._enqueue(marked, self.urgency(metadata["namespace"]))

    def on_children(self, events: EventFilter, listing: Listing) -> None:
        """Compare everything once: owned objects may have changed during the gap."""
        events.reset(listing)
        enqueue(self.compare_task, queue=Queue.PERIODIC)

    def on_child(self, events: EventFilter, type_: str, child: Manifest) -> None:
        """Mark the owner of a changed object due; first the rows that wait for a deleted pod."""
        if not events.is_relevant(type_, child):
            return
        metadata = child["metadata"]
        # An object that lost the label can appear without it.
        name = str(field(metadata, "labels", self.child_label) or "")
        if not name:
            return
        place = metadata["namespace"], name
        if type_ == "DELETED" and child.get("kind") == POD.kind:
            self._enqueue(self.freed(*place), Urgency.LATER)
        self._enqueue(self.marked(*place), self.urgency(metadata["namespace"]))

    def _enqueue(self, rows: Iterable[int], urgency: Urgency = Urgency.NEXT) -> None:
        for row in rows:
            enqueue(self.reconcile_task, row, queue=Queue.RECONCILE, urgency=urgency)


def _as_list(row: int | None) -> list[int]:
    """Return the id of a row as a list; empty for None."""
    return [] if row is None else [row]


WATCHED = (
    WatchedKind(
        kind=STOCK_POOL,
        child_label=POOL_LABEL,
        listed=POOL_MIRROR.listed,
        observed=POOL_MIRROR.observed,
        copied=POOL_MIRROR.copied,
        marked=POOL_MIRROR.marked,
        freed=lambda _namespace, _name: [],
        urgency=lambda _namespace: Urgency.NEXT,
        reconcile_task=InventoryTask.RECONCILE_POOL,
        sweep_task=InventoryTask.SWEEP_POOLS,
        compare_task=InventoryTask.RECONCILE_ALL,
    ),
    WatchedKind(
        kind=GPU_UNIT,
        child_label=UNIT_LABEL,
        listed=UNIT_MIRROR.listed,
        observed=UNIT_MIRROR.observed,
        copied=UNIT_MIRROR.copied,
        marked=unit_touched,
        freed=unit_freed,
        urgency=lambda namespace: urgency_of(role_of(namespace)),
        reconcile_task=UnitTask.RECONCILE_UNIT,
        sweep_task=UnitTask.SWEEP_UNITS,
        compare_task=UnitTask.RECONCILE_ALL,
    ),
)


class Controller:
    """The reflectors of one cluster; they run while this process is the leader."""

    def __init__(self, cluster: Cluster, watch_cluster: Cluster, identity: str) -> None:
        """`watch_cluster` has separate connections, so that requests cannot starve the watches."""
        self._cluster = cluster
        self._nodes: dict[str, bool] = {}
        self._gpus: dict[str, int] = {}
        self._is_foreign = False
        self._elector = Elector(
            cluster,
            namespace=settings.GPUPLATFORM_SYSTEM_NAMESPACE,
            name=CONTROLLER_LEASE,
            identity=identity,
        )
        self._reflectors = [
            self._reflector(watch_cluster, NODE, self._all_nodes, self._node),
            *(self._of_resources(watch_cluster, watched) for watched in WATCHED),
            *(
                self._of_children(watch_cluster, kind, watched)
                for watched in WATCHED
                for kind in CHILD_KINDS
            ),
        ]

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the lease."""
        return self._elector.may_act()

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """The reflector of each kind; idle while another process is the leader."""
        return tuple(self._reflectors)

    def run(self, stop: threading.Event) -> None:
        """Wait for the lease, lead, and wait again, until `stop` is set.

        Raises:
            ClusterUnavailable: No list or watch succeeded for `BLIND_SECONDS`.
            InvariantBroken: A watch ended with an unexpected error.
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
        """Watch while this process is the leader and the epochs of cluster and database match."""
        over = threading.Event()
        threads = [
            threading.Thread(target=self._watch, args=(reflector, over), daemon=True)
            for reflector in self._reflectors
        ]
        duties = [
            _Duty(COMPARE_SECONDS, self._compare),
            _Duty(HEARTBEAT_SECONDS, self._report_heartbeat),
            _Duty(SWEEP_SECONDS, self._sweep_without_beat),
            _Duty(SWEEP_SECONDS, self._compare_short_nodes),
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
        """Wait for the first lists, so that the first heartbeat need not wait a whole period."""
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
        return self._reflector(cluster, kind, on_list, on_event, watched.child_label)

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

    def _all_nodes(self, listing: Listing) -> None:
        self._nodes = {node["metadata"]["name"]: _is_ready(node) for node in listing.items}
        self._gpus = {node["metadata"]["name"]: gpus_offered(node) for node in listing.items}
        enqueue(UnitTask.COMPARE_NODES, queue=Queue.PERIODIC)

    def _node(self, type_: str, node: Manifest) -> None:
        name = node["metadata"]["name"]
        gpus = 0 if type_ == "DELETED" else gpus_offered(node)
        if gpus != self._gpus.get(name, 0):  # Nodes without GPUs need no comparison.
            enqueue(UnitTask.COMPARE_NODES, queue=Queue.PERIODIC)
        if type_ == "DELETED":
            self._nodes.pop(name, None)
            self._gpus.pop(name, None)
        else:
            self._nodes[name] = _is_ready(node)
            self._gpus[name] = gpus

    def _compare_short_nodes(self) -> None:
        """Compare again while a node has a shortage: the end of its pods causes no node event."""
        if short_nodes():
            enqueue(UnitTask.COMPARE_NODES, queue=Queue.PERIODIC)

    def _report_heartbeat(self) -> None:
        """Record a heartbeat and the nodes, unless a reflector is not synced yet or fails."""
        if not all(reflector.is_synced for reflector in self._reflectors):
            return
        if any(reflector.is_failing for reflector in self._reflectors):
            delete_heartbeat(Part.CONTROLLER)
            return
        report_heartbeat(Part.CONTROLLER)
        ready = sum(self._nodes.values())
        ClusterState.objects.filter(id=ClusterState.SINGLETON).update(
            node_count=len(self._nodes), ready_node_count=ready, seen_at=Now()
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
        """Enqueue the sweeps that beat sends, while beat is down."""
        if Part.BEAT not in alive_parts():
            for task in (OperationTask.SWEEP, *(watched.sweep_task for watched in WATCHED)):
                enqueue(task, queue=Queue.PERIODIC)

    def _blind_seconds(self) -> float:
        return max(reflector.last_good_list_age_seconds() for reflector in self._reflectors)

    def _check_watches(self, started_at: float, threads: Iterable[threading.Thread]) -> None:
        if not all(thread.is_alive() for thread in threads):
            msg = "a watch ended with an unexpected error; see the log above"
            raise InvariantBroken(msg)
        blind = min(self._blind_seconds(), time.monotonic() - started_at)
        if blind > BLIND_SECONDS:
            msg = f"No list or watch of the cluster succeeded for {BLIND_SECONDS:.0f} s."
            raise ClusterUnavailable(msg)


@dataclass
class _Duty:
    """Periodic work that survives an outage of the database."""

    every_seconds: float
    do: Callable[[], None]
    due_at: float = 0.0

    def run_if_due(self) -> None:
        """Do it if its time has come."""
        if time.monotonic() < self.due_at:
            return
        self.due_at = time.monotonic() + self.every_seconds
        close_old_connections()
        try:
            self.do()
        except DatabaseFault as error:
            logger.warning("the database does not answer: %s", error)


def _is_ready(node: Manifest) -> bool:
    return condition(node, "Ready").get("status") == "True"
