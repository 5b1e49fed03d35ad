"""Executes an operation until it ends or has to wait.

The task calls `run_next` with the id of an operation's row. If the worker is killed, another
worker continues after the lease has expired. Everything before the recorded outcome is idempotent.
"""

import logging
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Case, F, QuerySet, When
from django.db.models.functions import Now

from gpuplatform.errors import InvariantBroken, Retry
from gpuplatform.kube.deadline import deadline, remaining
from gpuplatform.kube.errors import (
    ClusterConflict,
    ClusterError,
    ClusterForbidden,
    ClusterRejected,
    ClusterUnavailable,
)
from gpuplatform.kube.modes import get_cluster
from gpuplatform.lifecycle.transition import movable, transition
from gpuplatform.operations.fair_order import FAIR_ORDER, next_operation
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPERATION_TRANSITIONS, OperationPhase, OperationWait
from gpuplatform.operations.registry import (
    Cancelled,
    Checkpoint,
    Done,
    Failed,
    Outcome,
    Waiting,
    kind_names,
    operation_kind,
    settled_outcome,
)
from gpuplatform.operations.selectors import operations_runnable
from gpuplatform.operations.services import ENDED
from gpuplatform.operations.telemetry import operation_claimed, operation_ended
from gpuplatform.planning.backoff import backoff_seconds
from gpuplatform.reconciliation import epoch, gate
from gpuplatform.reconciliation.leases import RowLease, claim, renewing

logger = logging.getLogger(__name__)

MAX_STARTS = 10
"""Maximum number of consecutive starts without an outcome before an operation fails."""

RUN_SECONDS = 25.0
"""Maximum duration in seconds of all calls to the cluster in one run."""

FOLLOW_UP_SECONDS = 5.0
"""Maximum duration in seconds of the calls to the cluster after a recorded success."""

MIN_STEP_SECONDS = 5.0
"""Minimum remaining time of the run in seconds that a further step requires."""


def run_next(hinted: int, *, on_end: Callable[[int], None]) -> tuple[int, float | None] | None:
    """Claim the next operation in the fair order, execute it and record the outcome.

    `hinted` is the id of the operation that the message names, `on_end` the argument of `run`.

    Returns:
        The id of the claimed operation and the result of `run`, or `None` if no operation could
        be claimed.
    """
    kinds = _executable_kinds()
    missed: list[int] = []
    while candidate := next_operation(hinted, kinds, without=missed):
        lease = _claim(candidate.operation, kinds)
        if lease is not None:
            FAIR_ORDER.get().served(candidate.tenant)
            return candidate.operation, _execute(lease, on_end)
        missed.append(candidate.operation)
    return None


def run(row_id: int, *, on_end: Callable[[int], None] = lambda _: None) -> float | None:
    """Claim one operation, execute it and record the outcome.

    An operation can be claimed if it is due, no other worker holds its lease, and no earlier
    operation on the same object is open. `on_end` is called with the id of the row if this run
    ended the operation.

    Returns:
        The seconds until the next attempt, or `None` if the operation ended or could not be
        claimed.
    """
    lease = _claim(row_id, _executable_kinds())
    return None if lease is None else _execute(lease, on_end)


def _claim(row_id: int, kinds: Collection[str]) -> RowLease[Operation] | None:
    """Claim the operation if it is of one of these kinds. Returns `None` if it is not claimed."""
    runnable = operations_runnable().filter(kind__in=kinds)
    return claim(
        movable(runnable, OPERATION_TRANSITIONS, OperationPhase.RUNNING),
        row_id,
        phase=OperationPhase.RUNNING,
        starts=F("starts") + 1,
        updated_at=Now(),
    )


def _execute(lease: RowLease[Operation], on_end: Callable[[int], None]) -> float | None:
    """Execute a claimed operation; return the seconds until the next attempt, if any."""
    operation_claimed(lease.row)
    with renewing(lease):
        outcome = _outcome(lease)
        return None if outcome is None else _record(lease, outcome, on_end)


def _executable_kinds() -> list[str]:
    """Return the kinds of operation that this release knows and can execute now."""
    if not gate.is_closed() and epoch.matches():
        return kind_names()
    return [] if gate.awaits_recovery() else kind_names(without_cluster=True)


def _outcome(lease: RowLease[Operation]) -> Outcome | None:
    """Execute the operation and convert an error of the cluster to an outcome.

    Other errors are not caught. Such a start has no outcome: the lease expires and the operation
    is started again, up to `MAX_STARTS` times.

    Returns:
        The outcome, or `None` if the lease was lost at a checkpoint.
    """
    operation = lease.row
    if operation.starts > MAX_STARTS:
        return Failed(
            InvariantBroken.code,
            f"The operation was started {MAX_STARTS} times without a result. See the log of the"
            " operations worker for the cause.",
            retryable=True,
        )
    try:
        with deadline(RUN_SECONDS):
            return _steps(lease)
    except ClusterError as error:
        return _after(error, operation.failures + 1)


def _steps(lease: RowLease[Operation]) -> Outcome | None:
    """Execute the steps until one returns an outcome, and record each checkpoint."""
    operation: Operation = lease.row
    while True:
        step = operation_kind(operation.kind).execute(get_cluster(), operation)
        if not isinstance(step, Checkpoint):
            return step
        # Model rule `token`: a worker that lost the lease does not write.
        with transaction.atomic():
            rows = lease.guarded().select_related("tenant").select_for_update(of=("self",))
            fresh = rows.first()
            if fresh is None:
                logger.info("dropping a step of %s: its lease was lost", operation)
                return None
            outcome = step.record(fresh)
            if outcome is not None:
                return outcome
            lease.guarded().update(starts=1, failures=0, updated_at=Now())
        if fresh.cancelled_by_id:
            return Cancelled()
        operation = Operation.objects.select_related("tenant").get(pk=fresh.pk)
        if (remaining() or 0) < MIN_STEP_SECONDS:
            return Waiting(OperationWait.PROGRESSING, "The operation continues.", 0)


def _after(error: ClusterError, failures: int) -> Outcome:
    """Return the outcome for an error. Only a permanent rejection ends the operation."""
    if gate.is_unreachable(error):
        gate.close(error)
    seconds = error.retry_after or backoff_seconds(failures)
    match error:
        case ClusterRejected():
            # A missing object, such as a namespace, can exist when the request is repeated.
            return Failed("invalid_request", str(error), retryable=error.reason == "NotFound")
        case ClusterConflict():
            return Waiting(
                OperationWait.CONFLICT, str(error), backoff_seconds(failures), is_failure=True
            )
        case ClusterForbidden():
            return Waiting(OperationWait.CLUSTER_FORBIDDEN, str(error), seconds, is_failure=True)
        case ClusterUnavailable():
            return Waiting(OperationWait.CLUSTER_UNAVAILABLE, str(error), seconds, is_failure=True)
        case _:
            wait = seconds if error.retry is Retry.LATER else 1
            return Waiting(OperationWait.CLUSTER_ERROR, str(error), wait, is_failure=True)


def _record(
    lease: RowLease[Operation], outcome: Outcome, on_end: Callable[[int], None]
) -> float | None:
    """Record the outcome under the lease. Return the seconds until the next attempt, if any."""
    if isinstance(outcome, Waiting):
        seconds = _park(lease, outcome)
        if seconds is not None:
            return seconds
        outcome = Cancelled()  # If the lease was lost instead, the update below has no effect.
    with transaction.atomic():
        phase, changes = _end(outcome)
        moved = _move(lease.guarded(), phase, {**ENDED, **changes})
        if moved:
            operation_kind(lease.row.kind).settle(lease.row, settled_outcome(outcome))
    if moved:
        operation_ended(lease.row, phase, changes.get("error_code", ""))
        if isinstance(outcome, Done):
            _follow_up(lease.row, outcome)
        on_end(lease.row.pk)
    else:
        logger.info("dropping the outcome of %s: its lease was lost", lease.row)
    return None


def _park(lease: RowLease[Operation], wait: Waiting) -> float | None:
    """Record a wait under the lease, and return the seconds until the next attempt.

    Returns `None` if the operation is being cancelled or the lease was lost.
    """
    with transaction.atomic():
        seconds = wait.seconds
        if wait.still is not None:
            list(lease.guarded().select_for_update(of=("self",), no_key=True).values_list("pk"))
            seconds = seconds if wait.still() else 0
        waits: dict[str, Any] = {
            "reason": wait.reason,
            "message": wait.message,
            "reason_since": Case(When(reason=wait.reason, then=F("reason_since")), default=Now()),
            "due_at": Now() + timedelta(seconds=seconds),
            "failures": F("failures") + 1 if wait.is_failure else 0,
        }
        wanted = lease.guarded().filter(cancelled_by__isnull=True)
        return seconds if _move(wanted, OperationPhase.PENDING, waits) else None


def _follow_up(operation: Operation, success: Done) -> None:
    """Run the follow-up of a success. If it fails, a reconciler does the same later."""
    follow_up = operation_kind(operation.kind).follow_up
    if follow_up is None:
        return
    try:
        with deadline(FOLLOW_UP_SECONDS):
            follow_up(get_cluster(), operation, success)
    except ClusterError as error:
        logger.info("the follow-up of %s failed; a reconciler will do it: %s", operation, error)


def _end(outcome: Done | Failed | Cancelled) -> tuple[OperationPhase, dict[str, Any]]:
    """Return the final phase for an outcome, and the other columns to set."""
    match outcome:
        case Done():
            uid = str((outcome.resource or {}).get("metadata", {}).get("uid", ""))
            return OperationPhase.SUCCEEDED, {
                "object_uid": uid,
                "progress_done": F("progress_total"),
            }
        case Failed():
            return OperationPhase.FAILED, {
                "error_code": outcome.code,
                "error_message": outcome.message,
                "error_retryable": outcome.retryable,
            }
        case Cancelled():
            return OperationPhase.CANCELLED, {}


def _move(rows: QuerySet[Operation], to: OperationPhase, changes: dict[str, Any]) -> bool:
    """Change the phase, release the lease and reset `starts`; return whether a row changed."""
    moved = transition(
        rows,
        OPERATION_TRANSITIONS,
        to,
        lease_token=None,
        lease_expires_at=None,
        starts=0,
        updated_at=Now(),
        **changes,
    )
    return bool(moved)
