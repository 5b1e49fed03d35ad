"""What operators do about functions and invocations in the admin, by the services of the API."""

from collections.abc import Callable, Sequence
from typing import Final

from gpuplatform.adminkit.actions.action import (
    Action,
    ActionRequest,
    ActionResult,
    Values,
    counted,
)
from gpuplatform.adminkit.actions.forms import OPERATION_ID, DeclaredForm
from gpuplatform.operations.admin_actions import result_of
from gpuplatform.operations.services import Accepted
from serverless.models import Function, Invocation
from serverless.phases import InvocationState
from serverless.requests import FunctionScale
from serverless.selectors import open_states, workers_of_all
from serverless.services import (
    function_request_deletion,
    function_scale,
    function_spec,
    invocation_cancel,
    invocation_replay,
)
from units.models import GpuUnit


class ScaleForm(DeclaredForm):
    """Asks how many workers a function may have."""

    declaration = FunctionScale
    field_names = ("minWorkers", "maxWorkers")
    required_names = frozenset(field_names)


def _scaled(asked: ActionRequest) -> ActionResult:
    function: Function = asked.row
    wanted = FunctionScale.parse({**asked.values, OPERATION_ID: asked.operation_id})
    return result_of(
        function_scale(tenant=function.tenant, request_id=function.request_id, asked=wanted)
    )


def _deleted(asked: ActionRequest) -> ActionResult:
    function: Function = asked.row
    return result_of(
        function_request_deletion(
            tenant=function.tenant,
            request_id=function.request_id,
            operation_id=asked.operation_id,
        )
    )


def _by(service: Callable[..., Accepted]) -> Callable[[ActionRequest], ActionResult]:
    """Return what asks a service for an invocation, on behalf of the tenant whose it is."""

    def ask(asked: ActionRequest) -> ActionResult:
        row: Invocation = asked.row
        return result_of(
            service(
                tenant=row.tenant,
                invocation_id=row.invocation_id,
                operation_id=asked.operation_id,
            )
        )

    return ask


def _limits(function: Function) -> Values:
    spec = function_spec(function)
    return {"minWorkers": spec.min_workers, "maxWorkers": spec.max_workers}


def is_going(function: Function) -> str:
    """Return why nothing can be asked of a function any more; empty where something can."""
    if function.deleted_at:
        return "It is deleted."
    return "It is being deleted." if function.deletion_requested_at else ""


def _not_waiting(row: Invocation) -> str:
    if row.state == InvocationState.QUEUED:
        return ""
    return f"Only what no worker has begun can be cancelled; it is {row.state}."


def _no_dead_letter(row: Invocation) -> str:
    if row.state != InvocationState.DEAD_LETTERED:
        return f"Only a dead letter can be replayed; it is {row.state}."
    return "Its function is gone." if is_going(row.function) else ""


def _scale_consequence(functions: Sequence[Function], values: Values) -> str:
    fewest, most = int(values["minWorkers"]), int(values["maxWorkers"])
    workers = workers_of_all(functions)
    before = sum(function_spec(function).max_workers for function in functions)
    return (
        f"{counted(len(functions), 'function')} with {counted(len(workers), 'worker')} now and at"
        f" most {before}: from now on {fewest} to {most} each, at most {most * len(functions)}"
        f" together. {counted(fewest * len(functions), 'worker', 'is', 'are')} kept without work."
        " Workers that run are not replaced; of those that are too many the idle ones are stopped."
    )


def _delete_consequence(functions: Sequence[Function], _: Values) -> str:
    states, workers = open_states(functions), workers_of_all(functions)
    waiting, running = states[InvocationState.QUEUED], states[InvocationState.RUNNING]
    ends = [
        (
            waiting,
            counted(waiting, "invocation", "waits and is cancelled", "wait and are cancelled"),
        ),
        (running, counted(running, "invocation", "runs and is finished", "run and are finished")),
        (len(workers), _ending(workers)),
    ]
    happens = [text for number, text in ends if number]
    end = f": {', '.join(happens)}." if happens else "; nothing waits, and no worker runs."
    return f"Deletes {counted(len(functions), 'function')}{end} It cannot be undone."


def _ending(workers: Sequence[GpuUnit]) -> str:
    ended = counted(len(workers), "worker", "ends", "end")
    gpus = sum(unit.gpu for unit in workers)
    return f"{ended} and {counted(gpus, 'GPU', 'becomes', 'become')} free"


def _cancel_consequence(rows: Sequence[Invocation], _: Values) -> str:
    them, one = ("it", "it") if len(rows) == 1 else ("them", "one")
    return (
        f"Cancels {counted(len(rows), 'invocation')} of {_functions(rows)}: no worker gets {them}."
        f" It cannot be undone; whoever wants {one} again sends it with a new invocationID."
    )


def _replay_consequence(rows: Sequence[Invocation], _: Values) -> str:
    ready = sum(function.workers_ready for function in {row.function for row in rows})
    its, it = ("its", "it") if len(rows) == 1 else ("their", "they")
    return (
        f"Puts {counted(len(rows), 'dead letter')} of {_functions(rows)} into the queue again,"
        f" with all {its} deliveries; {counted(ready, 'worker', 'is', 'are')} ready now."
        f" What {it} did before, {it} may do again."
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
        obstacle=is_going,
        service=_scaled,
        form=ScaleForm,
        initial=_limits,
    ),
    Action(
        name="delete",
        label="Delete",
        consequence=_delete_consequence,
        obstacle=is_going,
        service=_deleted,
        is_final=True,
    ),
)
INVOCATION_ACTIONS: Final = (
    Action(
        name="cancel",
        label="Cancel",
        consequence=_cancel_consequence,
        obstacle=_not_waiting,
        service=_by(invocation_cancel),
        is_final=True,
        button="Yes, cancel",
    ),
    Action(
        name="replay",
        label="Replay",
        consequence=_replay_consequence,
        obstacle=_no_dead_letter,
        service=_by(invocation_replay),
    ),
)
