"""Celery tasks of the units. Each is a hint: safe to lose, to repeat, and beside itself."""

from celery import shared_task

from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.modes import get_cluster
from gpuplatform.queueing import MAX_QUEUED, Queue, enqueue_missed, enqueue_retry
from gpuplatform.reconciliation import driver, epoch, gate
from gpuplatform.reconciliation.heartbeats import Part, report_activity
from units.comparison import compare_all, delete_leftovers
from units.nodes import compare_nodes
from units.reconcile import UNITS
from units.selectors import units_due
from units.services.maintenance import capacity_sample, units_prune
from units.services.names import UnitTask
from units.services.stock import stock_tend

COMPARE_SECONDS = 50.0


@shared_task(name=UnitTask.RECONCILE_UNIT)
def reconcile_unit(row_id: int) -> None:
    """Move one unit of either role toward its spec; hint at when to look again."""
    report_activity(Part.RECONCILE)
    wait = driver.run(UNITS, row_id)
    enqueue_retry(UnitTask.RECONCILE_UNIT, row_id, wait, queue=Queue.RECONCILE)


@shared_task(name=UnitTask.SWEEP_UNITS)
def sweep_units() -> None:
    """Send a hint for every unit that is due: the guarantee that nothing is lost."""
    if gate.probe():
        due = units_due(MAX_QUEUED)
        enqueue_missed(UnitTask.RECONCILE_UNIT, due, queue=Queue.RECONCILE)


@shared_task(name=UnitTask.RECONCILE_ALL)
def reconcile_all_units() -> None:
    """Compare everything in the cluster with the mirror: what the watch may have missed."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            due = compare_all(get_cluster())
        enqueue_missed(UnitTask.RECONCILE_UNIT, due, queue=Queue.RECONCILE)


@shared_task(name=UnitTask.COMPARE_NODES)
def compare_gpu_nodes() -> None:
    """See which nodes are short of GPUs, and tell the stock on those that changed."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            due = compare_nodes(get_cluster())
        enqueue_missed(UnitTask.RECONCILE_UNIT, due, queue=Queue.RECONCILE)


@shared_task(name=UnitTask.DELETE_LEFTOVERS)
def remove_unit_leftovers() -> None:
    """Delete what late writes of ended operations left in the cluster."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            delete_leftovers(get_cluster())


@shared_task(name=UnitTask.TOP_UP_STOCK)
def top_up_stock() -> None:
    """Seed what is missing to the warm targets, and drain specs that are disabled."""
    if gate.probe() and epoch.matches():
        stock_tend()


@shared_task(name=UnitTask.SAMPLE_CAPACITY)
def sample_capacity() -> None:
    """Keep how the units of each spec stand."""
    capacity_sample()


@shared_task(name=UnitTask.PRUNE_UNITS)
def prune_units() -> None:
    """Forget units, history and samples that are old."""
    units_prune()
