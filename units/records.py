"""Reads the database state that the planner of units needs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from gpuplatform.clock import parse_rfc3339
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES, OperationPhase
from gpuplatform.operations.provenance import applied_operation
from gpuplatform.operations.selectors import makers_among, operations_about
from gpuplatform.workloads.holders import NodeRecord
from inventory.models import GpuSpec
from inventory.selectors import node_records_among
from units.core.child import possible_kinds
from units.core.sources import SourceReference, source_of
from units.makers import GROUP_CREATE_KIND, is_made_by
from units.models import GpuUnit
from units.phases import UnitRole
from units.void_starts import START_KIND, starts_void

_STARTS: Final = frozenset({"unit.create", GROUP_CREATE_KIND, START_KIND})


@dataclass(frozen=True, slots=True)
class Records:
    """The database state of some units, read after the units themselves."""

    consumed_by: Mapping[str, str]
    """UID of the consumer of each stock unit that has a row. Unconsumed stock has an empty UID."""
    consumed_at: Mapping[str, datetime]
    """The time at which each stock unit was consumed, by its UID."""
    versions: Mapping[str, int]
    """Resource version of the row of each stock unit."""
    open_stock: frozenset[str]
    """UIDs of the stock units whose row is open. Their objects may still exist."""
    accepted_at: Mapping[int, datetime]
    """The time at which each create and start of the units was accepted, by id."""
    creators: Mapping[str, Operation]
    """The operation that the annotations of each unit name as its creator, by UID of the unit."""
    open_operations: frozenset[int]
    """Ids of the open operations among those last applied to the units."""
    void_starts: set[str]
    """UIDs of units whose last applied operation is a start that failed or was cancelled."""
    stock_kinds: Mapping[str, Sequence[ResourceKind]]
    """The kinds of the objects that run the pod of each stock unit, by its UID."""
    nodes: "NodesOfUnits"
    """The last known nodes of the units and their sources."""

    @classmethod
    def of(cls, units: Sequence[Manifest]) -> "Records":
        """Read the state of `units`, with a constant number of queries."""
        sources = {source.uid for unit in units if (source := source_of(unit))}
        uids = {unit["metadata"]["uid"] for unit in units}
        rows = GpuUnit.objects.filter(uid__in=uids | sources)
        columns = (
            "uid",
            "role",
            "consumed_by",
            "consumed_at",
            "resource_version",
            "deleted_at",
            "node",
            "generation",
            "spec",
        )
        found = list(rows.only(*columns))
        known = [row for row in found if row.role == UnitRole.STOCK]
        operations = operations_about(units)
        return cls(
            consumed_by={row.uid: row.consumed_by for row in known},
            consumed_at={row.uid: row.consumed_at for row in known if row.consumed_at},
            versions={row.uid: row.resource_version for row in known},
            open_stock=frozenset(row.uid for row in known if not row.deleted_at),
            accepted_at={one.pk: one.created_at for one in operations if one.kind in _STARTS},
            creators=makers_among(operations, units),
            open_operations=frozenset(one.pk for one in operations if one.phase in OPEN_PHASES),
            void_starts=starts_void(units, operations),
            stock_kinds={row.uid: possible_kinds(row.spec, row.generation) for row in known},
            nodes=NodesOfUnits(found, uids, sources),
        )

    def claimed_at(self, unit: Manifest) -> datetime | None:
        """Return the time at which the last start of `unit` was requested.

        If the unit was changed after its start, it is the time at which its source was consumed.
        """
        source = source_of(unit)
        consumed = self.consumed_at.get(source.uid) if source else None
        created = field(unit, "metadata", "creationTimestamp")
        known = self.accepted_at.get(applied_operation(unit)) or consumed
        return known or (parse_rfc3339(created) if isinstance(created, str) else None)

    def has_source(self, unit: Manifest, source: SourceReference) -> bool:
        """Return whether an operation of the platform gave `unit` this source.

        Annotations that were written with kubectl do not count.
        """
        is_consumer = self.consumed_by.get(source.uid) == unit["metadata"]["uid"]
        return is_consumer or self._is_created(unit) or self.is_in_progress(unit)

    def is_pending(self, unit: Manifest, source: SourceReference) -> bool:
        """Return whether the source has no consumer yet.

        A source without a row counts as consumed, unless the operation that names it is open: its
        row was deleted after the retention, or the database was lost.
        """
        if source.uid in self.consumed_by:
            return not self.consumed_by[source.uid]
        return self.is_in_progress(unit)

    def is_in_progress(self, unit: Manifest) -> bool:
        """Return whether an operation that created or changed `unit` is open."""
        creator = self.creators.get(unit["metadata"]["uid"])
        is_being_created = creator is not None and creator.phase in OPEN_PHASES
        return is_being_created or applied_operation(unit) in self.open_operations

    def _is_created(self, unit: Manifest) -> bool:
        """Return whether a successful operation created exactly this unit."""
        creator = self.creators.get(unit["metadata"]["uid"])
        return (
            creator is not None
            and creator.phase == OperationPhase.SUCCEEDED
            and is_made_by(unit, creator)
        )


class NodesOfUnits:
    """The last known nodes of units, which are read when they are needed.

    The record of a node contains all pods with GPUs on it. Most runs of the reconciler of an
    active unit need no record.
    """

    def __init__(
        self, rows: Iterable[GpuUnit], units: Collection[str], sources: Collection[str]
    ) -> None:
        """Create a reader for the rows of units and their sources, of which these are the UIDs."""
        placed = [row for row in rows if row.node]
        own = [row for row in placed if row.uid in units]
        self._names = {row.uid: row.node for row in placed}
        self._of_stock = {row.node for row in own if row.role == UnitRole.STOCK}
        self._of_active = {row.node for row in own if row.role != UnitRole.STOCK}
        self._of_sources = {row.node for row in placed if row.uid in sources}

    def own(self, uid: str) -> NodeRecord | None:
        """Return the node of a unit, or `None` if it is not known.

        The node of an active unit is only returned if its pods hold more GPUs than it offers.
        """
        return self._own.get(self._names.get(uid, ""))

    def of_source(self, uid: str) -> NodeRecord | None:
        """Return the node of a source, or `None` if it is not known."""
        return self._sources.get(self._names.get(uid, ""))

    @cached_property
    def _own(self) -> Mapping[str, NodeRecord]:
        return node_records_among(self._of_stock, if_short=self._of_active)

    @cached_property
    def _sources(self) -> Mapping[str, NodeRecord]:
        return node_records_among(self._of_sources)


def may_preempt(unit: Manifest) -> bool:
    """Return whether the GPU spec of a unit allows it to preempt other pods."""
    name = str(field(unit, "spec", "specName") or "")
    return not GpuSpec.objects.filter(name=name, may_preempt=False).exists()
