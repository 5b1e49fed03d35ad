"""Compares all units with their rows and their plans, and deletes leftovers."""

from collections.abc import Iterator, Sequence
from typing import Final

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import (
    DEPLOYMENT,
    GPU_UNIT,
    JOB,
    POD,
    REPLICA_SET,
    SERVICE,
    Manifest,
)
from gpuplatform.operations.leftovers import delete_leftovers_of
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.planning.plan import Plan
from gpuplatform.reconciliation.owned import ListedObjects, Owned, is_unsettled
from units.core.plan import plan_unit
from units.makers import is_unit_leftover, units_kept
from units.mirror import UNIT_MIRROR
from units.models import GpuUnit
from units.observation import observed_in
from units.records import Records

OWNED_KINDS: Final = (DEPLOYMENT, REPLICA_SET, JOB, POD, SERVICE)


def compare_all(cluster: Cluster) -> list[int]:
    """List all units and their objects, and mark the rows that need work.

    Returns the ids of these rows. Rows of unchanged units are not written.
    """
    listing = cluster.list(GPU_UNIT)
    owned = read_at_once(cluster, listing.items)
    due = UNIT_MIRROR.listed(listing)
    for unit, _ in _unsettled(owned, listing.items):
        due += UNIT_MIRROR.marked(unit["metadata"]["namespace"], unit["metadata"]["name"])
    return due


def unsettled_units(cluster: Cluster) -> Iterator[tuple[Manifest, Plan]]:
    """Yield each unit whose plan would change something, with the plan."""
    units = cluster.list(GPU_UNIT).items
    yield from _unsettled(read_at_once(cluster, units), units)


def read_at_once(cluster: Cluster, units: Sequence[Manifest]) -> ListedObjects:
    """List all objects that units own; `units` are the units, which were read before."""
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
    """Delete the leftover units; return their number."""
    return delete_leftovers_of(cluster, GPU_UNIT, units_kept(), is_unit_leftover)
