"""Applies outcomes and steps of operations to the rows, in the transactions that record them."""

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
    """Copy the created resource into the row, and consume the stock that it names."""
    unit_recorded(_row_of(operation).filter(uid=""), resource)
    _hand_over(operation, resource)


def unit_create_failed(operation: Operation, conflicting: Manifest | None) -> None:
    """Release the claim and close the row; copy the conflicting resource, if there is one."""
    release_claims(operation)
    unit_gone(_row_of(operation).filter(uid=""), conflicting)


def unit_started(operation: Operation, resource: Manifest) -> None:
    """Copy the started unit, and consume the stock that it names."""
    unit_recorded(_row_of(operation), resource)
    _hand_over(operation, resource)


def unit_start_failed(operation: Operation) -> None:
    """Release the claim; the unit counts as suspended, whether it was changed or not."""
    release_claims(operation)
    reconcile_soon(_row_of(operation))


def unit_changed(operation: Operation, resource: Manifest | None) -> None:
    """Copy the changed resource, and have it reconciled."""
    if resource is not None:
        unit_recorded(_row_of(operation), resource)
    reconcile_soon(_row_of(operation))


def unit_deletion_sent(operation: Operation) -> None:
    """Have the reconciler confirm the deletion; restock if the spec requests it."""
    reconcile_soon(_row_of(operation))
    for unit in _row_of(operation):
        restock(unit)


def stock_to_create(operation: Operation) -> QuerySet[GpuUnit]:
    """Return the rows of a seeding whose resource is not created yet, by ordinal."""
    rows = operation.gpu_units.filter(uid="", deleted_at__isnull=True)
    return rows.order_by("ordinal")


def stock_created(operation: Operation, step: Mapping[int, Manifest | None]) -> None:
    """Record what a step of a seeding created, by row id; None for rows that are not wanted.

    A recorded unit is never created again, even if it is deleted.
    """
    created = {row_id: resource for row_id, resource in step.items() if resource is not None}
    for row_id, resource in created.items():
        unit_recorded(GpuUnit.objects.filter(pk=row_id, uid=""), resource)
    unit_gone(GpuUnit.objects.filter(pk__in=step.keys() - created.keys(), uid=""), None)
    reconcile_soon(GpuUnit.objects.filter(pk__in=list(created)), Urgency.LAST)
    _progressed(operation, operation.progress_total - stock_to_create(operation).count())


def stock_seeding_ended(operation: Operation) -> None:
    """Close the rows whose resource was not created; the other units stay."""
    unit_gone(stock_to_create(operation).order_by(), None)


def stock_to_remove(operation: Operation) -> QuerySet[GpuUnit]:
    """Return the rows that a removal has yet to remove."""
    return GpuUnit.objects.filter(claimed_by=operation).order_by("id")


def stock_removal_sent(operation: Operation, rows: list[int]) -> None:
    """Record whose deletion was sent; the reconciler confirms it."""
    sent = GpuUnit.objects.filter(pk__in=rows, claimed_by=operation)
    sent.update(claimed_by=None)
    reconcile_soon(GpuUnit.objects.filter(pk__in=rows), Urgency.LAST)
    _progressed(operation, operation.progress_total - stock_to_remove(operation).count())


def stock_removal_failed(operation: Operation) -> None:
    """Release the rows that were not removed; their next copy sets their phase."""
    rows = GpuUnit.objects.filter(
        pk__in=list(stock_to_remove(operation).values_list("pk", flat=True))
    )
    withdraw_deletion(rows, claimed_by=None)
    reconcile_soon(rows, Urgency.LAST)


def _hand_over(operation: Operation, unit: Manifest) -> None:
    """Consume the stock; the unit waits for the deletion of the stock's pods."""
    if consume(operation, unit):
        reconcile_later(_row_of(operation), GPU_RELEASE_SECONDS)
    else:
        reconcile_soon(_row_of(operation), Urgency.LATER)


def _progressed(operation: Operation, done: int) -> None:
    Operation.objects.filter(pk=operation.pk).update(progress_done=done)


def _row_of(operation: Operation) -> QuerySet[GpuUnit]:
    return GpuUnit.objects.filter(pk=operation.object_row or 0)
