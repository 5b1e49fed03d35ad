"""Builds the status of a GPU unit. The rules that select the status are in `plan`. Pure."""

from dataclasses import replace
from typing import Any, Final

from gpuplatform.kube.fields import number
from gpuplatform.kube.kinds import DEPLOYMENT, Manifest
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.planning.plan import (
    Event,
    Observation,
    Present,
    Status,
    StatusSummary,
)
from gpuplatform.workloads.owner import Owner, deletion_event
from gpuplatform.workloads.startup import PodStart, is_caught_up, pod_start
from units.core import manifests
from units.core.names import UNIT_UID_LABEL, object_name
from units.core.observed import ObservedUnit
from units.core.shortage import Shortage, shortage_of
from units.core.view import UnitView
from units.phases import UnitPhase, UnitReason, UnitRole

OWNER: Final = Owner(
    noun="GPU unit",
    label=UNIT_LABEL,
    uid_paths={DEPLOYMENT: ("spec", "template", "metadata", "labels", UNIT_UID_LABEL)},
    service_refused=UnitReason.UNIT_SERVICE_SYNC_FAILED,
    deployment_refused=UnitReason.UNIT_DEPLOYMENT_SYNC_FAILED,
    resting=UnitPhase.STOPPED,
    fields=("readyReplicas", "serviceName", "accessURL"),
    degraded=frozenset({UnitReason.GPUS_MISSING}),
)


def unit_status(
    unit: UnitView, observed: ObservedUnit, summary: StatusSummary, *, is_reachable: bool
) -> Status:
    """Return the status of a unit.

    If the unit became ready by a hand-over, the Event names the source.

    Args:
        unit: The unit.
        observed: Its observed state.
        summary: The phase, the reason and the message to report.
        is_reachable: Whether the Service of the unit exists or is being created.
    """
    status = OWNER.status(unit, summary, _fields(unit, observed, is_reachable=is_reachable))
    if status.event is None or summary.reason != UnitReason.UNIT_READY or unit.source is None:
        return status
    message = (
        f"{status.event.message} The unit received the GPUs of stock unit '{unit.source.name}'."
    )
    return replace(status, event=replace(status.event, message=message))


def _fields(unit: UnitView, observed: ObservedUnit, *, is_reachable: bool) -> dict[str, Any]:
    has_url = is_reachable and unit.has_service
    return {
        "readyReplicas": number(observed.live_deployment, "status", "availableReplicas"),
        "serviceName": object_name(unit.name) if has_url else None,
        "accessURL": manifests.access_url(unit) if has_url else None,
    }


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
    if is_changing or not is_caught_up(deployment):
        return starting(unit, "A change is in progress.")
    pods = observed.own_pods(unit)
    start = pod_start(unit, pods, deployment, observed.at)
    if number(deployment, "status", "availableReplicas") < 1 or not start.is_proven:
        return _unready(unit, start)
    shortage = shortage_of(pods, observed.short_nodes)
    if shortage is not None:
        return _short_of_gpus(shortage, is_stock=unit.is_stock)
    reason = UnitReason.STOCK_READY if unit.is_stock else UnitReason.UNIT_READY
    return StatusSummary(UnitPhase.READY, reason, "The pod is ready.")


def _unready(unit: UnitView, start: PodStart) -> StatusSummary:
    if start.failure is not None:
        cause, text = start.failure.cause, start.failure.text
        return StatusSummary(UnitPhase.FAILED, UnitReason.POD_STARTUP_FAILED, text, cause)
    if start.delay is not None:
        return starting(unit, start.delay.text, start.delay.cause)
    return starting(unit, "The pod is starting.")


def _short_of_gpus(shortage: Shortage, *, is_stock: bool) -> StatusSummary:
    """Return the summary of a ready unit on a node with a GPU shortage."""
    if is_stock:
        message = (
            f"The {shortage}. The stock unit cannot be claimed until the node offers as many GPUs"
            " as its pods hold."
        )
        return StatusSummary(UnitPhase.PROGRESSING, UnitReason.GPUS_MISSING, message)
    message = f"The pod is running, but the {shortage}. The unit may have lost a GPU."
    return StatusSummary(UnitPhase.READY, UnitReason.GPUS_MISSING, message)


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
    deployment = observed.live_deployment
    is_at_zero = number(deployment, "spec", "replicas") == 0
    is_ending = is_changing or not is_at_zero or not is_caught_up(deployment)
    if is_ending or observed.has_gpu(unit):
        message = "The pod is terminating. The GPUs are released when the pod is deleted."
        return StatusSummary(UnitPhase.PROGRESSING, UnitReason.STOPPING, message)
    message = "The unit is stopped and has released its GPUs."
    if observed.is_start_void:
        message = "The last start failed or was cancelled. Start the unit again."
    return StatusSummary(UnitPhase.STOPPED, UnitReason.STOPPED, message)
