"""How operations on GPU units and stock are done in the cluster.

Called by `operations.driver`. Each step may be repeated at any point: a worker that was killed is
followed by one that knows nothing of it. The rules named in comments are those of the model in
`tests/model`; it is changed before this is.
"""

from gpuplatform.operations.registry import OperationKind, register
from units.operations import changes, handover, stock
from units.services import UnitOperation


def register_operations() -> None:
    """Make the kinds of operation of this app known."""
    register(OperationKind(UnitOperation.CREATE, handover.create, handover.settle_create))
    register(OperationKind(UnitOperation.START, handover.start, handover.settle_start))
    register(OperationKind(UnitOperation.UPDATE, changes.update, changes.settle_change))
    register(OperationKind(UnitOperation.STOP, changes.stop, changes.settle_change))
    register(OperationKind(UnitOperation.DELETE, changes.delete, changes.settle_delete))
    register(OperationKind(UnitOperation.SEED, stock.seed, stock.settle_seed))
    register(OperationKind(UnitOperation.REMOVE, stock.remove, stock.settle_remove))
