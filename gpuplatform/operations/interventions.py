"""Cancels open operations and retries failed operations on behalf of operators.

A cancellation is an operation whose object is another operation. A retry is the request of the
failed operation with a new operationID. The API and the admin call this module.
"""

from enum import StrEnum
from typing import Final

from django.db import transaction
from django.db.models.functions import Now

from gpuplatform.errors import InvariantBroken, NotFound, PhaseConflict
from gpuplatform.kube.client import Cluster
from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import (
    ENDED_PHASES,
    OPEN_PHASES,
    OPERATION_TRANSITIONS,
    OperationPhase,
    OperationWait,
)
from gpuplatform.operations.registry import (
    Cancellable,
    Cancelled,
    Done,
    Failed,
    OperationKind,
    Outcome,
    RetryRequest,
    Waiting,
    operation_kind,
    register,
    settled_outcome,
)
from gpuplatform.operations.selectors import next_after
from gpuplatform.operations.services import (
    ENDED,
    Accepted,
    Admission,
    OperationTask,
    Request,
    check_writable,
    operation_accept,
)
from gpuplatform.operations.telemetry import operation_ended
from gpuplatform.queueing import Queue, enqueue_after_commit

OPERATION_KIND: Final = "Operation"
"""The object kind of a cancellation."""

ENDING_SECONDS: Final = 1.0


class Intervention(StrEnum):
    """The kinds of operation whose object is an operation."""

    CANCEL = "job.cancel"


def register_operations() -> None:
    """Register the operation kinds of this app."""
    register(OperationKind(Intervention.CANCEL, _cancelled, needs_cluster=False))


def cancel_obstacle(operation: Operation) -> str:
    """Return the reason why an operation cannot be cancelled, or an empty string if it can."""
    when = _kind(operation).cancellable
    if operation.phase in ENDED_PHASES:
        return f"It has ended as {operation.phase}."
    if when is Cancellable.NEVER:
        return f"An operation of the kind '{operation.kind}' cannot be cancelled."
    if operation.cancelled_by_id:
        return "It is already being cancelled."
    if operation.phase == OperationPhase.RUNNING and when is not Cancellable.BETWEEN_STEPS:
        return "A worker is executing it. Cancel it while it waits."
    if (
        when is Cancellable.UNSTARTED and operation.reason
    ):  # A run that ends in a wait sets the reason.
        return "It was started, so its change may already be applied."
    return ""


def retry_obstacle(operation: Operation) -> str:
    """Return the reason why an operation cannot be retried, or an empty string if it can."""
    if operation.phase != OperationPhase.FAILED:
        return f"It has not failed; its phase is {operation.phase}."
    if not operation.error_retryable or _kind(operation).retry is None:
        return "It would fail again. Send a corrected request."
    retry = Operation.objects.filter(retry_of=operation).first()
    return f"It was already retried as '{retry}'." if retry else ""


def operation_cancel(*, operation: Operation, operation_id: str) -> Accepted:
    """Accept a request to cancel an open operation. Objects that it created are not deleted.

    A waiting operation ends immediately. An operation that a worker executes ends after its
    current step; the cancellation waits until then.

    Raises:
        PhaseConflict: If the operation has ended or cannot be cancelled.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(cancellation: Operation) -> int:
        target = _locked(operation)
        if obstacle := cancel_obstacle(target):
            msg = f"The operation '{target}' cannot be cancelled. {obstacle}"
            raise PhaseConflict(msg)
        rows = Operation.objects.filter(pk=target.pk)
        if target.phase == OperationPhase.RUNNING:
            rows.update(cancelled_by=cancellation, updated_at=Now())
        else:
            _end(target, cancellation)
        return target.pk

    request = Request(
        tenant=operation.tenant,
        operation_id=operation_id,
        kind=Intervention.CANCEL,
        object_kind=OPERATION_KIND,
        namespace=operation.tenant.namespace,
        name=operation.operation_id,
        payload={},
        admission=Admission.ALWAYS,
    )
    return operation_accept(request, prepare=prepare)


def operation_retry(*, operation: Operation, operation_id: str) -> Accepted:
    """Accept the request of a failed operation again, with another operationID.

    The failed operation is unchanged: a replay of its request still returns it. It can be retried
    once. If the retry fails, the retry can be retried.

    Raises:
        PhaseConflict: If the operation has not failed, would fail again or was already retried.
        OperationConflict: If the operationID belongs to another request.
        PlatformError: If the request is rejected again.
    """
    check_writable()
    with transaction.atomic():
        failed = _locked(operation)
        known = Operation.objects.select_related("tenant").filter(retry_of=failed).first()
        if known is not None and known.operation_id == operation_id:
            return Accepted(known, is_replay=True)
        retry = _kind(failed).retry
        obstacle = retry_obstacle(failed)
        if obstacle or retry is None:
            msg = f"The operation '{failed}' cannot be retried. {obstacle}"
            raise PhaseConflict(msg)
        accepted = retry(RetryRequest(failed, operation_id))
        if not accepted.is_replay:
            Operation.objects.filter(pk=accepted.operation.pk).update(retry_of=failed)
        return accepted


def _locked(operation: Operation) -> Operation:
    """Lock the row of an operation against claims, until the transaction ends, and return it."""
    rows = Operation.objects.select_related("tenant").filter(pk=operation.pk)
    # `no_key` allows other transactions to insert foreign keys to the row.
    found = rows.select_for_update(of=("self",), no_key=True).first()
    if found is None:
        msg = f"The operation '{operation}' no longer exists."
        raise NotFound(msg)
    return found


def _end(target: Operation, cancellation: Operation) -> None:
    rows = Operation.objects.filter(pk=target.pk)
    moved = transition(
        rows,
        OPERATION_TRANSITIONS,
        OperationPhase.CANCELLED,
        cancelled_by=cancellation,
        updated_at=Now(),
        **ENDED,
    )
    if not moved:
        msg = f"{target} could not be cancelled although it is locked"
        raise InvariantBroken(msg)
    operation_kind(target.kind).settle(target, settled_outcome(Cancelled()))
    for following in next_after(target.pk):
        enqueue_after_commit(OperationTask.RUN, following, queue=Queue.OPERATIONS)
    transaction.on_commit(lambda: operation_ended(target, OperationPhase.CANCELLED))


def _kind(operation: Operation) -> OperationKind:
    """Return the kind of an operation. A kind that this release does not know has no retry."""
    try:
        return operation_kind(operation.kind)
    except InvariantBroken:
        return OperationKind(operation.kind)


def _cancelled(_: Cluster, operation: Operation) -> Outcome:
    """Execute a cancellation: wait until the cancelled operation has ended."""
    target = Operation.objects.filter(pk=operation.object_row or 0).first()
    if target is not None and target.phase in OPEN_PHASES:
        return Waiting(
            OperationWait.CANCELLING, "The operation ends after its current step.", ENDING_SECONDS
        )
    if target is None or target.phase == OperationPhase.CANCELLED:
        return Done()
    return Failed(
        "phase_conflict", f"The operation '{target}' had already ended as {target.phase}."
    )
