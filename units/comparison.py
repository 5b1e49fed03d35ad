"""Comparing all units with the mirror and the plan, and deleting leftovers."""

from collections.abc import Iterator, Sequence
from typing import Final

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, REPLICA_SET, SERVICE, Manifest
from gpuplatform.operations.selectors import operation_of
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.planning.plan import Plan
from gpuplatform.reconciliation.owned import ListedObjects, Owned, is_unsettled
from units.core.plan import plan_unit
from units.mirror import UNIT_MIRROR
from units.models import GpuUnit
from units.observation import observed_in
from units.records import Records
from units.selectors import is_unit_leftover

OWNED_KINDS: Final = (DEPLOYMENT, REPLICA_SET, POD, SERVICE)


def compare_all(cluster: Cluster) -> list[int]:
    """Compare one list of everything with the mirror and the plan; mark what differs.

    Returns the ids of rows with something to do. Settled units cost no write.
    """
    listing = cluster.list(GPU_UNIT)
    owned = read_at_once(cluster, listing.items)
    due = UNIT_MIRROR.listed(listing)
    for unit, _ in _unsettled(owned, listing.items):
        due += UNIT_MIRROR.marked(unit["metadata"]["namespace"], unit["metadata"]["name"])
    return due


def unsettled_units(cluster: Cluster) -> Iterator[tuple[Manifest, Plan]]:
    """Yield the units that differ from their plan, with the plan."""
    units = cluster.list(GPU_UNIT).items
    yield from _unsettled(read_at_once(cluster, units), units)


def read_at_once(cluster: Cluster, units: Sequence[Manifest]) -> ListedObjects:
    """Read everything that units own; `units` were read before."""
    owned = ListedObjects(cluster, UNIT_LABEL, OWNED_KINDS)
    owned.add(GPU_UNIT, units)
    return owned


def _unsettled(owned: Owned, units: Sequence[Manifest]) -> Iterator[tuple[Manifest, Plan]]:
    open_rows = GpuUnit.objects.filter(deleted_at__isnull=True).exclude(uid="")
    known = set(open_rows.values_list("uid", flat=True))
    own = [unit for unit in units if unit["metadata"]["uid"] in known]
    records = Records.of(own)
    for unit in own:
        plan = plan_unit(unit, observed_in(owned, records, unit))
        if is_unsettled(unit, plan):
            yield unit, plan


def delete_leftovers(cluster: Cluster) -> int:
    """Delete what late writes of ended operations left, by UID; return their number.

    The resource is read first and its operation second, so that an operation that ends in between
    is known as ended. A resource with a row is not a leftover.
    """
    units = cluster.list(GPU_UNIT).items
    uids = [unit["metadata"]["uid"] for unit in units]
    known = set(GpuUnit.objects.filter(uid__in=uids).values_list("uid", flat=True))
    deleted = 0
    for unit in units:
        metadata = unit["metadata"]
        if metadata["uid"] in known or not is_unit_leftover(unit, operation_of(unit)):
            continue
        deleted += cluster.delete(
            GPU_UNIT, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
        )
    return deleted
