"""Comparing the rows of units and stock with the cluster: is anything leaked, lost or doubled?

Called by `manage.py check_consistency`. Reads only.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import GPU_UNIT, Manifest, ResourceKind
from gpuplatform.operations.consistency import Fault, doubled_faults, full_name, row_faults
from gpuplatform.operations.phases import ENDED_PHASES
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER, UNIT_LABEL
from gpuplatform.reconciliation.owned import ReadAtOnce
from units.comparison import read_at_once
from units.core.names import STOCK_ORDINAL_ANNOTATION, UNIT_UID_LABEL
from units.core.sources import source_of
from units.models import GpuUnit
from units.phases import UnitRole, role_of
from units.records import Records


def unit_faults(cluster: Cluster) -> Iterator[Fault]:
    """Yield what rows and cluster do not agree on, and what cannot be.

    Raises:
        ClusterError: the cluster could not be read; nothing is known then.
    """
    units = cluster.list(GPU_UNIT).items
    owned = read_at_once(cluster, units)
    yield from row_faults(units, GpuUnit.objects.all())
    yield from doubled_faults(units, per=STOCK_ORDINAL_ANNOTATION)
    yield from _orphans(owned, {unit["metadata"]["uid"] for unit in units})
    yield from _source_faults([u for u in units if _is_active(u)])
    yield from _stock_faults({unit["metadata"]["uid"] for unit in units})


def _is_active(unit: Manifest) -> bool:
    return role_of(unit["metadata"]["namespace"]) == UnitRole.ACTIVE


def _orphans(owned: ReadAtOnce, uids: set[str]) -> Iterator[Fault]:
    """What a unit owned that is not there, and that no row waits for to be gone."""
    rows = GpuUnit.objects.filter(deleted_at__isnull=True).exclude(uid="")
    live = list(rows.values_list("uid", "namespace", "name"))
    known = uids | {uid for uid, *_ in live}
    names = {(namespace, name) for _, namespace, name in live}
    for kind, item in owned.everything():
        is_known = _owners(item) & known or _name_of_unmarked(item) in names
        if _is_ours(kind, item) and not is_known:
            yield Fault(
                "orphaned", f"{kind.kind} {full_name(item)}", "the unit that owned it is gone"
            )


def _is_ours(kind: ResourceKind, item: Manifest) -> bool:
    return kind != GPU_UNIT and field(item, "metadata", "labels", MANAGED_BY_LABEL) == MANAGER


def _owners(item: Manifest) -> set[str]:
    references = items(item, "metadata", "ownerReferences")
    named = {str(field(reference, "uid")) for reference in references}
    return named | {str(field(item, "metadata", "labels", UNIT_UID_LABEL))}


def _name_of_unmarked(item: Manifest) -> tuple[str, str] | None:
    """Return the unit that a pod names which lost the mark of its unit's UID."""
    if field(item, "metadata", "labels", UNIT_UID_LABEL):
        return None
    return item["metadata"]["namespace"], str(field(item, "metadata", "labels", UNIT_LABEL))


def _source_faults(units: Sequence[Manifest]) -> Iterator[Fault]:
    records = Records.of(units)
    named = [(unit, source) for unit in units if (source := source_of(unit))]
    made = [(unit, source) for unit, source in named if records.has_source(unit, source)]
    counts = Counter(source.uid for _, source in made)
    for unit, source in made:
        uid = unit["metadata"]["uid"]
        consumer = records.consumed_by.get(source.uid, uid)
        if counts[source.uid] > 1:
            message = f"another unit has the same stock '{source.name}' as its source"
            yield Fault("doubled", full_name(unit), message)
        elif consumer != uid and not records.is_pending(unit, source):
            message = f"its stock '{source.name}' was consumed by another unit"
            yield Fault("doubled", full_name(unit), message)
        elif not consumer and uid not in records.void_starts and not records.is_in_progress(unit):
            message = f"its stock '{source.name}' does not count as consumed"
            yield Fault("leaked", full_name(unit), message)


def _stock_faults(uids: set[str]) -> Iterator[Fault]:
    stock = GpuUnit.objects.filter(role=UnitRole.STOCK)
    for row in stock.filter(claimed_by__phase__in=ENDED_PHASES, deleted_at__isnull=True):
        yield Fault("leaked", str(row), "it is set aside for an operation that ended")
    consumed = stock.exclude(consumed_by="")
    for row in consumed.filter(uid__in=uids):
        yield Fault("leaked", str(row), "it was consumed, and its resource is still there")
    consumers = GpuUnit.objects.exclude(uid="").values("uid")
    for row in consumed.filter(deleted_at__isnull=True).exclude(consumed_by__in=consumers):
        yield Fault("lost", str(row), "a unit consumed it that no row knows")
