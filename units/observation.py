"""Reads the observed state of a unit: its objects, and the remaining objects of its source.

A unit with a source starts only after the row of the source names the unit as its consumer (rule
`arbiter` of the hand-over), no object that could create a pod of the source exists in the cluster,
and the pods of the source have ended (rule `waitabs`).

A unit is read again after its Job: see `units.core.jobs`.
"""

from collections.abc import Sequence
from datetime import datetime

from gpuplatform import clock
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import (
    DEPLOYMENT,
    GPU_UNIT,
    JOB,
    POD,
    REPLICA_SET,
    SERVICE,
    Manifest,
    ResourceKind,
)
from gpuplatform.planning.ownership import UNIT_LABEL, is_controlled_by
from gpuplatform.planning.plan import Absent, Observation, Present, Unknown
from gpuplatform.reconciliation.owned import LiveObjects, Owned
from gpuplatform.reconciliation.pod_settings import pod_settings
from gpuplatform.workloads.holders import holds_gpu
from gpuplatform.workloads.start_steps import may_pull
from units.core.child import is_decided, kind_of, possible_kinds
from units.core.names import UNIT_UID_LABEL, object_name
from units.core.observed import ObservedUnit
from units.core.sources import (
    NoSource,
    Source,
    SourceGone,
    SourceHeld,
    SourceLost,
    SourcePending,
    SourceReference,
    SourceUnread,
    source_of,
)
from units.core.statuses import is_up
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitRole, role_of
from units.records import Records, may_preempt

_NOT_READ = Unknown("not requested")
_NO_PODS: Present[Sequence[Manifest]] = Present(())


def observe_unit(cluster: Cluster, unit: Manifest) -> ObservedUnit:
    """Read the observed state of `unit` from the cluster. A forbidden read gives `Unknown`.

    Raises:
        ClusterUnavailable: If the cluster cannot be reached; the run then makes no changes.
    """
    return observed_in(LiveObjects(cluster, UNIT_LABEL), Records.of([unit]), unit)


def observed_in(owned: Owned, records: Records, unit: Manifest) -> ObservedUnit:
    """Return the observed state of `unit`, from the reader `owned` and the database state."""
    settings = pod_settings()
    metadata = unit["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    is_stock = role_of(namespace) == UnitRole.STOCK
    if is_stock and (consumer := records.consumed_by.get(uid, "")):
        return ObservedUnit(  # The planner deletes it in any case.
            deployment=_NOT_READ,
            service=_NOT_READ,
            pods=_NOT_READ,
            settings=settings,
            consumed_by=consumer,
        )
    named = None if is_stock else source_of(unit)
    found = _Workloads(owned, unit)
    phase = field(unit, "status", "phase")
    # A unit without a status cannot start while objects of its source may exist.
    is_unstarted = named is not None and named.uid in records.open_stock and not phase
    if not is_unstarted:
        found.read()
    source: Source = NoSource()
    if named is not None:
        if found.is_decided(uid):
            source = SourceUnread()
        else:
            # The source is read first, so that the state of the unit is not older.
            source = _source(owned, records, unit, named)
            found.read()
    # The pods of an available unit are needed after a failure, and for the steps of its start. A
    # unit that cannot have started, and has no object that creates pods, has none.
    is_new = not is_stock and phase != UnitPhase.READY
    has_job = isinstance(found.job, Present)
    is_needed = is_new or has_job or phase == UnitPhase.FAILED or not is_up(found.deployment)
    has_none = is_unstarted and found.is_absent()
    service = owned.one(SERVICE, namespace, object_name(name))
    pods = owned.all(POD, namespace, name) if is_needed and not has_none else _NO_PODS
    at = clock.now()
    return ObservedUnit(
        deployment=found.deployment,
        job=found.job,
        kind=found.kind,
        service=service,
        pods=pods,
        settings=settings,
        source=source,
        is_start_void=uid in records.void_starts,
        is_outdated=has_job and _is_changed(owned, unit),
        node=records.nodes.own(uid),
        source_node=records.nodes.of_source(named.uid) if named and _is_unplaced(pods) else None,
        claimed_at=records.claimed_at(unit),
        pod_events=_pull_events(owned, namespace, pods, at) if is_new else _NO_PODS,
        at=at,
    )


class _Workloads:
    """The Deployment and the Job of a unit, as far as its spec has ever required them.

    The first spec of a unit requires one of them. After a change of the spec, both are read.
    """

    def __init__(self, owned: Owned, unit: Manifest) -> None:
        self._owned = owned
        self._place = unit["metadata"]["namespace"], object_name(unit["metadata"]["name"])
        generation = number(unit, "metadata", "generation")
        self._kinds = possible_kinds(unit.get("spec"), generation)
        self.kind = kind_of(unit)
        self.deployment: Observation[Manifest] = _NOT_READ
        self.job: Observation[Manifest] = Absent()

    def read(self) -> None:
        """Read the objects."""
        self.deployment, self.job = self._one(DEPLOYMENT), self._one(JOB)

    def is_absent(self) -> bool:
        """Return whether neither of the objects exists."""
        return isinstance(self.deployment, Absent) and isinstance(self.job, Absent)

    def is_decided(self, uid: str) -> bool:
        """Return whether the object that the spec requires runs a pod with a known priority."""
        found = self.job if self.kind == JOB else self.deployment
        return isinstance(found, Present) and is_decided(self.kind, found.value, uid)

    def _one(self, kind: ResourceKind) -> Observation[Manifest]:
        return self._owned.one(kind, *self._place) if kind in self._kinds else Absent()


def _is_unplaced(pods: Observation[Sequence[Manifest]]) -> bool:
    """Return whether a pod has no node yet."""
    found = pods.value if isinstance(pods, Present) else ()
    return any(not field(pod, "spec", "nodeName") for pod in found)


def _is_changed(owned: Owned, unit: Manifest) -> bool:
    """Return whether the unit has changed since it was read."""
    metadata = unit["metadata"]
    match owned.one(GPU_UNIT, metadata["namespace"], metadata["name"]):
        case Present(found):
            return bool(found["metadata"]["resourceVersion"] != metadata["resourceVersion"])
        case _:
            return True


def _pull_events(
    owned: Owned, namespace: str, pods: Observation[Sequence[Manifest]], at: datetime
) -> Observation[Sequence[Manifest]]:
    """Return the Events about pods whose start may have been delayed by an image pull."""
    found: list[Manifest] = []
    for pod in pods.value if isinstance(pods, Present) else ():
        if not may_pull(pod, at):
            continue
        events = owned.events(namespace, pod["metadata"]["uid"])
        if not isinstance(events, Present):
            return events
        found += events.value
    return Present(tuple(found))


def _source(owned: Owned, records: Records, unit: Manifest, source: SourceReference) -> Source:
    """Return the state of the source of `unit`. The row of the source decides who consumed it."""
    uid = unit["metadata"]["uid"]
    if not records.has_source(unit, source):
        return SourceLost()
    if records.is_pending(unit, source):
        return SourcePending()
    if records.consumed_by.get(source.uid, uid) != uid:
        return SourceLost()
    stock, left = _stock_remains(owned, records, source)
    match left:
        case Absent():
            is_first_seen = source.uid in records.open_stock and isinstance(stock, Absent)
            return SourceGone(may_preempt=may_preempt(unit), is_first_seen=is_first_seen)
        case Present(what):
            return SourceHeld(what)
        case Unknown(why):
            return SourceHeld(f"it could not be read: {why}")


def _stock_remains(
    owned: Owned, records: Records, source: SourceReference
) -> tuple[Observation[Manifest], Observation[str]]:
    """Return the resource with the name of the source, and the remaining objects of the source."""
    version = records.versions.get(source.uid, 0)
    stock = owned.one_since(GPU_UNIT, STOCK_NAMESPACE, source.name, version)
    match stock:
        case Unknown():
            return stock, stock
        case Present(found) if found["metadata"]["uid"] == source.uid:
            return stock, Present("it still exists")
        case _:
            kinds = records.stock_kinds.get(source.uid, (DEPLOYMENT, JOB))
            place = (STOCK_NAMESPACE, source.name, source.uid)
            return stock, remains_of(owned, *place, kinds=kinds)


def remains_of(
    owned: Owned, namespace: str, name: str, uid: str, *, kinds: Sequence[ResourceKind]
) -> Observation[str]:
    """Return a clause that names what remains of a deleted unit and may hold its GPUs.

    `kinds` are the kinds of the objects that can have run its pods (`possible_kinds`).
    Objects are checked in the order in which they are created: without the Deployment, the Job and
    the ReplicaSets, no further pod can be created when the pods are read. A pod that has ended
    holds no GPU, although its object may still exist.
    """
    for kind in kinds:
        workload = owned.one(kind, namespace, object_name(name))
        if isinstance(workload, Unknown):
            return workload
        if isinstance(workload, Present) and _belongs(workload.value, uid):
            return Present(f"its {kind.kind} still exists")
    replica_sets = _left(owned, REPLICA_SET, namespace, name, uid)
    if isinstance(replica_sets, Unknown):
        return replica_sets
    if isinstance(replica_sets, Present):
        return Present("its ReplicaSet still exists")
    match _left(owned, POD, namespace, name, uid):
        case Present(pods):
            running = [pod for pod in pods if holds_gpu(pod)]
            return Present(f"its pods still run{_where(running)}") if running else Absent()
        case other:
            return other


def _left(
    owned: Owned, kind: ResourceKind, namespace: str, name: str, uid: str
) -> Observation[Sequence[Manifest]]:
    """Return the objects of a kind that may belong to the deleted unit."""
    found = owned.all(kind, namespace, name)
    if not isinstance(found, Present):
        return found
    left = [item for item in found.value if _may_bear(item, uid)]
    return Present(left) if left else Absent()


def _where(pods: Sequence[Manifest]) -> str:
    """Return the nodes of `pods` as the end of a clause, so that a lost node is visible."""
    nodes = sorted({str(node) for pod in pods if (node := field(pod, "spec", "nodeName"))})
    return f", on {', '.join(nodes)}" if nodes else ""


def _belongs(workload: Manifest, uid: str) -> bool:
    template = field(workload, "spec", "template") or {}
    return is_controlled_by(workload, uid) or _bears(template, uid)


def _bears(item: Manifest, uid: str) -> bool:
    return bool(field(item, "metadata", "labels", UNIT_UID_LABEL) == uid)


def _may_bear(item: Manifest, uid: str) -> bool:
    """Return whether an object has the UID of the unit in its label, or has no such label."""
    return _bears(item, uid) or not field(item, "metadata", "labels", UNIT_UID_LABEL)
