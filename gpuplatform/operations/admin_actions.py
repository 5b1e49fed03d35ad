"""Admin actions that cancel and retry operations, and the result of an accepted action."""

from collections.abc import Sequence
from typing import Final

from gpuplatform.adminkit.actions.action import (
    Action,
    ActionRequest,
    ActionResult,
    Values,
    counted,
)
from gpuplatform.adminkit.detail.links import object_url
from gpuplatform.operations.interventions import (
    OPERATION_KIND,
    cancel_obstacle,
    operation_cancel,
    operation_retry,
    retry_obstacle,
)
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted


def result_of(accepted: Accepted, sentence: str = "Requested by operation '{}'.") -> ActionResult:
    """Return the result of an accepted operation. `{}` in `sentence` becomes the operationID."""
    operation = accepted.operation
    return ActionResult(
        sentence.format(operation),
        url=object_url(OPERATION_KIND, operation.pk),
        is_replay=accepted.is_replay,
    )


def _cancel(request: ActionRequest) -> ActionResult:
    accepted = operation_cancel(operation=request.row, operation_id=request.operation_id)
    return result_of(accepted, "Cancelled by operation '{}'.")


def _retry(request: ActionRequest) -> ActionResult:
    accepted = operation_retry(operation=request.row, operation_id=request.operation_id)
    return result_of(accepted, "Retried as operation '{}'.")


def _cancel_consequence(operations: Sequence[Operation], _: Values) -> str:
    done = sum(one.progress_done for one in operations)
    left = sum(one.progress_total for one in operations) - done
    its = "its" if len(operations) == 1 else "their"
    kept = f" Processed and kept: {counted(done, 'object')}." if done else ""
    running = ""
    if any(one.progress_total > 1 for one in operations):
        running = " A running operation ends after its current step."
    return (
        f"Cancels {counted(len(operations), 'operation')} and releases {its} claims."
        f" Not processed: {counted(left, 'object')}.{kept}{running} This cannot be undone."
    )


def _retry_consequence(operations: Sequence[Operation], _: Values) -> str:
    left = sum(one.progress_total - one.progress_done for one in operations)
    return (
        f"Retries {counted(len(operations), 'operation')} ({counted(left, 'object')} to process),"
        " each as a new operation. A partially completed operation resumes with the remaining"
        " objects. A retry uses the current state: a name or stock may no longer be available, and"
        " a change overwrites later changes."
    )


CANCEL: Final = Action(
    name="cancel",
    label="Cancel",
    consequence=_cancel_consequence,
    obstacle=cancel_obstacle,
    service=_cancel,
    is_final=True,
    button="Cancel operation",
)
RETRY: Final = Action(
    name="retry",
    label="Retry",
    consequence=_retry_consequence,
    obstacle=retry_obstacle,
    service=_retry,
)
