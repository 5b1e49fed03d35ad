"""How operations on GPU units and stock are done in the cluster.

Called by `operations.driver`. Each step may be repeated at any point: a worker that was killed is
followed by one that knows nothing of it. The rules named in comments are those of the model in
`tests/model`; it is changed before this is.
"""

from gpuplatform.operations.registry import Cancellable, OperationKind, register
from units.operations import again, changes, handover, stock
from units.selectors import starts_void_kept
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
            again.create_again,
            afterwards=handover.release_stock,
        ),
        OperationKind(
            kinds.START,
            handover.start,
            handover.settle_start,
            may.WAITING,
            again.start_again,
            afterwards=handover.release_stock,
            kept=starts_void_kept,
        ),
        OperationKind(
            kinds.UPDATE, changes.update, changes.settle_change, may.UNSTARTED, again.update_again
        ),
        OperationKind(
            kinds.STOP, changes.stop, changes.settle_change, may.NEVER, again.stop_again
        ),
        OperationKind(
            kinds.DELETE, changes.delete, changes.settle_delete, may.NEVER, again.delete_again
        ),
        OperationKind(
            kinds.SEED, stock.seed, stock.settle_seed, may.BETWEEN_PARTS, again.seed_again
        ),
        OperationKind(
            kinds.REMOVE, stock.remove, stock.settle_remove, may.UNSTARTED, again.remove_again
        ),
    ):
        register(kind)
