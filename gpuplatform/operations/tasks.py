"""Celery tasks of operations. Each is a hint: it can be lost, repeated and run concurrently."""

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
    """Execute one operation as far as possible; enqueue the operation that waits for it."""
    report_activity(Part.OPERATIONS)
    wait = driver.run(row_id, on_end=_enqueue_next)
    enqueue_retry(OperationTask.RUN, row_id, wait, queue=Queue.OPERATIONS)


@shared_task(name=OperationTask.SWEEP)
def sweep_operations() -> None:
    """Enqueue every due operation, so that none is lost."""
    kinds = kind_names(without_cluster=not gate.probe())
    enqueue_missed(OperationTask.RUN, operations_due(MAX_QUEUED, kinds), queue=Queue.OPERATIONS)


@shared_task(name=OperationTask.PRUNE)
def prune_operations() -> None:
    """Delete operations past their retention."""
    operations_prune(operations_retained())


def _enqueue_next(ended: int) -> None:
    """Enqueue the operation that waited for an ended one.

    Only the run that ended it does so. Sweeps repeat hints; if every late hint enqueued another
    one, a queue that was long once would stay long under load.
    """
    for following in next_after(ended):
        enqueue(OperationTask.RUN, following, queue=Queue.OPERATIONS)
