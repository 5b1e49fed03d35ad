"""How operations on GPU units and stock are done in the cluster.

Called by `operations.driver`. Each step may be repeated at any point: a worker that was killed is
followed by one that knows nothing of it. The rules named in comments are those of the model in
`tests/model`; it is changed before this is.
"""

from gpuplatform.operations.registry import Cancellable, OperationKind, register
from units.operations import changes, handover, retry, stock
from units.selectors import void_starts_to_retain
from units.services.names import UnitOperation


def register_operations() -> None:
    """Make the kinds of operation of this app known."""
    kinds, may = UnitOperation, Cancellable
    # A stop and a deletion never fail and are never taken back: the model rests on it.
    for kind in (
        OperationKind(
            kinds.CREATE,
            handover.create,
            handover.settle_create,
            may.WAITING,
            retry.create,
            follow_up=handover.release_stock,
        ),
        OperationKind(
            kinds.START,
            handover.start,
            handover.settle_start,
            may.WAITING,
            retry.start,
            follow_up=handover.release_stock,
            retained=void_starts_to_retain,
        ),
        OperationKind(
            kinds.UPDATE, changes.update, changes.settle_change, may.UNSTARTED, retry.update
        ),
        OperationKind(kinds.STOP, changes.stop, changes.settle_change, may.NEVER, retry.stop),
        OperationKind(
            kinds.DELETE, changes.delete, changes.settle_delete, may.NEVER, retry.delete
        ),
        OperationKind(kinds.SEED, stock.seed, stock.settle_seed, may.BETWEEN_PARTS, retry.seed),
        OperationKind(
            kinds.REMOVE, stock.remove, stock.settle_remove, may.UNSTARTED, retry.remove
        ),
    ):
        register(kind)
