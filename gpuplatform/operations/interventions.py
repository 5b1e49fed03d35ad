"""Interventions of operators: cancelling operations that wait, retrying operations that failed.

A cancellation is an operation on an operation; a retry is the same request under the operationID
of the retry. Called by API and admin.
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
    OperationTask,
    Request,
    check_writable,
    operation_accept,
)
from gpuplatform.operations.telemetry import operation_ended
from gpuplatform.queueing import Queue, enqueue_after_commit

OPERATION_KIND: Final = "Operation"
"""The kind of the object of a cancellation."""

ENDING_SECONDS: Final = 1.0


class Intervention(StrEnum):
    """The kinds of operation on operations."""

    CANCEL = "job.cancel"


def register_operations() -> None:
    """Register the kinds of operation of this app."""
    register(OperationKind(Intervention.CANCEL, _cancelled, needs_cluster=False))


def cancel_obstacle(operation: Operation) -> str:
    """Return why an operation cannot be cancelled, as a sentence; empty if it can."""
    when = _kind(operation).cancellable
    if operation.phase in ENDED_PHASES:
        return f"It has ended as {operation.phase}."
    if when is Cancellable.NEVER:
        return f"An operation of the kind '{operation.kind}' cannot be cancelled."
    if operation.cancelled_by_id:
        return "It is already being cancelled."
    if operation.phase == OperationPhase.RUNNING and when is not Cancellable.BETWEEN_STEPS:
        return "A worker executes it. Cancel it while it waits."
    if when is Cancellable.UNSTARTED and operation.reason:  # Each run that waits leaves one.
        return "It was started and may have been applied."
    return ""


def retry_obstacle(operation: Operation) -> str:
    """Return why an operation cannot be retried, as a sentence; empty if it can."""
    if operation.phase != OperationPhase.FAILED:
        return f"It has not failed: it is {operation.phase}."
    if not operation.error_retryable or _kind(operation).retry is None:
        return "It would fail again. Send a corrected request."
    retry = Operation.objects.filter(retry_of=operation).first()
    return f"It was already retried as '{retry}'." if retry else ""


def operation_cancel(*, operation: Operation, operation_id: str) -> Accepted:
    """Accept the cancellation of an open operation: what it created stays, the rest is not done.

    An operation that waits has ended when this returns. One that a worker executes ends after its
    current step, and the cancellation waits for that.

    Raises:
        PhaseConflict: it has ended, or can no longer be cancelled.
        OperationConflict: the operationID belongs to another request.
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
    )
    return operation_accept(request, prepare=prepare)


def operation_retry(*, operation: Operation, operation_id: str) -> Accepted:
    """Accept the request of a failed operation again, under another operationID.

    The failed operation stays unchanged, so replays of it return it. It can be retried once; if
    the retry fails, the retry can be retried.

    Raises:
        PhaseConflict: it has not failed, would fail again, or was already retried.
        OperationConflict: the operationID belongs to another request.
        PlatformError: the request is rejected as it would be for its caller.
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
    """Return the operation, locked: a worker that claims or ends it waits for this transaction."""
    rows = Operation.objects.select_related("tenant").filter(pk=operation.pk)
    # Foreign keys to it can still be inserted, such as in the history of its object.
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
    """Return the kind; for one that this release does not know, a kind without interventions."""
    try:
        return operation_kind(operation.kind)
    except InvariantBroken:
        return OperationKind(operation.kind)


def _cancelled(_: Cluster, operation: Operation) -> Outcome:
    """Wait until the cancelled operation has ended."""
    target = Operation.objects.filter(pk=operation.object_row or 0).first()
    if target is not None and target.phase in OPEN_PHASES:
        return Waiting(OperationWait.CANCELLING, "The current step ends first.", ENDING_SECONDS)
    if target is None or target.phase == OperationPhase.CANCELLED:
        return Done()
    return Failed("phase_conflict", f"The operation '{target}' ended as {target.phase} before.")
