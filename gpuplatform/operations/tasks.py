"""Celery tasks of operations. Messages are hints: tasks may be lost, repeated or concurrent."""

from celery import shared_task

from gpuplatform.operations import driver
from gpuplatform.operations.registry import kind_names, operations_retained
from gpuplatform.operations.selectors import next_after, operations_due
from gpuplatform.operations.services import OperationTask, operations_prune
from gpuplatform.queueing import MAX_QUEUED, Queue, enqueue, enqueue_missed, enqueue_retry
from gpuplatform.reconciliation import gate
from gpuplatform.reconciliation.heartbeats import Part, report_activity


@shared_task(name=OperationTask.RUN)
def run_operation(row_id: int) -> None:
    """Execute an operation as far as possible, then enqueue the operation that waits for it.

    It is the operation with this id, or the next one in the fair order.
    """
    report_activity(Part.OPERATIONS)
    ran = driver.run_next(row_id, on_end=_enqueue_next)
    if ran is not None:
        claimed, wait = ran
        enqueue_retry(OperationTask.RUN, claimed, wait, queue=Queue.OPERATIONS)


@shared_task(name=OperationTask.SWEEP)
def sweep_operations() -> None:
    """Enqueue every due operation whose message may be lost."""
    kinds = kind_names(without_cluster=not gate.probe())
    enqueue_missed(OperationTask.RUN, operations_due(MAX_QUEUED, kinds), queue=Queue.OPERATIONS)


@shared_task(name=OperationTask.PRUNE)
def prune_operations() -> None:
    """Delete operations after their retention."""
    operations_prune(operations_retained())


def _enqueue_next(ended: int) -> None:
    """Enqueue the operation that waited for the ended operation.

    Only the run that ended the operation calls this. Sweeps send messages repeatedly: if each
    message enqueued another one, a long queue would never become shorter under load.
    """
    for following in next_after(ended):
        enqueue(OperationTask.RUN, following, queue=Queue.OPERATIONS)
