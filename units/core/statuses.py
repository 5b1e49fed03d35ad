"""What the status of a GPU unit says. Pure; the rules that choose are in `plan`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from gpuplatform.kube.fields import condition, field, number
from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, Manifest, ResourceKind
from gpuplatform.lifecycle.conditions import DEGRADED, Condition, ConditionStatus
from gpuplatform.planning.plan import Event, EventType, Observation, Present, Status
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.startup import (
    is_caught_up,
    lasting_failure,
    startup_delay,
    startup_failure,
    unproven_failure,
)
from units.core import manifests
from units.core.children import has_service
from units.core.names import service_name
from units.core.observed import ObservedUnit, Shortage, holds_gpu, own_pods, source_of
from units.core.shortage import shortage_of
from units.core.spec import GPUUnitSpec
from units.phases import UnitPhase, UnitReason, UnitRole, role_of

_TOLD: Final = MappingProxyType(
    {
        UnitPhase.READY: EventType.NORMAL,
        UnitPhase.STOPPED: EventType.NORMAL,
        UnitPhase.FAILED: EventType.WARNING,
        UnitPhase.TERMINATING: EventType.WARNING,
    }
)
"""Phases whose beginning is an Event."""

_KNOWN: Final = ("readyReplicas", "serviceName", "accessURL")


@dataclass(frozen=True, slots=True)
class Saying:
    """A phase, its reason, the same for a person, and what keeps the pod from being ready."""

    phase: UnitPhase
    reason: UnitReason
    message: str
    cause: StartupCause | None = None


def status(unit: Manifest, saying: Saying, fields: Mapping[str, Any] | None = None) -> Status:
    """Return the whole status; without `fields` the ones that were known last stay."""
    known = {key: field(unit, "status", key) for key in _KNOWN}
    return Status(
        phase=saying.phase.value,
        conditions=tuple(_conditions(unit, saying)),
        observed_generation=number(unit, "metadata", "generation"),
        cause=saying.cause.value if saying.cause else None,
        fields=(
            {key: value for key, value in known.items() if value is not None}
            if fields is None
            else fields
        ),
        event=_event(unit, saying),
    )


def _conditions(unit: Manifest, saying: Saying) -> Iterator[Condition]:
    """Yield the condition Ready; after it Degraded of a unit that is, or was, less than that."""
    generation = number(unit, "metadata", "generation")
    said = saying.reason.value, saying.message, generation
    is_ready = saying.phase == UnitPhase.READY
    is_degraded = is_ready and saying.reason == UnitReason.GPUS_MISSING
    yield Condition("Ready", _truth(is_ready), *said)
    if is_degraded or condition(unit, DEGRADED):
        yield Condition(DEGRADED, _truth(is_degraded), *said)


def _truth(is_so: bool) -> ConditionStatus:  # noqa: FBT001
    return "True" if is_so else "False"


def _event(unit: Manifest, saying: Saying) -> Event | None:
    """Return what is told of that state: of a hand-over once, when the unit is ready by it."""
    told, source = _TOLD.get(saying.phase), source_of(unit)
    if told is None:
        return None
    if saying.reason == UnitReason.GPUS_MISSING:
        return Event(EventType.WARNING, saying.reason.value, saying.message)
    is_active = role_of(unit["metadata"]["namespace"]) == UnitRole.ACTIVE
    message = saying.message
    if saying.phase == UnitPhase.READY and is_active and source is not None:
        message += f" It took over the GPU of the stock unit '{source.name}'."
    return Event(told, saying.reason.value, message)


def farewell(role: UnitRole, consumed_by: str) -> Event | None:
    """Return what is told of a unit that is gone; stock that was consumed is told of there."""
    if role == UnitRole.STOCK and consumed_by:
        return None
    what = "stock unit" if role == UnitRole.STOCK else "GPU unit"
    return Event(EventType.NORMAL, "Removed", f"The {what} is gone.")


def failed(unit: Manifest, reason: UnitReason, message: str) -> Status:
    """Return the status of a unit that cannot be brought about; what is known of it stays."""
    return status(unit, Saying(UnitPhase.FAILED, reason, message))


def refusals(unit: Manifest) -> dict[ResourceKind, Status]:
    """Return what to say when the cluster refuses to write one of the unit's objects."""
    return {
        SERVICE: failed(unit, UnitReason.UNIT_SERVICE_SYNC_FAILED, ""),
        DEPLOYMENT: failed(unit, UnitReason.UNIT_DEPLOYMENT_SYNC_FAILED, ""),
    }


def published(
    unit: Manifest, spec: GPUUnitSpec, observed: ObservedUnit, *, is_reachable: bool
) -> dict[str, Any]:
    """Return the status fields; the Service and its URL only if there is a Service."""
    has_url = is_reachable and has_service(unit, spec)
    return {
        "readyReplicas": number(_deployment(observed), "status", "availableReplicas"),
        "serviceName": service_name(unit["metadata"]["name"]) if has_url else None,
        "accessURL": manifests.access_url(unit, spec) if has_url else None,
    }


def starting(unit: Manifest, message: str) -> Saying:
    """Say that the unit is on its way."""
    is_stock = role_of(unit["metadata"]["namespace"]) == UnitRole.STOCK
    reason = UnitReason.STOCK_NOT_READY if is_stock else UnitReason.UNIT_PROGRESSING
    return Saying(UnitPhase.PROGRESSING, reason, message)


def running(unit: Manifest, observed: ObservedUnit, *, is_changing: bool) -> Saying:
    """Say how a unit that is to run is doing, about the current generation only."""
    deployment = _deployment(observed)
    if is_changing or not is_caught_up(deployment):
        return starting(unit, "A change is under way.")
    pods = _pods(unit, observed)
    again = unproven_failure(unit, pods, UnitReason.POD_STARTUP_FAILED, observed.at)
    failure = startup_failure(pods, deployment, observed.at) or again
    if number(deployment, "status", "availableReplicas") >= 1 and not again:
        shortage = shortage_of(pods, observed.short_nodes)
        is_stock = role_of(unit["metadata"]["namespace"]) == UnitRole.STOCK
        if shortage is not None:
            return _short_of_gpus(shortage, is_stock=is_stock)
        reason = UnitReason.STOCK_READY if is_stock else UnitReason.UNIT_READY
        return Saying(UnitPhase.READY, reason, "The pod is ready.")
    if failure is None:
        delay = startup_delay(pods, observed.at)
        if delay is None:
            return starting(unit, "The pod is starting.")
        return replace(starting(unit, delay.text), cause=delay.cause)
    failure = lasting_failure(unit, failure, UnitReason.POD_STARTUP_FAILED)
    return Saying(
        UnitPhase.FAILED, UnitReason.POD_STARTUP_FAILED, failure.text, cause=failure.cause
    )


def _short_of_gpus(shortage: Shortage, *, is_stock: bool) -> Saying:
    """Say that stock is kept back, and that a unit in use runs on and may have lost its GPU."""
    if is_stock:
        message = (
            f"The {shortage}, so nothing could start in this unit's place. It can be handed over"
            " again once the node offers as many as its pods hold."
        )
        return Saying(UnitPhase.PROGRESSING, UnitReason.GPUS_MISSING, message)
    message = (
        f"The pod runs, but the {shortage}: the GPU of this unit may be among those that are lost."
    )
    return Saying(UnitPhase.READY, UnitReason.GPUS_MISSING, message)


def is_up(deployment: Observation[Manifest]) -> bool:
    """Say whether a Deployment tells that its pod is ready: the pod itself has no more to say."""
    match deployment:
        case Present(live):
            wants = number(live, "spec", "replicas") > 0
            return wants and is_caught_up(live) and number(live, "status", "availableReplicas") > 0
        case _:
            return False


def stopped(unit: Manifest, observed: ObservedUnit, *, is_changing: bool) -> Saying:
    """Say how far a unit that is to be stopped has come: it is once its pods are gone."""
    is_at_zero = number(_deployment(observed), "spec", "replicas") == 0
    is_ending = is_changing or not is_at_zero or not is_caught_up(_deployment(observed))
    if is_ending or has_gpu(unit, observed):
        message = "The pod is ending; its GPU is given up then."
        return Saying(UnitPhase.PROGRESSING, UnitReason.STOPPING, message)
    message = "The unit is stopped and its GPU is given up."
    if observed.is_start_void:
        message = "The unit is stopped: its last start did not succeed. Start it again."
    return Saying(UnitPhase.STOPPED, UnitReason.STOPPED, message)


def has_gpu(unit: Manifest, observed: ObservedUnit) -> bool:
    """Say whether a pod of this very unit still takes its GPU."""
    return any(map(holds_gpu, _pods(unit, observed)))


def _pods(unit: Manifest, observed: ObservedUnit) -> list[Manifest]:
    return own_pods(unit, observed.pods.value) if isinstance(observed.pods, Present) else []


def _deployment(observed: ObservedUnit) -> Manifest:
    return observed.deployment.value if isinstance(observed.deployment, Present) else {}
