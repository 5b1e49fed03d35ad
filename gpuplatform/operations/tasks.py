"""Celery tasks of the write path. Each is a hint: safe to lose, to repeat, and beside itself."""

from celery import shared_task

from gpuplatform.operations import driver
from gpuplatform.operations.registry import kind_names, operations_retained
from gpuplatform.operations.selectors import next_after, operations_due
from gpuplatform.operations.services import OperationTask, operations_prune
from gpuplatform.queueing import MAX_QUEUED, Queue, enqueue, enqueue_missed, enqueue_retry
from gpuplatform.reconciliation import gate
from gpuplatform.reconciliation.heartbeats import Part, report_activity


@shared_task(name=OperationTask.RUN)
def run_operation(operation_number: int) -> None:
    """Take one operation as far as it goes; hint at what comes next."""
    report_activity(Part.OPERATIONS)
    wait = driver.run(operation_number, when_ended=_hint_at_next)
    enqueue_retry(OperationTask.RUN, operation_number, wait, queue=Queue.OPERATIONS)


@shared_task(name=OperationTask.SWEEP)
def sweep_operations() -> None:
    """Send a hint for everything that is due: the guarantee that nothing is lost."""
    kinds = kind_names(without_cluster=not gate.probe())
    enqueue_missed(OperationTask.RUN, operations_due(MAX_QUEUED, kinds), queue=Queue.OPERATIONS)


@shared_task(name=OperationTask.PRUNE)
def prune_operations() -> None:
    """Forget operations whose retention is over."""
    operations_prune(operations_retained())


def _hint_at_next(ended: int) -> None:
    """Hint at what waited behind an operation. Only whoever ended that one does.

    Hints are repeated by sweeps. If each that comes late led to another one, a queue that was long
    once would stay as long for as long as somebody asks for more.
    """
    for following in next_after(ended):
        enqueue(OperationTask.RUN, following, queue=Queue.OPERATIONS)
