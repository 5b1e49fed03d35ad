"""What operators do about jobs: cancelling what waits, and asking again for what failed.

Each is a write of its own: a cancellation is an operation on an operation, and a retry is the same
request under the operationID of whoever asks for it. Called by API and admin.
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
"""The kind of the objects of this app's own operations."""

ENDING_SECONDS: Final = 1.0


class Intervention(StrEnum):
    """The kinds of operation on operations."""

    CANCEL = "job.cancel"


def register_operations() -> None:
    """Make the kinds of operation of this app known."""
    register(
        OperationKind(Intervention.CANCEL, _cancelled, _nothing_to_settle, needs_cluster=False)
    )


def cancel_obstacle(operation: Operation) -> str:
    """Return why an operation cannot be cancelled, as a sentence; empty when it can."""
    when = _kind(operation).cancellable
    if operation.phase in ENDED_PHASES:
        return f"The job '{operation}' has ended as {operation.phase}; nothing is left to cancel."
    if when is Cancellable.NEVER:
        return f"A job of the kind '{operation.kind}' cannot be taken back; let it end."
    if operation.cancelled_by_id:
        return f"The job '{operation}' is being cancelled already."
    if operation.phase == OperationPhase.RUNNING and when is not Cancellable.BETWEEN_PARTS:
        return f"A worker is at the job '{operation}'; cancel it when it waits, or let it end."
    if when is Cancellable.UNSTARTED and operation.reason:  # Each run that waits leaves one.
        return f"The job '{operation}' was begun and may have been done; let it end."
    return ""


def retry_obstacle(operation: Operation) -> str:
    """Return why an operation cannot be asked for again, as a sentence; empty when it can."""
    if operation.phase != OperationPhase.FAILED:
        return f"The job '{operation}' has not failed: it is {operation.phase}."
    if not operation.error_retryable or _kind(operation).retry is None:
        return f"The job '{operation}' would fail again; send a corrected request."
    again = Operation.objects.filter(retry_of=operation).first()
    return f"The job '{operation}' was asked for again as '{again}'." if again else ""


def operation_cancel(*, operation: Operation, operation_id: str) -> Accepted:
    """Accept that an open operation ends as it is: what it made stays, the rest is given up.

    What waits has ended when this returns; of what a worker has, the end follows the part that the
    worker is at, and the accepted job waits for it.

    Raises:
        PhaseConflict: it has ended, or can no longer be taken back.
        OperationConflict: the operationID belongs to another request.
    """

    def prepare(made: Operation) -> int:
        target = _locked(operation)
        if obstacle := cancel_obstacle(target):
            raise PhaseConflict(obstacle)
        rows = Operation.objects.filter(pk=target.pk)
        if target.phase == OperationPhase.RUNNING:
            rows.update(cancelled_by=made, updated_at=Now())
        else:
            _end(target, made)
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
    """Accept once more what failed, under another operationID and after all that came since.

    The failed one stays as it is, so that its own replays answer as before. It can be asked for
    again once; the next time it is the new one that is asked for again.

    Raises:
        PhaseConflict: it has not failed, would fail again, or was asked for again already.
        OperationConflict: the operationID belongs to another request.
        PlatformError: the request is refused as it would be from its caller.
    """
    check_writable()
    with transaction.atomic():
        failed = _locked(operation)
        before = Operation.objects.select_related("tenant").filter(retry_of=failed).first()
        if before is not None and before.operation_id == operation_id:
            return Accepted(before, is_replay=True)
        retry = _kind(failed).retry
        obstacle = retry_obstacle(failed)
        if obstacle or retry is None:
            raise PhaseConflict(obstacle)
        accepted = retry(RetryRequest(failed, operation_id))
        if not accepted.is_replay:
            Operation.objects.filter(pk=accepted.operation.pk).update(retry_of=failed)
        return accepted


def _locked(operation: Operation) -> Operation:
    """Return the operation as it is, kept so: whoever claims or ends it waits for this."""
    rows = Operation.objects.select_related("tenant").filter(pk=operation.pk)
    # Others may refer to it meanwhile, as the history of its object does.
    found = rows.select_for_update(of=("self",), no_key=True).first()
    if found is None:
        msg = f"There is no operation '{operation}' any more."
        raise NotFound(msg)
    return found


def _end(target: Operation, made: Operation) -> None:
    rows = Operation.objects.filter(pk=target.pk)
    moved = transition(
        rows,
        OPERATION_TRANSITIONS,
        OperationPhase.CANCELLED,
        cancelled_by=made,
        updated_at=Now(),
        **ENDED,
    )
    if not moved:
        msg = f"{target} was locked, and could not be cancelled all the same"
        raise InvariantBroken(msg)
    operation_kind(target.kind).settle(target, settled_outcome(Cancelled()))
    for following in next_after(target.pk):
        enqueue_after_commit(OperationTask.RUN, following, queue=Queue.OPERATIONS)
    transaction.on_commit(lambda: operation_ended(target, OperationPhase.CANCELLED))


def _kind(operation: Operation) -> OperationKind:
    """Return the kind; of one that only another release knows, that nothing can be done."""
    try:
        return operation_kind(operation.kind)
    except InvariantBroken:
        return OperationKind(operation.kind, _cancelled, _nothing_to_settle)


def _cancelled(_: Cluster, operation: Operation) -> Outcome:
    """Wait until the job that was to be cancelled has ended."""
    target = Operation.objects.filter(pk=operation.object_row or 0).first()
    if target is not None and target.phase in OPEN_PHASES:
        return Waiting(
            OperationWait.CANCELLING, "The part that it is at ends first.", ENDING_SECONDS
        )
    if target is None or target.phase == OperationPhase.CANCELLED:
        return Done()
    return Failed("phase_conflict", f"The job '{target}' ended as {target.phase} before that.")


def _nothing_to_settle(_: Operation, __: Done | Failed) -> None:
    """The rows say it already."""
