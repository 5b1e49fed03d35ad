"""Cancelling and retrying jobs in the admin, and what every action of an app says of its job."""

from collections.abc import Callable, Sequence
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


def result_of(accepted: Accepted, sentence: str = "Asked for by the job '{}'.") -> ActionResult:
    """Return what is said of a row whose change was accepted; `sentence` has the job's place."""
    job = accepted.operation
    return ActionResult(
        sentence.format(job), url=object_url(OPERATION_KIND, job.pk), is_replay=accepted.is_replay
    )


def _cancel(asked: ActionRequest) -> ActionResult:
    accepted = operation_cancel(operation=asked.row, operation_id=asked.operation_id)
    return result_of(accepted, "Its end was asked for by the job '{}'.")


def _retry(asked: ActionRequest) -> ActionResult:
    accepted = operation_retry(operation=asked.row, operation_id=asked.operation_id)
    return result_of(accepted, "It was asked for again as the job '{}'.")


def _of_it(obstacle: Callable[[Operation], str]) -> Callable[[Operation], str]:
    """Return an obstacle that is said beside the job's own name, and alike of many of them."""

    def said(job: Operation) -> str:
        text = obstacle(job)
        return text.replace(f"The job '{job}'", "It").replace(f"the job '{job}'", "it")

    return said


def _cancel_consequence(jobs: Sequence[Operation], _: Values) -> str:
    made = sum(job.progress_done for job in jobs)
    left = sum(job.progress_total for job in jobs) - made
    them = "it asks" if len(jobs) == 1 else "they ask"
    parts = [f"Ends {counted(len(jobs), 'job')}: what {them} for is given up ({left} to be made)"]
    if made:
        parts.append(f"what was made stays ({made})")
    parts.append("what was set aside for it is free again")
    text = f"{', '.join(parts[:-1])}, and {parts[-1]}."
    if any(job.progress_total > 1 for job in jobs):
        text += " One that a worker has ends after the part that it is at."
    return f"{text} It cannot be taken up again."


def _retry_consequence(jobs: Sequence[Operation], _: Values) -> str:
    left = sum(job.progress_total - job.progress_done for job in jobs)
    return (
        f"Asks again for {counted(len(jobs), 'job')}, {left} to be made, each as a job of its own;"
        " of a seeding or a removal that ended half-way, the rest. It takes what is free now, so"
        " that a name or the stock may be gone; a change is made over what was changed since."
    )


CANCEL: Final = Action(
    name="cancel",
    label="Cancel",
    consequence=_cancel_consequence,
    obstacle=_of_it(cancel_obstacle),
    service=_cancel,
    is_final=True,
    button="Yes, cancel",
)
RETRY: Final = Action(
    name="retry",
    label="Retry",
    consequence=_retry_consequence,
    obstacle=_of_it(retry_obstacle),
    service=_retry,
)
