"""Celery tasks of stock pools. A task can be lost, repeated, and run concurrently."""

from celery import shared_task

from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.modes import get_cluster
from gpuplatform.queueing import MAX_QUEUED, Queue, enqueue_missed, enqueue_retry
from gpuplatform.reconciliation import driver, epoch, gate
from gpuplatform.reconciliation.heartbeats import Part, report_activity
from inventory.reconcile import POOLS, compare_all, delete_leftovers
from inventory.selectors import pools_due
from inventory.services.pools import InventoryTask, pools_prune

COMPARE_SECONDS = 50.0


@shared_task(name=InventoryTask.RECONCILE_POOL)
def reconcile_pool(row_id: int) -> None:
    """Reconcile one stock pool; enqueue it again if it has to wait."""
    report_activity(Part.RECONCILE)
    wait = driver.run(POOLS, row_id)
    enqueue_retry(InventoryTask.RECONCILE_POOL, row_id, wait, queue=Queue.RECONCILE)


@shared_task(name=InventoryTask.SWEEP_POOLS)
def sweep_pools() -> None:
    """Enqueue the due stock pools, in case their messages were lost."""
    if gate.probe():
        due = pools_due(MAX_QUEUED)
        enqueue_missed(InventoryTask.RECONCILE_POOL, due, queue=Queue.RECONCILE)


@shared_task(name=InventoryTask.RECONCILE_ALL)
def reconcile_all() -> None:
    """Compare the cluster with the mirror to find changes that the watch missed."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            due = compare_all(get_cluster())
        enqueue_missed(InventoryTask.RECONCILE_POOL, due, queue=Queue.RECONCILE)


@shared_task(name=InventoryTask.DELETE_LEFTOVERS)
def remove_leftovers() -> None:
    """Delete the stock pools that late writes of ended operations created."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            delete_leftovers(get_cluster())


@shared_task(name=InventoryTask.PRUNE_POOLS)
def prune_pools() -> None:
    """Delete the rows of stock pools past their retention."""
    pools_prune()
