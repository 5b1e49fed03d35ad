"""Tasks that show that workers take and finish work."""

from celery import shared_task

from gpuplatform.reconciliation.heartbeats import Part, show_life


@shared_task(name="reconciliation.show_operations_life")
def show_operations_life() -> None:
    """Prove that an `operations` worker takes messages and reaches the database."""
    show_life(Part.OPERATIONS)


@shared_task(name="reconciliation.show_reconcile_life")
def show_reconcile_life() -> None:
    """Prove that a `reconcile` worker takes messages and reaches the database."""
    show_life(Part.RECONCILE)


@shared_task(name="reconciliation.show_periodic_life")
def show_periodic_life() -> None:
    """Prove that a `periodic` worker takes messages and reaches the database."""
    show_life(Part.PERIODIC)
