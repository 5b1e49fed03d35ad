"""The steps of a job for timelines: its own page's, and those of what it made."""

from collections.abc import Iterator
from typing import Final

from gpuplatform.adminkit.detail.links import object_url
from gpuplatform.adminkit.display.badges import Shape
from gpuplatform.adminkit.display.text import humanize, shortened, visible
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.operations.interventions import OPERATION_KIND
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase

_MAKING: Final = frozenset({"stockpool.create", "unit.create", "stock.seed"})


def operation_steps(job: Operation | None) -> Iterator[Step]:
    """Yield that a job was accepted, and how it ended or what it waits for."""
    if job is None:
        return
    asked_by = f", asked by {visible(job.asked_by)}" if job.asked_by else ""
    text = f"{visible(job.operation_id)}{asked_by}"
    yield Step("Accepted", job.created_at, text=text, url=object_url(OPERATION_KIND, job.pk))
    match job.phase:
        case OperationPhase.SUCCEEDED:
            yield Step(_end(job), job.ended_at, text=_done(job))
        case OperationPhase.FAILED:
            yield Step("Failed", job.ended_at, Shape.FAILED, shortened(job.error_message))
        case OperationPhase.CANCELLED:
            yield Step("Cancelled", job.ended_at, Shape.OFF)
        case _:
            waits = f"waits: {humanize(job.reason)}" if job.reason else "not yet"
            yield Step(_end(job), None, Shape.OFF, waits)


def _end(job: Operation) -> str:
    """Return what its success means: that something is in the cluster, not that it is ready."""
    return "In the cluster" if job.kind in _MAKING else "Done"


def _done(job: Operation) -> str:
    if job.progress_total > 1:
        return f"{job.progress_done} of {job.progress_total} are in the cluster"
    return f"{job.object_kind} {job.object_name}".strip()
