"""What the database knows of units, read for one run or for a comparison of all."""

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
    """What the database knows of some units; read after the units were."""

    consumed_by: Mapping[str, str]
    """By the UID of a stock unit that has a row: the UID of its consumer, or empty."""
    versions: Mapping[str, int]
    """By the same: the resource version that is known of it."""
    open_stock: frozenset[str]
    """UIDs of those stock units whose row is open: objects of them may exist."""
    creators: Mapping[str, Operation]
    """By a unit's UID: the operation that its annotations name."""
    open_operations: frozenset[int]
    """Ids of the open ones among the operations last applied to the units."""
    void_starts: set[str]
    """UIDs of units whose last applied operation is a start that failed or was cancelled."""
    short_nodes: Sequence[Shortage]
    """Nodes that offer fewer GPUs than their pods hold."""

    @classmethod
    def of(cls, units: Sequence[Manifest]) -> "Records":
        """Read what is known of `units`, in a few queries whatever their number."""
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
        """Return whether the platform gave `unit` this source, or is about to.

        A unit that was created with kubectl also has one once it was started; annotations that
        were written with kubectl do not count.
        """
        is_consumer = self.consumed_by.get(source.uid) == unit["metadata"]["uid"]
        return is_consumer or self._is_created(unit) or self.is_in_progress(unit)

    def is_pending(self, unit: Manifest, source: SourceReference) -> bool:
        """Return whether the row of the source has no consumer yet.

        A source without a row was consumed long ago, or before the database was lost, unless the
        operation that names it is still open.
        """
        if source.uid in self.consumed_by:
            return not self.consumed_by[source.uid]
        return self.is_in_progress(unit)

    def is_in_progress(self, unit: Manifest) -> bool:
        """Return whether an open operation created or changed `unit`."""
        creator = self.creators.get(unit["metadata"]["uid"])
        is_being_created = creator is not None and creator.phase in OPEN_PHASES
        return is_being_created or applied_operation(unit) in self.open_operations

    def _is_created(self, unit: Manifest) -> bool:
        """Return whether an operation created exactly this unit, or is creating it."""
        creator = self.creators.get(unit["metadata"]["uid"])
        return creator is not None and (
            creator.phase in OPEN_PHASES
            or (
                creator.phase == OperationPhase.SUCCEEDED
                and creator.object_uid == unit["metadata"]["uid"]
            )
        )


def may_preempt(unit: Manifest) -> bool:
    """Return whether a unit of this GPU spec may evict others for the GPU that its stock held."""
    name = str(field(unit, "spec", "specName") or "")
    return not GpuSpec.objects.filter(name=name, may_preempt=False).exists()
