"""The controller: watches the cluster, fills the mirror, marks rows due. It writes nothing there.

One is active at a time, by a Lease; two would do no harm, since every write of the mirror is
guarded. Started by `manage.py run_controller`.
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
ENDING_SECONDS = 5.0
"""What all watches together get to end; they die with the process anyway."""

BLIND_SECONDS = 180.0
"""Without a good list or watch for so long the process gives up, loudly, and is started again."""

CHILD_KINDS = (DEPLOYMENT, SERVICE, POD)


@dataclass(frozen=True, slots=True)
class Watched:
    """A kind of resource of ours: how what is seen of it reaches its rows."""

    kind: ResourceKind
    child_label: str
    """On what it owns: the name of the owner."""
    listed: Callable[[Listing], list[int]]
    observed: Callable[[Manifest], int | None]
    copied: Callable[[Manifest], int | None]
    """Copy without marking: there is something to do only of a resource that has no row."""
    marked: Callable[[str, str], list[int]]
    """Mark the row of the resource of that namespace and name."""
    freed: Callable[[str, str], list[int]]
    """Mark what waits for the pods of that resource to be gone."""
    urgency: Callable[[str], Urgency]
    """How urgent resources of that namespace are."""
    reconcile_task: str
    sweep_task: str
    compare_task: str

    def on_list(self, events: EventFilter, listing: Listing) -> None:
        """Copy all; hint at what is to be done."""
        events.reset(listing)
        self._hint(self.listed(listing))

    def on_event(self, events: EventFilter, type_: str, resource: Manifest) -> None:
        """Copy it, or mark its row where it is gone."""
        metadata = resource["metadata"]
        is_news = events.is_relevant(type_, resource)
        if type_ == "DELETED":
            marked = self.marked(metadata["namespace"], metadata["name"])
        else:
            copy = self.observed if is_news else self.copied
            marked = one_or_none(copy(resource))
        self._hint(marked, self.urgency(metadata["namespace"]))

    def on_children(self, events: EventFilter, listing: Listing) -> None:
        """Something owned may have changed unseen: compare everything once."""
        events.reset(listing)
        enqueue(self.compare_task, queue=Queue.PERIODIC)

    def on_child(self, events: EventFilter, type_: str, child: Manifest) -> None:
        """Mark the owner of what changed, and first whoever waits for a pod that is gone."""
        if not events.is_relevant(type_, child):
            return
        metadata = child["metadata"]
        # An event of an object that lost the label may show it without.
        name = str(field(metadata, "labels", self.child_label) or "")
        if not name:
            return
        place = metadata["namespace"], name
        if type_ == "DELETED" and child.get("kind") == POD.kind:
            self._hint(self.freed(*place), Urgency.LATER)
        self._hint(self.marked(*place), self.urgency(metadata["namespace"]))

    def _hint(self, rows: Iterable[int], urgency: Urgency = Urgency.NEXT) -> None:
        for row in rows:
            enqueue(self.reconcile_task, row, queue=Queue.RECONCILE, urgency=urgency)


def one_or_none(row: int | None) -> list[int]:
    """Return a row's number as a list; an empty one where there is none."""
    return [] if row is None else [row]


WATCHED = (
    Watched(
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
    Watched(
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
    """The reflectors of one cluster, run while this process holds the lease."""

    def __init__(self, cluster: Cluster, watch_cluster: Cluster, identity: str) -> None:
        """`watch_cluster` has connections of its own: writes must not starve the watch."""
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
        return self._elector.is_leader

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """What follows each kind; idle while another process leads."""
        return tuple(self._reflectors)

    def run(self, stop: threading.Event) -> None:
        """Stand by, lead, stand by again, until `stop` is set.

        Raises:
            ClusterUnavailable: the leader saw nothing of the cluster for too long.
            InvariantBroken: a watch ended by a fault of ours.
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
        """Watch for as long as this process is the leader and the cluster is this database's."""
        over = threading.Event()
        threads = [
            threading.Thread(target=self._watch, args=(reflector, over), daemon=True)
            for reflector in self._reflectors
        ]
        duties = [
            _Duty(COMPARE_SECONDS, self._compare),
            _Duty(HEARTBEAT_SECONDS, self._report_heartbeat),
            _Duty(SWEEP_SECONDS, self._sweep_without_beat),
            _Duty(SWEEP_SECONDS, self._look_at_short_nodes),
        ]
        duties[0].run_if_due()
        if self._is_foreign:
            stop.wait(HEARTBEAT_SECONDS)
            return
        begun_at = time.monotonic()
        for thread in threads:
            thread.start()
        self._wait_for_first_lists(stop)
        try:
            while not stop.is_set() and self._elector.may_act() and not self._is_foreign:
                for duty in duties:
                    duty.run_if_due()
                self._check_sight(begun_at, threads)
                stop.wait(0.5)
        finally:
            over.set()
            until = time.monotonic() + ENDING_SECONDS
            for thread in threads:
                thread.join(timeout=max(0.0, until - time.monotonic()))
            _Duty(0, lambda: delete_heartbeat(Part.CONTROLLER)).run_if_due()

    def _wait_for_first_lists(self, stop: threading.Event) -> None:
        """Wait a little, so that the first sign of life need not wait for the second turn."""
        until = time.monotonic() + HEARTBEAT_SECONDS
        while time.monotonic() < until and not stop.is_set():
            if all(reflector.is_synced for reflector in self._reflectors):
                return
            stop.wait(0.05)

    def _of_resources(self, cluster: Cluster, watched: Watched) -> Reflector:
        events = EventFilter.of_resources()
        on_list, on_event = partial(watched.on_list, events), partial(watched.on_event, events)
        return self._reflector(cluster, watched.kind, on_list, on_event)

    def _of_children(self, cluster: Cluster, kind: ResourceKind, watched: Watched) -> Reflector:
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
        if gpus != self._gpus.get(name, 0):  # A node without GPUs is nothing to compare.
            enqueue(UnitTask.COMPARE_NODES, queue=Queue.PERIODIC)
        if type_ == "DELETED":
            self._nodes.pop(name, None)
            self._gpus.pop(name, None)
        else:
            self._nodes[name] = _is_ready(node)
            self._gpus[name] = gpus

    def _look_at_short_nodes(self) -> None:
        """Compare again while a node is short of GPUs: its pods may end, and nobody says so."""
        if short_nodes():
            enqueue(UnitTask.COMPARE_NODES, queue=Queue.PERIODIC)

    def _report_heartbeat(self) -> None:
        """Say what is seen; not synced yet, or blind, is no sign of life."""
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
        """Make sure that cluster and database still belong together."""
        try:
            self._is_foreign = bool(epoch.compare(self._cluster))
            if not self._is_foreign:
                epoch.advance(self._cluster)
        except ClusterError as error:
            if gate.is_unreachable(error):
                gate.close(error)
            logger.warning("cluster and database could not be compared: %s", error)

    def _sweep_without_beat(self) -> None:
        """Do what beat does when beat is down: two engines, one query."""
        if Part.BEAT not in alive_parts():
            for task in (OperationTask.SWEEP, *(watched.sweep_task for watched in WATCHED)):
                enqueue(task, queue=Queue.PERIODIC)

    def _blind_seconds(self) -> float:
        return max(reflector.last_good_list_age_seconds() for reflector in self._reflectors)

    def _check_sight(self, begun_at: float, threads: Iterable[threading.Thread]) -> None:
        if not all(thread.is_alive() for thread in threads):
            msg = "a watch ended by a fault of the platform; see the log above"
            raise InvariantBroken(msg)
        blind = min(self._blind_seconds(), time.monotonic() - begun_at)
        if blind > BLIND_SECONDS:
            msg = f"Nothing was seen of the cluster for {BLIND_SECONDS:.0f} s."
            raise ClusterUnavailable(msg)


@dataclass
class _Duty:
    """Something to do every so often, for which a database that is away is no reason to end."""

    every_seconds: float
    do: Callable[[], None]
    due_at: float = 0.0

    def run_if_due(self) -> None:
        """Do it when it is time."""
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
