"""Tasks that show that workers take and finish work."""

from celery import shared_task

from gpuplatform.reconciliation.heartbeats import Part, report_heartbeat


@shared_task(name="reconciliation.report_operations_heartbeat")
def report_operations_heartbeat() -> None:
    """Prove that an `operations` worker takes messages and reaches the database."""
    report_heartbeat(Part.OPERATIONS)


@shared_task(name="reconciliation.report_reconcile_heartbeat")
def report_reconcile_heartbeat() -> None:
    """Prove that a `reconcile` worker takes messages and reaches the database."""
    report_heartbeat(Part.RECONCILE)


@shared_task(name="reconciliation.report_periodic_heartbeat")
def report_periodic_heartbeat() -> None:
    """Prove that a `periodic` worker takes messages and reaches the database."""
    report_heartbeat(Part.PERIODIC)
