"""Rows of an outcome: called in the transaction that ends an operation, or writes a step down."""

from collections.abc import Mapping

from django.db.models import QuerySet

from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.queueing import Urgency
from gpuplatform.reconciliation.mirror import withdraw_deletion
from units.mirror import unit_gone, unit_recorded
from units.models import GpuUnit
from units.services.claims import (
    GPU_RELEASE_SECONDS,
    consume,
    reconcile_later,
    reconcile_soon,
    release_claims,
)
from units.services.stock import restock


def unit_created(operation: Operation, resource: Manifest) -> None:
    """Give the row its resource, and the unit the stock that it names."""
    unit_recorded(_row_of(operation).filter(uid=""), resource)
    _hand_over(operation, resource)


def unit_create_failed(operation: Operation, in_the_way: Manifest | None) -> None:
    """Free the claim and close the row of a unit that was never made; show what has its name."""
    release_claims(operation)
    unit_gone(_row_of(operation).filter(uid=""), in_the_way)


def unit_started(operation: Operation, resource: Manifest) -> None:
    """Copy the unit, and give it the stock that it names."""
    unit_recorded(_row_of(operation), resource)
    _hand_over(operation, resource)


def unit_start_failed(operation: Operation) -> None:
    """Free the claim; the unit counts as suspended, whether the change reached it or not."""
    release_claims(operation)
    reconcile_soon(_row_of(operation))


def unit_changed(operation: Operation, resource: Manifest | None) -> None:
    """Copy the changed resource and let it be reconciled."""
    if resource is not None:
        unit_recorded(_row_of(operation), resource)
    reconcile_soon(_row_of(operation))


def unit_deletion_sent(operation: Operation) -> None:
    """Let the reconciler see that the resource is gone; restock where the spec says so."""
    reconcile_soon(_row_of(operation))
    for unit in _row_of(operation):
        restock(unit)


def stock_to_create(operation: Operation) -> QuerySet[GpuUnit]:
    """Return the rows of a seeding whose resource is not known yet, in their order."""
    rows = operation.gpu_units.filter(uid="", deleted_at__isnull=True)
    return rows.order_by("ordinal")


def stock_created(operation: Operation, seen: Mapping[int, Manifest | None]) -> None:
    """Write down, by row, what a step of a seeding made; None for what is wanted no more.

    What is written down is never made again, whatever becomes of it.
    """
    made = {number: resource for number, resource in seen.items() if resource is not None}
    for number, resource in made.items():
        unit_recorded(GpuUnit.objects.filter(pk=number, uid=""), resource)
    unit_gone(GpuUnit.objects.filter(pk__in=seen.keys() - made.keys(), uid=""), None)
    reconcile_soon(GpuUnit.objects.filter(pk__in=list(made)), Urgency.LAST)
    _progressed(operation, operation.progress_total - stock_to_create(operation).count())


def stock_seeding_ended(operation: Operation) -> None:
    """Close the rows that were never made; what was made stays."""
    unit_gone(stock_to_create(operation).order_by(), None)


def stock_to_remove(operation: Operation) -> QuerySet[GpuUnit]:
    """Return the rows that a removal has still to remove."""
    return GpuUnit.objects.filter(claimed_by=operation).order_by("id")


def stock_removal_sent(operation: Operation, rows: list[int]) -> None:
    """Write down whose deletion was asked for; the reconciler sees when they are gone."""
    sent = GpuUnit.objects.filter(pk__in=rows, claimed_by=operation)
    sent.update(claimed_by=None)
    reconcile_soon(GpuUnit.objects.filter(pk__in=rows), Urgency.LAST)
    _progressed(operation, operation.progress_total - stock_to_remove(operation).count())


def stock_removal_failed(operation: Operation) -> None:
    """Give back what was not removed: its next copy shows it as it is."""
    rows = GpuUnit.objects.filter(
        pk__in=list(stock_to_remove(operation).values_list("pk", flat=True))
    )
    withdraw_deletion(rows, claimed_by=None)
    reconcile_soon(rows, Urgency.LAST)


def _hand_over(operation: Operation, unit: Manifest) -> None:
    """Consume the stock; the end of its pods is the event that the unit waits for."""
    if consume(operation, unit):
        reconcile_later(_row_of(operation), GPU_RELEASE_SECONDS)
    else:
        reconcile_soon(_row_of(operation), Urgency.LATER)


def _progressed(operation: Operation, done: int) -> None:
    Operation.objects.filter(pk=operation.pk).update(progress_done=done)


def _row_of(operation: Operation) -> QuerySet[GpuUnit]:
    return GpuUnit.objects.filter(pk=operation.object_row or 0)
