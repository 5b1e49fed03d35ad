"""Reads the database state that the planner of units needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES, OperationPhase
from gpuplatform.operations.provenance import applied_operation
from gpuplatform.operations.selectors import makers_among, operations_about
from inventory.models import GpuSpec
from units.core.shortage import Shortage
from units.core.sources import SourceReference, source_of
from units.models import GpuUnit
from units.phases import UnitRole
from units.selectors import short_nodes, starts_void


@dataclass(frozen=True, slots=True)
class Records:
    """The database state of some units, read after the units themselves."""

    consumed_by: Mapping[str, str]
    """UID of the consumer of each stock unit that has a row. Unconsumed stock has an empty UID."""
    versions: Mapping[str, int]
    """Resource version of the row of each stock unit."""
    open_stock: frozenset[str]
    """UIDs of the stock units whose row is open. Their objects may still exist."""
    creators: Mapping[str, Operation]
    """The operation that the annotations of each unit name as its creator, by UID of the unit."""
    open_operations: frozenset[int]
    """Ids of the open operations among those last applied to the units."""
    void_starts: set[str]
    """UIDs of units whose last applied operation is a start that failed or was cancelled."""
    short_nodes: Sequence[Shortage]
    """The nodes with a GPU shortage."""

    @classmethod
    def of(cls, units: Sequence[Manifest]) -> "Records":
        """Read the state of `units`, with a constant number of queries."""
        sources = {source.uid for unit in units if (source := source_of(unit))}
        uids = sources | {unit["metadata"]["uid"] for unit in units}
        stock = GpuUnit.objects.filter(role=UnitRole.STOCK, uid__in=uids)
        known = list(stock.only("uid", "consumed_by", "resource_version", "deleted_at"))
        operations = operations_about(units)
        return cls(
            consumed_by={row.uid: row.consumed_by for row in known},
            versions={row.uid: row.resource_version for row in known},
            open_stock=frozenset(row.uid for row in known if not row.deleted_at),
            creators=makers_among(operations, units),
            open_operations=frozenset(one.pk for one in operations if one.phase in OPEN_PHASES),
            void_starts=starts_void(units, operations),
            short_nodes=short_nodes(),
        )

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
        uid = unit["metadata"]["uid"]
        creator = self.creators.get(uid)
        return (
            creator is not None
            and creator.phase == OperationPhase.SUCCEEDED
            and creator.object_uid == uid
        )


def may_preempt(unit: Manifest) -> bool:
    """Return whether the GPU spec of a unit allows it to preempt other pods."""
    name = str(field(unit, "spec", "specName") or "")
    return not GpuSpec.objects.filter(name=name, may_preempt=False).exists()
