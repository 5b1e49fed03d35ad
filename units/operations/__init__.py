"""Executes operations on GPU units and stock in the cluster.

Called by `operations.driver`. Each step can be repeated: after a worker is killed, another one
starts without its knowledge. The rules in comments are those of the model in `tests/model`, which
is changed before the code.
"""

from gpuplatform.operations.registry import Cancellable, OperationKind, register
from units.operations import changes, handover, retry, stock
from units.selectors import void_starts_to_retain
from units.services.names import UnitOperation


def register_operations() -> None:
    """Register the kinds of operation of this app."""
    kinds, may = UnitOperation, Cancellable
    # A stop and a deletion never fail and cannot be cancelled: the model depends on it.
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
            kinds.DELETE, changes.UNIT.delete, changes.settle_delete, may.NEVER, retry.delete
        ),
        OperationKind(kinds.SEED, stock.seed, stock.settle_seed, may.BETWEEN_STEPS, retry.seed),
        OperationKind(
            kinds.REMOVE, stock.remove, stock.settle_remove, may.UNSTARTED, retry.remove
        ),
    ):
        register(kind)
