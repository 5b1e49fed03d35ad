"""Celery tasks of units. A task can be lost, repeated, and run concurrently."""

from celery import shared_task

from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.modes import get_cluster
from gpuplatform.queueing import MAX_QUEUED, Queue, enqueue_missed, enqueue_retry
from gpuplatform.reconciliation import driver, epoch, gate
from gpuplatform.reconciliation.heartbeats import Part, report_activity
from inventory.models import GpuSpec
from inventory.selectors import drain_ids
from units.comparison import compare_all, delete_leftovers
from units.drains import drain_advance
from units.nodes import compare_nodes
from units.preemption_events import announce_preemptions
from units.pullers import keep_warm_images
from units.reconcile import UNITS
from units.selectors import units_due
from units.services.maintenance import capacity_sample, units_prune
from units.services.matcher import match_spec
from units.services.names import UnitTask
from units.services.stock import stock_tend, stock_tend_spec
from units.services.usage import usage_sweep
from units.waiting import queued_specs, specs_of_requests

COMPARE_SECONDS = 50.0


@shared_task(name=UnitTask.RECONCILE_UNIT)
def reconcile_unit(row_id: int) -> None:
    """Reconcile one unit of either role; enqueue it again if it has to wait."""
    report_activity(Part.RECONCILE)
    wait = driver.run(UNITS, row_id)
    enqueue_retry(UnitTask.RECONCILE_UNIT, row_id, wait, queue=Queue.RECONCILE)


@shared_task(name=UnitTask.SWEEP_UNITS)
def sweep_units() -> None:
    """Enqueue the due units, in case their messages were lost."""
    if gate.probe():
        due = units_due(MAX_QUEUED)
        enqueue_missed(UnitTask.RECONCILE_UNIT, due, queue=Queue.RECONCILE)


@shared_task(name=UnitTask.RECONCILE_ALL)
def reconcile_all_units() -> None:
    """Compare the cluster with the mirror to find changes that the watch missed."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            due = compare_all(get_cluster())
        enqueue_missed(UnitTask.RECONCILE_UNIT, due, queue=Queue.RECONCILE)


@shared_task(name=UnitTask.COMPARE_NODES)
def compare_gpu_nodes() -> None:
    """Find nodes with a GPU shortage, and enqueue the units on nodes whose shortage changed."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            due = compare_nodes(get_cluster())
        enqueue_missed(UnitTask.RECONCILE_UNIT, due, queue=Queue.RECONCILE)


@shared_task(name=UnitTask.KEEP_WARM_IMAGES)
def keep_all_warm_images() -> None:
    """Create and delete the pullers of warm images, and record the states of the images."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            keep_warm_images(get_cluster())


@shared_task(name=UnitTask.DELETE_LEFTOVERS)
def remove_unit_leftovers() -> None:
    """Delete the units that late writes of ended operations created."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            delete_leftovers(get_cluster())


@shared_task(name=UnitTask.TOP_UP_STOCK)
def top_up_stock() -> None:
    """Top up the stock to the warm targets, and remove the stock of disabled GPU specs."""
    if gate.probe() and epoch.matches():
        stock_tend()


@shared_task(name=UnitTask.TEND_SPEC)
def tend_spec(spec_id: int) -> None:
    """Apply a created or changed GPU spec to its stock and to the pullers of its warm images.

    The stock is topped up, or removed if the spec is disabled.
    """
    spec = GpuSpec.objects.filter(pk=spec_id).first()
    if spec is not None and gate.probe() and epoch.matches():
        stock_tend_spec(spec, waits=True)
        with deadline(COMPARE_SECONDS):
            keep_warm_images(get_cluster())


@shared_task(name=UnitTask.MATCH_REQUESTS)
def match_requests(row_id: int) -> None:
    """Grant stock to the open requests of the GPU spec of a request, and seed what is missing."""
    report_activity(Part.OPERATIONS)
    for spec_name in specs_of_requests([row_id]):
        match_spec(spec_name, may_seed=gate.probe() and epoch.matches())


@shared_task(name=UnitTask.SWEEP_REQUESTS)
def sweep_requests() -> None:
    """Grant stock to the open requests of all GPU specs, and announce preemptions.

    It replaces messages that were lost.
    """
    may_seed = gate.probe() and epoch.matches()
    for spec_name in queued_specs():
        match_spec(spec_name, may_seed=may_seed)
    if may_seed:
        with deadline(COMPARE_SECONDS):
            announce_preemptions(get_cluster())


@shared_task(name=UnitTask.ANNOUNCE_PREEMPTIONS)
def announce_preemption(row_id: int) -> None:
    """Write the Events about the notices for a request."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            announce_preemptions(get_cluster(), row_id)


@shared_task(name=UnitTask.ADVANCE_DRAIN)
def advance_drain(row_id: int) -> None:
    """Take the next steps of the drain of a node."""
    if gate.probe() and epoch.matches():
        with deadline(COMPARE_SECONDS):
            drain_advance(get_cluster(), row_id)


@shared_task(name=UnitTask.SWEEP_DRAINS)
def sweep_drains() -> None:
    """Enqueue all drains in progress."""
    if gate.probe():
        enqueue_missed(UnitTask.ADVANCE_DRAIN, drain_ids(), queue=Queue.PERIODIC)


@shared_task(name=UnitTask.SWEEP_USAGE)
def sweep_usage() -> None:
    """Complete the usage intervals, and compute and seal the hourly records."""
    usage_sweep()


@shared_task(name=UnitTask.SAMPLE_CAPACITY)
def sample_capacity() -> None:
    """Insert a capacity sample for each GPU spec."""
    capacity_sample()


@shared_task(name=UnitTask.PRUNE_UNITS)
def prune_units() -> None:
    """Delete the rows of units, their history and samples past their retention."""
    units_prune()
