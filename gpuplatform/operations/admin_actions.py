"""The admin actions that cancel and retry operations, and the services of other actions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gpuplatform.adminkit.actions.action import (
    Action,
    ActionRequest,
    ActionResult,
    Creation,
    Values,
)
from gpuplatform.adminkit.actions.forms import DeclaredForm
from gpuplatform.adminkit.display.text import counted
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.operations.interventions import (
    cancel_obstacle,
    operation_cancel,
    operation_retry,
    retry_obstacle,
)
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.selectors import tenant_by_name


def result_of(accepted: Accepted, sentence: str = "Requested by operation '{}'.") -> ActionResult:
    """Return the result of an accepted operation. `{}` in `sentence` becomes the operationID."""
    operation = accepted.operation
    return ActionResult(
        sentence.format(operation),
        url=page_url(operation),
        is_replay=accepted.is_replay,
    )


def service_call(
    service: Callable[..., Accepted],
    address: Callable[[Any], Mapping[str, Any]],
    sentence: str = "Requested by operation '{}'.",
) -> Callable[[ActionRequest], ActionResult]:
    """Return the function that performs an action by a call of a service.

    Args:
        service: Takes the operationID and the arguments from `address`.
        address: Returns the arguments that identify the object of a row.
        sentence: The text of the result; `{}` is the operationID.
    """

    def call(request: ActionRequest) -> ActionResult:
        accepted = service(operation_id=request.operation_id, **address(request.row))
        return result_of(accepted, sentence)

    return call


def creation(
    title: str,
    form: type[DeclaredForm],
    service: Callable[..., Accepted],
    rows: Any,
    consequence: Callable[[Values], str] = lambda _: "",
) -> Creation:
    """Return a creation by a call of a service with the default tenant.

    Args:
        title: The title of the form.
        form: The form, whose declaration is the `body` of the service.
        service: Takes `tenant` and `body`.
        rows: The manager of the rows that the service creates.
        consequence: The `consequence` of the creation.
    """

    def create(request: ActionRequest) -> tuple[ActionResult, Any]:
        accepted = service(tenant=tenant_by_name(), body=request.parse(form.declaration))
        return result_of(accepted), rows.get(pk=accepted.operation.object_row or 0)

    return Creation(form=form, title=title, service=create, consequence=consequence)


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
