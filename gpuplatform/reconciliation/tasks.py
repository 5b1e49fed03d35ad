"""Heartbeat tasks, which show that a worker receives messages and completes tasks."""

from celery import shared_task

from gpuplatform.reconciliation.heartbeats import Part, report_heartbeat


@shared_task(name="reconciliation.report_operations_heartbeat")
def report_operations_heartbeat() -> None:
    """Record the heartbeat of the `operations` worker."""
    report_heartbeat(Part.OPERATIONS)


@shared_task(name="reconciliation.report_reconcile_heartbeat")
def report_reconcile_heartbeat() -> None:
    """Record the heartbeat of the `reconcile` worker."""
    report_heartbeat(Part.RECONCILE)


@shared_task(name="reconciliation.report_periodic_heartbeat")
def report_periodic_heartbeat() -> None:
    """Record the heartbeat of the `periodic` worker."""
    report_heartbeat(Part.PERIODIC)
