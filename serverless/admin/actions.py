"""The admin actions on functions and invocations, which call the services of the API."""

from collections.abc import Sequence
from typing import Any, Final

from gpuplatform.adminkit.actions.action import Action, ActionRequest, ActionResult, Values
from gpuplatform.adminkit.actions.forms import DeclaredForm
from gpuplatform.adminkit.display.text import all_gpus_text, counted
from gpuplatform.operations.admin_actions import result_of, service_call
from serverless.models import Function, Invocation
from serverless.phases import FAILED_STATES, InvocationState
from serverless.requests import FunctionScale
from serverless.selectors import open_states, workers_of_all
from serverless.services.functions import function_request_deletion, function_scale
from serverless.services.invocations import invocation_cancel, invocation_replay
from units.models import GpuUnit


class ScaleForm(DeclaredForm):
    """The form that changes the minimum and maximum number of workers of a function."""

    declaration = FunctionScale
    field_names = ("minWorkers", "maxWorkers")
    required_names = frozenset(field_names)


def _address(function: Function) -> dict[str, Any]:
    return {"tenant": function.tenant, "request_id": function.request_id}


def _invocation_address(row: Invocation) -> dict[str, Any]:
    return {"tenant": row.tenant, "invocation_id": row.invocation_id}


def _scale(request: ActionRequest) -> ActionResult:
    body = request.parse(FunctionScale)
    return result_of(function_scale(body=body, **_address(request.row)))


def _limits(function: Function) -> Values:
    spec = function.limits
    return {"minWorkers": spec.min_workers, "maxWorkers": spec.max_workers}


def _obstacle(function: Function) -> str:
    """Return a sentence if a function is deleted or being deleted, otherwise an empty string."""
    if function.deleted_at:
        return "The function is already deleted."
    return "The function is being deleted." if function.deletion_requested_at else ""


def _cancel_obstacle(row: Invocation) -> str:
    if row.state == InvocationState.QUEUED:
        return ""
    return (
        f"Only a queued invocation can be cancelled. This invocation is {row.get_state_display()}."
    )


def _replay_obstacle(row: Invocation) -> str:
    if row.state not in FAILED_STATES:
        return (
            "Only a failed, expired or dead-lettered invocation can be replayed. This invocation"
            f" is {row.get_state_display()}."
        )
    return _obstacle(row.function)


def _scale_consequence(functions: Sequence[Function], values: Values) -> str:
    minimum, maximum = int(values["minWorkers"]), int(values["maxWorkers"])
    number, workers = len(functions), workers_of_all(functions)
    before = sum(function.limits.max_workers for function in functions)
    return (
        f"Sets the number of workers of {counted(number, 'function')} to {minimum} to {maximum}"
        f" each. The total maximum changes from {before} to {maximum * number}."
        f" {counted(len(workers), 'worker', 'is', 'are')} running, and"
        f" {counted(minimum * number, 'worker', 'is', 'are')} kept even when idle. Running workers"
        " are not replaced; surplus workers are stopped when they are idle."
    )


def _delete_consequence(functions: Sequence[Function], _: Values) -> str:
    states, workers = open_states(functions), workers_of_all(functions)
    waiting, running = states[InvocationState.QUEUED], states[InvocationState.RUNNING]
    ends = [
        (waiting, counted(waiting, "queued invocation", "is cancelled", "are cancelled")),
        (running, counted(running, "running invocation", "finishes", "finish")),
        (len(workers), _stops(workers)),
    ]
    effects = [text for number, text in ends if number]
    end = f": {', '.join(effects)}." if effects else " without open invocations or workers."
    return f"Deletes {counted(len(functions), 'function')}{end} This cannot be undone."


def _stops(workers: Sequence[GpuUnit]) -> str:
    stopped = counted(len(workers), "worker", "stops", "stop")
    gpus = all_gpus_text((unit.resource_name, unit.gpu) for unit in workers)
    return f"{stopped} and {'releases' if len(workers) == 1 else 'release'} {gpus}"


def _cancel_consequence(rows: Sequence[Invocation], _: Values) -> str:
    return (
        f"Cancels {counted(len(rows), 'invocation')} of {_functions(rows)} before a worker starts"
        f" {'it' if len(rows) == 1 else 'them'}. This cannot be undone. Callers can invoke the"
        " function again with a new invocationID."
    )


def _replay_consequence(rows: Sequence[Invocation], _: Values) -> str:
    ready = sum(function.workers_ready for function in {row.function for row in rows})
    its, it = ("its", "it") if len(rows) == 1 else ("their", "they")
    return (
        f"Queues {counted(len(rows), 'invocation')} of {_functions(rows)} again, with all {its}"
        f" attempts, and deletes {its} stored {'response' if len(rows) == 1 else 'responses'};"
        f" {counted(ready, 'worker', 'is', 'are')} ready now. Side effects of {its}"
        f" earlier attempts may occur again when {it} {'runs' if it == 'it' else 'run'}."
    )


def _functions(rows: Sequence[Invocation]) -> str:
    tenants = len({row.tenant_id for row in rows})
    functions = counted(len({row.function_id for row in rows}), "function")
    return functions if tenants == 1 else f"{functions} of {tenants} tenants"


FUNCTION_ACTIONS: Final = (
    Action(
        name="scale",
        label="Change workers",
        consequence=_scale_consequence,
        obstacle=_obstacle,
        service=_scale,
        form=ScaleForm,
        initial=_limits,
    ),
    Action(
        name="delete",
        label="Delete",
        consequence=_delete_consequence,
        obstacle=_obstacle,
        service=service_call(function_request_deletion, _address),
        is_final=True,
    ),
)
INVOCATION_ACTIONS: Final = (
    Action(
        name="cancel",
        label="Cancel",
        consequence=_cancel_consequence,
        obstacle=_cancel_obstacle,
        service=service_call(invocation_cancel, _invocation_address),
        is_final=True,
        button="Cancel invocation",
    ),
    Action(
        name="replay",
        label="Replay",
        consequence=_replay_consequence,
        obstacle=_replay_obstacle,
        service=service_call(invocation_replay, _invocation_address),
    ),
)
