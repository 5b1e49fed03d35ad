"""Reads the units that a drain of a node concerns: what is left on it, and who has a notice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from django.db.models import Q

from gpuplatform import clock
from gpuplatform.kube.kinds import Manifest
from gpuplatform.postgresql.tenant_rows import all_rows
from gpuplatform.workloads.holders import NodeRecord
from inventory.models import Node, NodeDrain
from units.core.drain import Occupants, drain_state, unit_pods
from units.drain_states import DrainState
from units.models import RELEASED, GpuUnit
from units.phases import UnitRole


@dataclass(frozen=True, slots=True)
class UnitsOnNode:
    """The units with a pod on one of the nodes, sorted by namespace and name."""

    units: Sequence[GpuUnit]
    """The active units."""
    stock: Sequence[GpuUnit]
    """The stock units, including claimed and consumed ones."""


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """A drain in progress, with the units that are left on its node."""

    drain: NodeDrain
    state: DrainState
    left: UnitsOnNode


def occupants_of(pods: Iterable[Manifest]) -> Occupants:
    """Return the rows of the units of pods that no request ends yet. Runs one query."""
    uids, bound = unit_pods(pods)
    going = {"deleted_at": None, "deletion_requested_at": None}
    rows = list(GpuUnit.objects.filter(uid__in=uids, **going).order_by())
    active = [
        row
        for row in rows
        if row.role == UnitRole.ACTIVE and not (row.is_suspended or row.is_ended)
    ]
    stock = (
        row
        for row in rows
        if row.role == UnitRole.STOCK and row.claimed_by_id is None and not row.consumed_by
    )
    return Occupants(
        stock=frozenset(row.pk for row in stock),
        workers=frozenset(row.pk for row in active if is_worker(row)),
        units={row.pk: row.uid for row in active if not is_worker(row)},
        pods=bound,
    )


def is_worker(unit: GpuUnit) -> bool:
    """Return whether a unit is a worker of a function."""
    return "serverless" in unit.spec


def drains_progress(records: Mapping[str, NodeRecord]) -> dict[str, DrainProgress]:
    """Return the progress of each drain of the nodes, by the name of the node.

    Runs one query if none of the nodes is being drained, and otherwise two.
    """
    drains = list(NodeDrain.objects.filter(node__in=records).select_related("operation"))
    if not drains:
        return {}
    found = _rows_on({one.node: records[one.node] for one in drains})
    return {one.node: _progress(one, records[one.node], found) for one in drains}


def units_on(records: Mapping[str, NodeRecord]) -> UnitsOnNode:
    """Return the units on nodes. Runs one query."""
    return _by_role(_rows_on(records))


def _progress(drain: NodeDrain, record: NodeRecord, found: Sequence[GpuUnit]) -> DrainProgress:
    uids = _uids(record)
    left = _by_role([row for row in found if _is_on(row, drain.node, uids)])
    state = drain_state(
        record.state,
        drain.deadline,
        units=len(left.units),
        stock=len(left.stock),
        now=clock.now(),
    )
    return DrainProgress(drain, state, left)


def _by_role(rows: Sequence[GpuUnit]) -> UnitsOnNode:
    return UnitsOnNode(
        units=[row for row in rows if row.role == UnitRole.ACTIVE],
        stock=[row for row in rows if row.role == UnitRole.STOCK],
    )


@all_rows()
def notices_of(units: Sequence[GpuUnit]) -> dict[int, NodeDrain]:
    """Return the drain that stops each unit at the end of its notice, by the id of the unit.

    Runs no query if no unit can be on a node, one if no drain stops units, and otherwise two.
    """
    stoppable = [one for one in units if not (one.is_suspended or is_worker(one))]
    units = [one for one in stoppable if one.uid or one.node]
    drains = NodeDrain.objects.filter(deadline__isnull=False)
    by_node = {one.node: one for one in drains} if units else {}
    if not by_node:
        return {}
    nodes = Node.objects.filter(name__in=by_node).values_list("name", "holders")
    # Pods of other programs have no owner.
    uids = {
        name: frozenset(one["owner_uid"] for one in holders if one["owner_uid"])
        for name, holders in nodes
    }
    return {
        unit.pk: by_node[node]
        for node, held in uids.items()
        for unit in units
        if _is_on(unit, node, held)
    }


def _uids(record: NodeRecord) -> frozenset[str]:
    return frozenset(one.owner_uid for one in record.holders if one.owner_uid)


def _rows_on(records: Mapping[str, NodeRecord]) -> list[GpuUnit]:
    """Return the units on nodes. Of units without GPUs, only the last known node is known."""
    uids = chain.from_iterable(_uids(record) for record in records.values())
    without_gpus = Q(node__in=records, gpu=0) & ~RELEASED
    rows = GpuUnit.objects.filter(Q(uid__in=[*uids]) | without_gpus, deleted_at__isnull=True)
    return list(rows.select_related("tenant").order_by("namespace", "name"))


def _is_on(unit: GpuUnit, node: str, uids: frozenset[str]) -> bool:
    return unit.uid in uids or (unit.gpu == 0 and unit.node == node)
