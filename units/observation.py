"""Reads the observed state of a unit: its objects, and the remaining objects of its source.

A unit with a source starts only after the row of the source names the unit as its consumer (rule
`arbiter` of the hand-over) and no object of the source exists in the cluster (rule `waitabs`).
"""

from collections.abc import Sequence

from gpuplatform import clock
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, REPLICA_SET, SERVICE, Manifest
from gpuplatform.planning.ownership import UNIT_LABEL, is_controlled_by
from gpuplatform.planning.plan import Absent, Observation, Present, Unknown
from gpuplatform.reconciliation.owned import LiveObjects, Owned
from gpuplatform.reconciliation.pod_settings import pod_settings
from units.core.children import is_decided
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
_DEPENDENTS = ((REPLICA_SET, "its ReplicaSet still exists"), (POD, "its pods still exist"))


def observe_unit(cluster: Cluster, unit: Manifest) -> ObservedUnit:
    """Read the observed state of `unit` from the cluster. A forbidden read gives `Unknown`.

    Raises:
        ClusterUnavailable: If the cluster cannot be reached; the run then changes nothing.
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
    # A unit without a status cannot start while objects of its source may exist.
    is_waiting = named and named.uid in records.open_stock and not field(unit, "status", "phase")
    deployment = _NOT_READ if is_waiting else owned.one(DEPLOYMENT, namespace, object_name(name))
    source: Source = NoSource()
    if named is not None:
        if isinstance(deployment, Present) and is_decided(deployment.value, uid):
            source = SourceUnread()
        else:
            # The source is read first, so that the state of the unit is not older.
            source = _source(owned, records, unit, named)
            deployment = owned.one(DEPLOYMENT, namespace, object_name(name))
    # The pods of an available unit are needed only for its node and after a failure.
    has_failed = field(unit, "status", "phase") == UnitPhase.FAILED
    needs_pods = has_failed or records.short_nodes or not is_up(deployment)
    return ObservedUnit(
        deployment=deployment,
        service=owned.one(SERVICE, namespace, object_name(name)),
        pods=owned.all(POD, namespace, name) if needs_pods else _NO_PODS,
        settings=settings,
        source=source,
        is_start_void=uid in records.void_starts,
        short_nodes=records.short_nodes,
        at=clock.now(),
    )


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
            return stock, remains_of(owned, STOCK_NAMESPACE, source.name, source.uid)


def remains_of(owned: Owned, namespace: str, name: str, uid: str) -> Observation[str]:
    """Return a clause that names the remaining objects of a deleted unit.

    Objects are checked in the order in which they are created.
    """
    deployment = owned.one(DEPLOYMENT, namespace, object_name(name))
    if isinstance(deployment, Unknown):
        return deployment
    if isinstance(deployment, Present) and _belongs(deployment.value, uid):
        return Present("its Deployment still exists")
    for kind, clause in _DEPENDENTS:
        found = owned.all(kind, namespace, name)
        if isinstance(found, Unknown):
            return found
        if not isinstance(found, Present):
            continue
        if left := [item for item in found.value if _may_bear(item, uid)]:
            return Present(f"{clause}{_where(left)}")
    return Absent()


def _where(pods: Sequence[Manifest]) -> str:
    """Return the nodes of `pods` as the end of a clause, so that a lost node is visible."""
    nodes = sorted({str(node) for pod in pods if (node := field(pod, "spec", "nodeName"))})
    return f", on {', '.join(nodes)}" if nodes else ""


def _belongs(deployment: Manifest, uid: str) -> bool:
    template = field(deployment, "spec", "template") or {}
    return is_controlled_by(deployment, uid) or _bears(template, uid)


def _bears(item: Manifest, uid: str) -> bool:
    return bool(field(item, "metadata", "labels", UNIT_UID_LABEL) == uid)


def _may_bear(item: Manifest, uid: str) -> bool:
    """Return whether an object has the UID of the unit in its label, or has no such label."""
    return _bears(item, uid) or not field(item, "metadata", "labels", UNIT_UID_LABEL)
