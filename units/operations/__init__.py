"""Executes operations on GPU units and stock in the cluster.

Called by `operations.driver`. Every step is idempotent: if a worker is killed, another worker
repeats the step. Comments name rules of the model in `tests/model`, which is changed before the
code.
"""

from gpuplatform.operations.registry import Cancellable, OperationKind, register
from units.operations import changes, handover, retry, stock
from units.selectors import void_starts_to_retain
from units.services import outcomes
from units.services.names import UnitOperation


def register_operations() -> None:
    """Register the operation kinds of this app."""
    kinds, may = UnitOperation, Cancellable
    # The model requires that a stop and a deletion never fail and cannot be cancelled.
    for kind in (
        OperationKind(
            kinds.CREATE,
            handover.create,
            outcomes.settle_create,
            may.WAITING,
            retry.create,
            follow_up=handover.release_stock,
        ),
        OperationKind(
            kinds.START,
            handover.start,
            outcomes.settle_start,
            may.WAITING,
            retry.start,
            follow_up=handover.release_stock,
            retained=void_starts_to_retain,
        ),
        OperationKind(
            kinds.UPDATE, changes.update, outcomes.settle_change, may.UNSTARTED, retry.update
        ),
        OperationKind(kinds.STOP, changes.stop, outcomes.settle_change, may.NEVER, retry.stop),
        OperationKind(
            kinds.DELETE, changes.UNIT.delete, outcomes.settle_delete, may.NEVER, retry.delete
        ),
        OperationKind(kinds.SEED, stock.seed, outcomes.settle_seed, may.BETWEEN_STEPS, retry.seed),
        OperationKind(
            kinds.REMOVE, stock.remove, outcomes.settle_remove, may.UNSTARTED, retry.remove
        ),
    ):
        register(kind)
