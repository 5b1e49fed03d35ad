"""Builds the status of a GPU unit. The rules that select the status are in `plan`. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from gpuplatform.kube.fields import condition, field, number
from gpuplatform.kube.kinds import DEPLOYMENT, JOB, SERVICE, Manifest
from gpuplatform.planning.ownership import UNIT_LABEL, is_controlled_by
from gpuplatform.planning.plan import (
    Event,
    Observation,
    Present,
    Status,
    StatusSummary,
)
from gpuplatform.workloads.holders import holds_gpu
from gpuplatform.workloads.owner import Owner, deletion_event
from gpuplatform.workloads.startup import PodStart, is_caught_up, pod_start
from units.core import manifests
from units.core.child import has_observed_zero, is_at_rest
from units.core.endings import END_FIELDS, ProgramEnd, last_end
from units.core.names import UNIT_UID_LABEL, object_name
from units.core.observed import ObservedUnit
from units.core.shortage import shortage_of, stock_rejection
from units.core.starts import current_pull, steps_of
from units.core.view import UnitView
from units.phases import UnitPhase, UnitReason, UnitRole

OWNER: Final = Owner(
    noun="GPU unit",
    label=UNIT_LABEL,
    uid_paths=dict.fromkeys(
        (DEPLOYMENT, JOB), ("spec", "template", "metadata", "labels", UNIT_UID_LABEL)
    ),
    refused={
        SERVICE: UnitReason.UNIT_SERVICE_SYNC_FAILED,
        DEPLOYMENT: UnitReason.UNIT_DEPLOYMENT_SYNC_FAILED,
        JOB: UnitReason.UNIT_JOB_SYNC_FAILED,
    },
    resting=UnitPhase.STOPPED,
    ended=UnitPhase.SUCCEEDED,
    fields=("readyReplicas", "serviceName", "accessURL", "startSteps", *END_FIELDS),
    degraded=frozenset({UnitReason.GPUS_MISSING}),
)

_WITHOUT_START: Final = frozenset({UnitReason.STOPPED, UnitReason.STOPPING})
"""Reasons of a unit that is stopped, so that the steps of its last start are dropped."""


def unit_status(
    unit: UnitView,
    observed: ObservedUnit,
    summary: StatusSummary,
    *,
    is_reachable: bool,
    end: ProgramEnd | None = None,
) -> Status:
    """Return the status of a unit.

    If the unit became ready by a hand-over, the Event names the source.

    Args:
        unit: The unit.
        observed: Its observed state.
        summary: The phase, the reason and the message to report.
        is_reachable: Whether the Service of the unit exists or is being created.
        end: The end of the program, if it has ended.
    """
    steps = () if summary.reason in _WITHOUT_START else steps_of(unit, observed)
    fields = {
        **_fields(unit, observed, has_service=is_reachable and unit.has_service),
        "startSteps": [step.manifest() for step in steps] or None,
    }
    if summary.phase != UnitPhase.READY:
        fields["accessURL"] = None  # The program does not respond.
    if end is None:
        fields |= {key: None for key in END_FIELDS if key in unit.status}
        fields |= last_end(observed, unit)
    else:
        fields |= end.fields()
    status = OWNER.status(unit, summary, fields)
    if status.event is None or summary.reason != UnitReason.UNIT_READY or unit.source is None:
        return status
    message = (
        f"{status.event.message} The unit received the GPUs of stock unit '{unit.source.name}'."
    )
    return replace(status, event=replace(status.event, message=message))


def _fields(unit: UnitView, observed: ObservedUnit, *, has_service: bool) -> dict[str, Any]:
    ready = number(observed.live_deployment, "status", "availableReplicas")
    if observed.kind == JOB:
        ready = len(_ready_pods(observed.own_pods(unit)))
    return {
        "readyReplicas": ready,
        "serviceName": object_name(unit.name) if has_service else None,
        "accessURL": manifests.access_url(unit) if has_service else None,
    }


def _ready_pods(pods: Sequence[Manifest]) -> list[Manifest]:
    return [pod for pod in pods if condition(pod, "Ready").get("status") == "True"]


def unit_deletion_event(role: UnitRole, consumed_by: str) -> Event | None:
    """Return the Event of a deleted unit, or `None` for consumed stock.

    The Event of a hand-over is written for the consumer.
    """
    if role == UnitRole.STOCK and consumed_by:
        return None
    return deletion_event("stock unit" if role == UnitRole.STOCK else "GPU unit")


def starting(unit: UnitView, message: str, cause: str = "") -> StatusSummary:
    """Return the summary of a unit whose pod is starting or changing."""
    return StatusSummary(UnitPhase.PROGRESSING, unit.progress, message, cause)


def running(unit: UnitView, observed: ObservedUnit, *, is_changing: bool) -> StatusSummary:
    """Return the summary of a unit that is not stopped, for the current generation of its spec."""
    deployment = observed.live_deployment
    if is_changing or not (unit.may_end or is_caught_up(deployment)):
        return starting(unit, "A change is in progress.")
    if unit.may_end:
        return _job_running(unit, observed)
    start = pod_start(unit, observed.own_pods(unit), deployment, observed.at)
    if number(deployment, "status", "availableReplicas") < 1 or not start.is_proven:
        return _unready(unit, observed, start)
    return _ready(unit, observed)


def _job_running(unit: UnitView, observed: ObservedUnit) -> StatusSummary:
    """Return the summary of a unit whose Job has not finished."""
    uid = str(field(observed.live(JOB), "metadata", "uid"))
    pods = [pod for pod in observed.own_pods(unit) if is_controlled_by(pod, uid)]
    living = [pod for pod in pods if holds_gpu(pod)]
    # A pod that the cluster evicted is replaced.
    has_ended = any(not condition(pod, "DisruptionTarget") for pod in pods)
    if has_ended and not living:
        return starting(unit, "The program has ended.")  # The Job reports the outcome next.
    start = pod_start(unit, living, {}, observed.at)
    if not _ready_pods(living) or not start.is_proven:
        return _unready(unit, observed, start)
    return _ready(unit, observed)


def ended(unit: UnitView, observed: ObservedUnit, end: ProgramEnd) -> StatusSummary:
    """Return the summary of a unit whose program has ended.

    A unit in phase `Succeeded` or `Failed` for this reason holds no GPU.
    """
    phase, reason = UnitPhase.SUCCEEDED, UnitReason.PROGRAM_SUCCEEDED
    if not end.is_success:
        phase, reason = UnitPhase.FAILED, UnitReason.PROGRAM_FAILED
    if observed.has_gpu(unit):
        phase = UnitPhase.PROGRESSING
    return StatusSummary(phase, reason, end.text, end.cause)


def _ready(unit: UnitView, observed: ObservedUnit) -> StatusSummary:
    if unit.is_stock:
        ready = StatusSummary(UnitPhase.READY, UnitReason.STOCK_READY, "The pod is ready.")
        return _withheld(unit, observed) or ready
    if shortage := shortage_of(unit.uid, observed.node):
        message = f"The pod is running, but the {shortage}. The unit may have lost a GPU."
        return StatusSummary(UnitPhase.READY, UnitReason.GPUS_MISSING, message)
    return StatusSummary(UnitPhase.READY, UnitReason.UNIT_READY, "The pod is ready.")


def _withheld(unit: UnitView, observed: ObservedUnit) -> StatusSummary | None:
    """Return the summary of a stock unit whose node would not accept the pod of a unit.

    The stock unit cannot be claimed, and is ready again when its node would accept the pod.
    """
    if not unit.is_stock:
        return None
    rejection = stock_rejection(unit.uid, unit.spec.normalised(), observed.node)
    if rejection is None:
        return None
    clause = rejection.text[:1].upper() + rejection.text[1:]
    message = f"{clause}. The stock unit cannot be claimed until a unit could start there."
    reason = UnitReason.STOCK_WITHHELD
    return StatusSummary(UnitPhase.PROGRESSING, reason, message, rejection.cause)


def _unready(unit: UnitView, observed: ObservedUnit, start: PodStart) -> StatusSummary:
    if start.failure is not None:
        cause, text = start.failure.cause, start.failure.text
        return StatusSummary(UnitPhase.FAILED, UnitReason.POD_STARTUP_FAILED, text, cause)
    if withheld := _withheld(unit, observed):
        return withheld
    if start.delay is not None:
        return starting(unit, start.delay.text, start.delay.cause)
    if pull := current_pull(unit, observed):
        return starting(
            unit, f"The node has been pulling the image since {pull.since:%H:%M:%S} UTC."
        )
    return starting(unit, "The pod is starting.")


def is_up(deployment: Observation[Manifest]) -> bool:
    """Return whether a Deployment is scaled up and reports its pod as available."""
    match deployment:
        case Present(live):
            wants = number(live, "spec", "replicas") > 0
            return wants and is_caught_up(live) and number(live, "status", "availableReplicas") > 0
        case _:
            return False


def stopped(unit: UnitView, observed: ObservedUnit, *, is_changing: bool) -> StatusSummary:
    """Return the summary of a unit whose spec or last start requires it to be stopped."""
    live = observed.live(observed.kind)
    is_ending = (
        is_changing
        or not is_at_rest(unit, observed.kind, live)
        or not has_observed_zero(observed.kind, live)
    )
    if is_ending or observed.has_gpu(unit):
        message = "The pod is terminating. The GPUs are released when the pod has ended."
        return StatusSummary(UnitPhase.PROGRESSING, UnitReason.STOPPING, message)
    message = "The unit is stopped and has released its GPUs."
    if observed.is_start_void:
        message = "The last start failed or was cancelled. Start the unit again."
    return StatusSummary(UnitPhase.STOPPED, UnitReason.STOPPED, message)
