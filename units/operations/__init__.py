"""Executes operations on GPU units and stock in the cluster.

Called by `operations.driver`. Every step is idempotent: if a worker is killed, another worker
repeats the step. Comments name rules of the model in `tests/model`, which is changed before the
code.
"""

from gpuplatform.operations.registry import Cancellable, OperationKind, register
from units.operations import changes, group_runs, groups, handover, retry, stock
from units.services import outcomes
from units.services.groups import settle_group_create, settle_group_delete
from units.services.names import UnitOperation
from units.void_starts import void_starts_to_retain
from units.waiting import places_of_operations


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
            queue_places=places_of_operations,
        ),
        OperationKind(
            kinds.START,
            handover.start,
            outcomes.settle_start,
            may.WAITING,
            retry.start,
            follow_up=handover.release_stock,
            queue_places=places_of_operations,
            retained=void_starts_to_retain,
        ),
        OperationKind(
            kinds.UPDATE, changes.update, outcomes.settle_change, may.UNSTARTED, retry.update
        ),
        OperationKind(kinds.STOP, changes.stop, outcomes.settle_change, may.NEVER, retry.stop),
        OperationKind(
            kinds.DELETE, changes.UNIT.delete, outcomes.settle_delete, may.NEVER, retry.delete
        ),
        OperationKind(
            kinds.GROUP_CREATE,
            groups.create,
            settle_group_create,
            may.WAITING,
            groups.retry_create,
            queue_places=places_of_operations,
        ),
        OperationKind(kinds.GROUP_STOP, group_runs.stop, retry=group_runs.retry_stop),
        OperationKind(kinds.GROUP_START, group_runs.start, retry=group_runs.retry_start),
        OperationKind(
            kinds.GROUP_DELETE,
            groups.delete,
            settle_group_delete,
            may.NEVER,
            groups.retry_delete,
        ),
        OperationKind(kinds.SEED, stock.seed, outcomes.settle_seed, may.BETWEEN_STEPS, retry.seed),
        OperationKind(
            kinds.REMOVE, stock.remove, outcomes.settle_remove, may.UNSTARTED, retry.remove
        ),
    ):
        register(kind)
