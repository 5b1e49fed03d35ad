"""Records the steps and outcomes of operations on units, in the transactions that record them.

The `settle_*` functions are called in the transaction that ends the operation.
"""

from collections.abc import Mapping

from django.db.models import QuerySet

from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.registry import Done, Failed
from gpuplatform.queueing import Urgency
from gpuplatform.reconciliation.mirror import withdraw_deletion
from units.mirror import unit_gone, unit_recorded
from units.models import CapacityRequest, GpuUnit
from units.pods_seen import pods_expected
from units.services.claims import (
    GPU_RELEASE_SECONDS,
    consume,
    reconcile_later,
    reconcile_soon,
    release_claims,
)
from units.services.queue import requests_close
from units.services.stock import restock, top_up_continue


def settle_create(operation: Operation, outcome: Done | Failed) -> None:
    """Copy the created unit and consume its source, or release the claim and close the row."""
    rows = _row_of(operation)
    _close_request(operation)
    if isinstance(outcome, Failed):
        release_claims(operation)
        unit_gone(rows.filter(uid=""), outcome.resource)
    elif outcome.resource is not None:
        unit_recorded(rows.filter(uid=""), outcome.resource)
        _hand_over(operation, outcome.resource)


def settle_start(operation: Operation, outcome: Done | Failed) -> None:
    """Copy the started unit and consume its source, or release the claim.

    After a failure, the unit counts as suspended, whether the start changed it or not.
    """
    rows = _row_of(operation)
    _close_request(operation)
    if isinstance(outcome, Failed):
        release_claims(operation)
        reconcile_soon(rows)
    elif outcome.resource is not None:
        unit_recorded(rows, outcome.resource)
        _hand_over(operation, outcome.resource)


def settle_change(operation: Operation, outcome: Done | Failed) -> None:
    """Copy the changed or stopped unit and enqueue it."""
    if isinstance(outcome, Done):
        if outcome.resource is not None:
            unit_recorded(_row_of(operation), outcome.resource)
        reconcile_soon(_row_of(operation))


def settle_delete(operation: Operation, outcome: Done | Failed) -> None:
    """Enqueue the unit, so that the reconciler confirms the deletion, and restock if required."""
    if isinstance(outcome, Done):
        reconcile_soon(_row_of(operation))
        for unit in _row_of(operation):
            restock(unit)


def stock_to_create(operation: Operation) -> QuerySet[GpuUnit]:
    """Return the rows of a seeding whose resource is not created yet, sorted by ordinal."""
    rows = operation.gpu_units.filter(uid="", deleted_at__isnull=True)
    return rows.order_by("ordinal")


def stock_created(operation: Operation, step: Mapping[int, Manifest | None]) -> None:
    """Record the result of a step of a seeding.

    `step` contains the created resource of each row id, or `None` for a row whose removal was
    requested before. A recorded unit is never created again, even if it is deleted.
    """
    created = {row_id: resource for row_id, resource in step.items() if resource is not None}
    for row_id, resource in created.items():
        unit_recorded(GpuUnit.objects.filter(pk=row_id, uid=""), resource)
    unit_gone(GpuUnit.objects.filter(pk__in=step.keys() - created.keys(), uid=""), None)
    reconcile_soon(GpuUnit.objects.filter(pk__in=list(created)), Urgency.LAST)
    _progressed(operation, operation.progress_total - stock_to_create(operation).count())


def settle_seed(operation: Operation, outcome: Done | Failed) -> None:
    """Close the rows whose resource was not created. The other stock units are kept.

    After a top-up that succeeded, its GPU spec is enqueued again.
    """
    unit_gone(stock_to_create(operation).order_by(), None)
    if isinstance(outcome, Done):
        top_up_continue(operation)


def stock_to_remove(operation: Operation) -> QuerySet[GpuUnit]:
    """Return the rows that a removal has not removed yet."""
    return GpuUnit.objects.filter(claimed_by=operation).order_by("id")


def stock_removal_sent(operation: Operation, rows: list[int]) -> None:
    """Record the ids of rows whose resource was deleted; the reconciler confirms the deletion."""
    sent = GpuUnit.objects.filter(pk__in=rows, claimed_by=operation)
    sent.update(claimed_by=None)
    reconcile_soon(GpuUnit.objects.filter(pk__in=rows), Urgency.LAST)
    _progressed(operation, operation.progress_total - stock_to_remove(operation).count())


def settle_remove(operation: Operation, outcome: Done | Failed) -> None:
    """Release the stock units that were not removed. The next copy of each sets its phase."""
    if isinstance(outcome, Failed):
        rows = GpuUnit.objects.filter(
            pk__in=list(stock_to_remove(operation).values_list("pk", flat=True))
        )
        withdraw_deletion(rows, claimed_by=None)
        reconcile_soon(rows, Urgency.LAST)


def _hand_over(operation: Operation, unit: Manifest) -> None:
    """Consume the source and enqueue the unit, which waits until the source's pods have ended."""
    pods_expected(_row_of(operation))
    if consume(operation, unit):
        reconcile_later(operation.object_row or 0, GPU_RELEASE_SECONDS)
    else:
        reconcile_soon(_row_of(operation), Urgency.LATER)


def _close_request(operation: Operation) -> None:
    """Close the request of an operation that ends (rule `endcloses`)."""
    requests_close(CapacityRequest.objects.filter(operation=operation))


def _progressed(operation: Operation, done: int) -> None:
    Operation.objects.filter(pk=operation.pk).update(progress_done=done)


def _row_of(operation: Operation) -> QuerySet[GpuUnit]:
    return GpuUnit.objects.filter(pk=operation.object_row or 0)
