"""Finds inconsistencies of units and stock: leaked, lost and duplicate objects.

Called by `manage.py check_consistency`. Changes nothing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import GPU_UNIT, NODE, POD, Manifest, ResourceKind
from gpuplatform.operations.consistency import (
    Inconsistency,
    duplicates,
    full_name,
    row_inconsistencies,
)
from gpuplatform.operations.phases import ENDED_PHASES
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER, UNIT_LABEL
from gpuplatform.reconciliation.owned import ListedObjects
from gpuplatform.workloads.holders import PlacedHolder, holder_of, node_records
from gpuplatform.workloads.nodes import NodeState
from inventory.selectors import node_records_known
from units.capacity import capacity
from units.comparison import read_at_once
from units.core.names import STOCK_ORDINAL_ANNOTATION, UNIT_UID_LABEL
from units.core.sources import source_of
from units.models import CapacityRequest, GpuUnit
from units.phases import RequestPhase, UnitRole, role_of
from units.quota_consistency import quota_inconsistencies
from units.records import Records
from units.usage_consistency import usage_inconsistencies


def unit_inconsistencies(cluster: Cluster) -> Iterator[Inconsistency]:
    """Yield the inconsistencies between rows and cluster, among rows, and among resources.

    Raises:
        ClusterError: If the cluster cannot be read.
    """
    units = cluster.list(GPU_UNIT).items
    owned = read_at_once(cluster, units)
    yield from row_inconsistencies(units, GpuUnit.objects.all())
    yield from duplicates(units, per=_ordinal)
    yield from _orphans(owned, {unit["metadata"]["uid"] for unit in units})
    yield from _source_inconsistencies([u for u in units if _is_active(u)])
    yield from _stock_inconsistencies({unit["metadata"]["uid"] for unit in units})
    placed = [one for pod in cluster.list(POD).items if (one := holder_of(pod))]
    yield from _node_inconsistencies(cluster, placed)
    yield from _request_inconsistencies()
    yield from usage_inconsistencies()
    yield from quota_inconsistencies(units, placed)


def _ordinal(unit: Manifest) -> str:
    """Return which of the units of its operation a unit is: of a seeding, or of a group."""
    ordinal = field(unit, "metadata", "annotations", STOCK_ORDINAL_ANNOTATION)
    return f"{ordinal} {field(unit, 'spec', 'group', 'rank')}"


def _node_inconsistencies(
    cluster: Cluster, placed: Sequence[PlacedHolder]
) -> Iterator[Inconsistency]:
    """Yield nodes whose rows differ from the cluster, and products whose GPUs do not add up.

    A cluster whose nodes have never been observed has no rows.
    """
    found = node_records(map(NodeState.of, cluster.list(NODE).items), placed)
    known = node_records_known()
    if known is None:
        return
    for name in sorted({*found, *known}):
        if found.get(name) != known.get(name):
            yield Inconsistency("miscounted", f"node {name}", "its row differs from the cluster")
    for product in capacity().products or ():
        counted = product.free + sum(product.gpus.values())
        if counted != product.allocatable:
            message = f"{product.allocatable} are allocatable, and {counted} are counted"
            name = f"{product.resource_name} of {product.name or 'nodes without a product'}"
            yield Inconsistency("miscounted", name, message)


def _is_active(unit: Manifest) -> bool:
    return role_of(unit["metadata"]["namespace"]) == UnitRole.ACTIVE


def _orphans(owned: ListedObjects, uids: set[str]) -> Iterator[Inconsistency]:
    """Yield objects whose unit is deleted, unless an open row waits for their deletion."""
    rows = GpuUnit.objects.filter(deleted_at__isnull=True).exclude(uid="")
    live = list(rows.values_list("uid", "namespace", "name"))
    known = uids | {uid for uid, *_ in live}
    names = {(namespace, name) for _, namespace, name in live}
    for kind, item in owned.everything():
        is_known = _owners(item) & known or _name_of_unlabeled(item) in names
        if _is_managed(kind, item) and not is_known:
            yield Inconsistency(
                "orphaned", f"{kind.kind} {full_name(item)}", "its owner is deleted"
            )


def _is_managed(kind: ResourceKind, item: Manifest) -> bool:
    return kind != GPU_UNIT and field(item, "metadata", "labels", MANAGED_BY_LABEL) == MANAGER


def _owners(item: Manifest) -> set[str]:
    references = items(item, "metadata", "ownerReferences")
    named = {str(field(reference, "uid")) for reference in references}
    return named | {str(field(item, "metadata", "labels", UNIT_UID_LABEL))}


def _name_of_unlabeled(item: Manifest) -> tuple[str, str] | None:
    """Return the namespace and the unit name of an object without the label of the unit's UID."""
    if field(item, "metadata", "labels", UNIT_UID_LABEL):
        return None
    return item["metadata"]["namespace"], str(field(item, "metadata", "labels", UNIT_LABEL))


def _source_inconsistencies(units: Sequence[Manifest]) -> Iterator[Inconsistency]:
    records = Records.of(units)
    named = [(unit, source) for unit in units if (source := source_of(unit))]
    given = [(unit, source) for unit, source in named if records.has_source(unit, source)]
    counts = Counter(source.uid for _, source in given)
    for unit, source in given:
        uid = unit["metadata"]["uid"]
        consumer = records.consumed_by.get(source.uid, uid)
        if counts[source.uid] > 1:
            message = f"another unit has the same source, stock unit '{source.name}'"
            yield Inconsistency("doubled", full_name(unit), message)
        elif consumer != uid and not records.is_pending(unit, source):
            message = f"another unit consumed its source, stock unit '{source.name}'"
            yield Inconsistency("doubled", full_name(unit), message)
        elif not consumer and uid not in records.void_starts and not records.is_in_progress(unit):
            message = f"its source, stock unit '{source.name}', is not marked as consumed"
            yield Inconsistency("leaked", full_name(unit), message)


def _request_inconsistencies() -> Iterator[Inconsistency]:
    """Yield requests that are not closed although their operation has ended."""
    alive = CapacityRequest.objects.exclude(phase=RequestPhase.CLOSED).select_related("operation")
    for request in alive.filter(operation__phase__in=ENDED_PHASES):
        yield Inconsistency("leaked", str(request), "an operation that has ended waits for stock")


def _stock_inconsistencies(uids: set[str]) -> Iterator[Inconsistency]:
    stock = GpuUnit.objects.filter(role=UnitRole.STOCK)
    for row in stock.filter(claimed_by__phase__in=ENDED_PHASES, deleted_at__isnull=True):
        yield Inconsistency(
            "leaked", str(row), "an operation that has ended still claims the stock unit"
        )
    consumed = stock.exclude(consumed_by="")
    for row in consumed.filter(uid__in=uids):
        yield Inconsistency(
            "leaked", str(row), "the stock unit was consumed, but its resource still exists"
        )
    consumers = GpuUnit.objects.exclude(uid="").values("uid")
    for row in consumed.filter(deleted_at__isnull=True).exclude(consumed_by__in=consumers):
        yield Inconsistency("lost", str(row), "the consumer of the stock unit has no row")
