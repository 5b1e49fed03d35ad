"""Reconciling GPU units of both roles: what to read, and the wiring of the planner to the driver.

A unit that consumes stock runs only once its source's row says consumed by this unit's UID, and
nothing of that stock is left in the cluster (rules `arbiter` and `waitabs` of the hand-over's
model).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet

from gpuplatform import clock
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import (
    DEPLOYMENT,
    GPU_UNIT,
    POD,
    REPLICA_SET,
    SERVICE,
    Manifest,
    ResourceKind,
)
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES, OperationPhase
from gpuplatform.operations.provenance import applied_operation
from gpuplatform.operations.selectors import makers_among, operation_of, operations_about
from gpuplatform.planning.ownership import UNIT_LABEL, is_controlled_by
from gpuplatform.planning.plan import Absent, Observation, Plan, Present, Unknown
from gpuplatform.queueing import Queue, Urgency, enqueue_after_commit
from gpuplatform.reconciliation.driver import Ending, Reconciler
from gpuplatform.reconciliation.owned import Owned, ReadAtOnce, ReadNow, is_unsettled
from inventory.models import GpuSpec
from units.core.children import is_decided
from units.core.names import UNIT_UID_LABEL, deployment_name, service_name
from units.core.observed import (
    NoSource,
    ObservedUnit,
    Shortage,
    Source,
    SourceGone,
    SourceHeld,
    SourceLost,
    SourcePending,
    SourceReference,
    SourceUnread,
    source_of,
)
from units.core.plan import plan_unit
from units.core.statuses import farewell, is_up
from units.mirror import (
    unit_ending,
    unit_gone,
    unit_marked,
    unit_reconciled,
    unit_waiting_marked,
    units_listed,
)
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitReason, UnitRole, role_of
from units.selectors import is_unit_leftover, short_nodes, starts_void
from units.services.claims import consumed_stock
from units.services.names import UnitTask

OWNED_KINDS = (DEPLOYMENT, REPLICA_SET, POD, SERVICE)
_NOT_READ = Unknown("it was not asked for")
_NOTHING: Present[Sequence[Manifest]] = Present(())
_UNREAD = ObservedUnit(deployment=_NOT_READ, service=_NOT_READ, pods=_NOT_READ)


@dataclass(frozen=True, slots=True)
class Records:
    """What the database says of some units; read after they were."""

    consumed_by: Mapping[str, str]
    """By the UID of a stock unit that has a row: the UID of its consumer, or empty."""
    versions: Mapping[str, int]
    """By the same: the resource version that is known of it."""
    open_stock: frozenset[str]
    """Of those stock units, the UIDs of which something may be left: their row is not closed."""
    makers: Mapping[str, Operation]
    """By a unit's UID: the operation whose marks it bears."""
    open_operations: frozenset[int]
    """Of the operations last applied to them."""
    void_starts: set[str]
    """UIDs of units whose last applied operation is a start that came to nothing."""
    short_nodes: Sequence[Shortage]
    """Nodes that offer fewer GPUs than their pods hold."""

    @classmethod
    def of(cls, units: Sequence[Manifest]) -> "Records":
        """Read what is known of `units`; a few queries, however many they are."""
        sources = {source.uid for unit in units if (source := source_of(unit))}
        uids = sources | {unit["metadata"]["uid"] for unit in units}
        stock = GpuUnit.objects.filter(role=UnitRole.STOCK, uid__in=uids)
        known = list(stock.only("uid", "consumed_by", "resource_version", "deleted_at"))
        operations = operations_about(units)
        return cls(
            consumed_by={row.uid: row.consumed_by for row in known},
            versions={row.uid: row.resource_version for row in known},
            open_stock=frozenset(row.uid for row in known if not row.deleted_at),
            makers=makers_among(operations, units),
            open_operations=frozenset(one.pk for one in operations if one.phase in OPEN_PHASES),
            void_starts=starts_void(units, operations),
            short_nodes=short_nodes(),
        )

    def is_made(self, unit: Manifest) -> bool:
        """Say whether an operation made exactly this unit, or is about to have made it."""
        maker = self.makers.get(unit["metadata"]["uid"])
        return maker is not None and (
            maker.phase in OPEN_PHASES
            or (
                maker.phase == OperationPhase.SUCCEEDED
                and maker.object_uid == unit["metadata"]["uid"]
            )
        )

    def is_sourced(self, unit: Manifest, source: SourceReference) -> bool:
        """Say whether the platform gave `unit` this source, or is about to.

        A unit that a person made has one, too, once it was started; what a person wrote into it is
        none.
        """
        is_its = self.consumed_by.get(source.uid) == unit["metadata"]["uid"]
        return is_its or self.is_made(unit) or self.is_under_way(unit)

    def is_pending(self, unit: Manifest, source: SourceReference) -> bool:
        """Say whether the row of the source does not say who consumes it yet.

        A source without a row was consumed long ago, or before the database was lost, unless the
        operation that names it is still open.
        """
        if source.uid in self.consumed_by:
            return not self.consumed_by[source.uid]
        return self.is_under_way(unit)

    def is_under_way(self, unit: Manifest) -> bool:
        """Say whether an open operation made or changed `unit`."""
        maker = self.makers.get(unit["metadata"]["uid"])
        is_being_made = maker is not None and maker.phase in OPEN_PHASES
        return is_being_made or applied_operation(unit) in self.open_operations


def observe_unit(cluster: Cluster, unit: Manifest) -> ObservedUnit:
    """Read what `unit` owns, and what is left of its source. A forbidden read is `Unknown`.

    Raises:
        ClusterUnavailable: nothing can be said about the unit now; it stays as it is.
    """
    return _observed(ReadNow(cluster, UNIT_LABEL), Records.of([unit]), unit)


def _observed(owned: Owned, records: Records, unit: Manifest) -> ObservedUnit:
    metadata = unit["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    is_stock = role_of(unit["metadata"]["namespace"]) == UnitRole.STOCK
    if is_stock and (consumer := records.consumed_by.get(uid, "")):
        return replace(_UNREAD, consumed_by=consumer)  # It goes, whatever it owns.
    named = None if is_stock else source_of(unit)
    # A unit of which nothing was ever said, and whose stock may be there, does not run yet.
    is_waiting = named and named.uid in records.open_stock and not field(unit, "status", "phase")
    deployment = (
        _NOT_READ if is_waiting else owned.one(DEPLOYMENT, namespace, deployment_name(name))
    )
    source: Source = NoSource()
    if named is not None:
        if isinstance(deployment, Present) and is_decided(deployment.value, uid):
            source = SourceUnread()
        else:
            # The source first: what is seen of the unit itself is then no older.
            source = _source(owned, records, unit)
            deployment = owned.one(DEPLOYMENT, namespace, deployment_name(name))
    # Of a unit that is up its pods matter only for their node, and for how long they run again.
    has_failed = field(unit, "status", "phase") == UnitPhase.FAILED
    needs_pods = has_failed or records.short_nodes or not is_up(deployment)
    return ObservedUnit(
        deployment=deployment,
        service=owned.one(SERVICE, namespace, service_name(name)),
        pods=owned.all(POD, namespace, name) if needs_pods else _NOTHING,
        source=source,
        is_start_void=uid in records.void_starts,
        short_nodes=records.short_nodes,
        at=clock.now(),
    )


def _source(owned: Owned, records: Records, unit: Manifest) -> Source:
    """Say what holds the GPU that `unit` is to take over; the row of its source is the arbiter."""
    source, uid = source_of(unit), unit["metadata"]["uid"]
    if source is None:
        return NoSource()
    if not records.is_sourced(unit, source):
        return SourceLost()
    if records.is_pending(unit, source):
        return SourcePending()
    if records.consumed_by.get(source.uid, uid) != uid:
        return SourceLost()
    stock, left = _stock_remains(owned, records, source)
    if isinstance(left, Absent):
        name = str(field(unit, "spec", "specName") or "")
        is_quiet = GpuSpec.objects.filter(name=name, may_preempt=False).exists()
        is_news = source.uid in records.open_stock and isinstance(stock, Absent)
        return SourceGone(may_preempt=not is_quiet, is_news=is_news)
    return SourceHeld(left.value if isinstance(left, Present) else f"it is unknown: {left.why}")


def _stock_remains(
    owned: Owned, records: Records, source: SourceReference
) -> tuple[Observation[Manifest], Observation[str]]:
    """Look for the resource of that name, and for what is left of the stock unit."""
    version = records.versions.get(source.uid, 0)
    stock = owned.one_since(GPU_UNIT, STOCK_NAMESPACE, source.name, version)
    match stock:
        case Unknown():
            return stock, stock
        case Present(found) if found["metadata"]["uid"] == source.uid:
            return stock, Present("it is still there")
        case _:
            return stock, remains_of(owned, STOCK_NAMESPACE, source.name, source.uid)


def remains_of(owned: Owned, namespace: str, name: str, uid: str) -> Observation[str]:
    """Look for what a unit that is gone had; the order is the one in which things are made."""
    deployment = owned.one(DEPLOYMENT, namespace, deployment_name(name))
    if isinstance(deployment, Unknown):
        return deployment
    if isinstance(deployment, Present) and _belongs(deployment.value, uid):
        return Present("its Deployment is still there")
    for kind, words in ((REPLICA_SET, "its ReplicaSet is"), (POD, "its pods are")):
        found = owned.all(kind, namespace, name)
        if isinstance(found, Unknown):
            return found
        if not isinstance(found, Present):
            continue
        if left := [item for item in found.value if _may_bear(item, uid)]:
            return Present(f"{words} still there{_where(left)}")
    return Absent()


def _where(pods: Sequence[Manifest]) -> str:
    """Return on which nodes pods are, as the end of a clause; one that is lost is to be seen."""
    nodes = sorted({str(node) for pod in pods if (node := field(pod, "spec", "nodeName"))})
    return f", on {', '.join(nodes)}" if nodes else ""


def _belongs(deployment: Manifest, uid: str) -> bool:
    template = field(deployment, "spec", "template") or {}
    return is_controlled_by(deployment, uid) or _bears(template, uid)


def _bears(item: Manifest, uid: str) -> bool:
    return bool(field(item, "metadata", "labels", UNIT_UID_LABEL) == uid)


def _may_bear(item: Manifest, uid: str) -> bool:
    """Say so of what was found by the name, also where somebody took that mark away."""
    return _bears(item, uid) or not field(item, "metadata", "labels", UNIT_UID_LABEL)


def _remains(cluster: Cluster, row: GpuUnit) -> Observation[str]:
    return remains_of(ReadNow(cluster, UNIT_LABEL), row.namespace, row.name, row.uid)


def _close(rows: QuerySet[GpuUnit], successor: Manifest | None) -> None:
    """Close the row; the unit that waits for this stock, if it does, need not wait any longer."""
    consumers = list(rows.exclude(consumed_by="").values_list("consumed_by", flat=True))
    unit_gone(rows, successor)
    runs = Q(phase=UnitPhase.READY) | Q(reason=UnitReason.UNIT_PROGRESSING)
    waiting = GpuUnit.objects.filter(uid__in=consumers).exclude(runs)
    for number in unit_waiting_marked(waiting):
        enqueue_after_commit(
            UnitTask.RECONCILE_UNIT, number, queue=Queue.RECONCILE, urgency=Urgency.LATER
        )


def _note(unit: Manifest, observed: ObservedUnit) -> None:
    """Close the row of the stock of which nothing is left: what waited for that has seen it.

    Where something else has its name the stock's own turn does it, and makes that one's row.
    """
    match observed.source:
        case SourceGone(is_news=True):
            unit_gone(consumed_stock(unit).filter(deleted_at__isnull=True), None)
        case _:
            pass


def _rows() -> QuerySet[GpuUnit]:
    return GpuUnit.objects.filter(deleted_at__isnull=True)


UNITS = Reconciler(
    kind=GPU_UNIT,
    rows=_rows,
    observe=observe_unit,
    plan=plan_unit,
    record=unit_reconciled,
    note=_note,
    close=_close,
    farewell=lambda row: farewell(UnitRole(row.role), row.consumed_by),
    ending=Ending(unit_ending, _remains),
)


def compare_all(cluster: Cluster) -> list[int]:
    """Compare one list of everything with the mirror and the plan; mark what differs.

    Returns the numbers of the rows with something to do. Settled units cost no write.
    """
    listing = cluster.list(GPU_UNIT)
    owned = read_at_once(cluster, listing.items)
    due = units_listed(listing)
    for unit, _ in _unsettled(owned, listing.items):
        due += unit_marked(unit["metadata"]["namespace"], unit["metadata"]["name"])
    return due


def unsettled_units(cluster: Cluster) -> Iterator[tuple[Manifest, Plan]]:
    """Yield the units that are not as they should be, with what would be done."""
    units = cluster.list(GPU_UNIT).items
    yield from _unsettled(read_at_once(cluster, units), units)


def read_at_once(cluster: Cluster, units: Sequence[Manifest]) -> ReadAtOnce:
    """Read everything that units own; `units` were read before."""
    owned = ReadAtOnce(cluster, UNIT_LABEL, OWNED_KINDS)
    owned.know(GPU_UNIT, units)
    return owned


def _unsettled(owned: Owned, units: Sequence[Manifest]) -> Iterator[tuple[Manifest, Plan]]:
    known = set(_rows().exclude(uid="").values_list("uid", flat=True))
    own = [unit for unit in units if unit["metadata"]["uid"] in known]
    records = Records.of(own)
    for unit in own:
        plan = plan_unit(unit, _observed(owned, records, unit))
        if is_unsettled(unit, plan):
            yield unit, plan


def delete_leftovers(cluster: Cluster) -> int:
    """Delete what late writes of ended operations left, by UID; return how many.

    The object is read first and its operation second, so that an operation that ends meanwhile is
    seen as it ended. What has a row is none.
    """
    units = cluster.list(GPU_UNIT).items
    uids = [unit["metadata"]["uid"] for unit in units]
    known = set(GpuUnit.objects.filter(uid__in=uids).values_list("uid", flat=True))
    deleted = 0
    for unit in units:
        metadata = unit["metadata"]
        if metadata["uid"] not in known and is_unit_leftover(unit, operation_of(unit)):
            deleted += _delete(cluster, GPU_UNIT, metadata)
    return deleted


def _delete(cluster: Cluster, kind: ResourceKind, metadata: Manifest) -> bool:
    return cluster.delete(
        kind, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
    )
