"""What to do about a stock pool: its rules, most urgent first. Pure and total."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gpuplatform.errors import InvalidSpec
from gpuplatform.formats.resource import sound_spec
from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, Manifest, ResourceKind
from gpuplatform.lifecycle.conditions import Condition, ConditionStatus
from gpuplatform.planning.comparison import contains
from gpuplatform.planning.ownership import (
    POOL_LABEL,
    POOL_UID_LABEL,
    adoption,
    held_up_by,
    is_controlled_by,
    is_orphan,
)
from gpuplatform.planning.plan import (
    Absent,
    Action,
    Apply,
    Delete,
    Event,
    EventType,
    Observation,
    Patch,
    Plan,
    Present,
    Status,
    first_unknown,
)
from gpuplatform.workloads.drift import without_foreign_sources
from gpuplatform.workloads.releases import keeps_its_template
from gpuplatform.workloads.startup import (
    StartupFailure,
    is_caught_up,
    lasting_failure,
    startup_delay,
    startup_failure,
    unproven_failure,
)
from gpuplatform.workloads.template import PodTemplate
from inventory.core import manifests
from inventory.core.names import service_name
from inventory.core.observed import ObservedPool
from inventory.core.spec import StockPoolSpec, parse_spec
from inventory.phases import PoolPhase, PoolReason

_OBSERVED_FIELDS: Final = ("available", "allocated", "replicas", "selector", "serviceName")
"""Status fields beside the phase; they keep their values while nothing can be observed."""

PROGRESS_SECONDS: Final = 15.0
FAILED_SECONDS: Final = 60.0
ADOPTED_SECONDS: Final = 1.0
"""How soon to look again without a mark; the watch is faster."""

_TOLD: Final = MappingProxyType(
    {
        PoolPhase.READY: EventType.NORMAL,
        PoolPhase.EMPTY: EventType.NORMAL,
        PoolPhase.FAILED: EventType.WARNING,
        PoolPhase.TERMINATING: EventType.WARNING,
    }
)
"""Phases whose beginning is an Event."""

FAREWELL: Final = Event(EventType.NORMAL, "Removed", "The stock pool is gone.")
"""What is told of a pool that is gone."""


def plan_pool(pool: Manifest, observed: ObservedPool) -> Plan:
    """Return what brings the cluster closer to `pool`, and what its status says.

    Nothing is deleted because of something unknown, and nothing that is not the pool's is changed.
    """
    if field(pool, "metadata", "deletionTimestamp"):
        return _ending(pool)  # The garbage collector takes what the pool owns.
    try:
        spec = sound_spec(pool, parse_spec)
    except InvalidSpec as error:
        return _invalid(pool, error)
    unread = _unread(observed)
    if unread:
        return _unreadable(pool, *unread)
    in_the_way = _foreign(pool, spec, observed)
    if in_the_way:
        return _adopted(pool, *in_the_way) or _conflict(pool, *in_the_way)
    actions = _service_actions(pool, spec, observed.service)
    actions += _deployment_actions(pool, spec, observed.deployment)
    status = _observed_status(pool, spec, observed, is_changing=bool(actions))
    return Plan(
        actions=actions,
        status=status,
        requeue_after=_requeue_after(status),
        on_error={
            SERVICE: _status(pool, PoolPhase.FAILED, PoolReason.SERVICE_SYNC_FAILED, ""),
            DEPLOYMENT: _status(pool, PoolPhase.FAILED, PoolReason.DEPLOYMENT_SYNC_FAILED, ""),
        },
        events=_scaling(observed.deployment, spec),
    )


def _scaling(observation: Observation[Manifest], spec: StockPoolSpec) -> list[Event]:
    """Return what is told of a Deployment that is given another number of pods."""
    match observation:
        case Present(live) if number(live, "spec", "replicas") != spec.replicas:
            message = f"Scaled from {number(live, 'spec', 'replicas')} to {spec.replicas} pods."
            return [Event(EventType.NORMAL, "Scaled", message)]
        case _:
            return []


def _invalid(pool: Manifest, error: InvalidSpec) -> Plan:
    faults = "; ".join(f"{fault.field}: {fault.message}" for fault in error.details)
    return Plan(
        status=_status(pool, PoolPhase.FAILED, PoolReason.INVALID_SPEC, faults or str(error))
    )


def _unreadable(pool: Manifest, reason: PoolReason, why: str) -> Plan:
    return Plan(
        status=_status(pool, PoolPhase.FAILED, reason, f"It could not be read: {why}"),
        requeue_after=PROGRESS_SECONDS,
    )


def _ending(pool: Manifest) -> Plan:
    """Do nothing, and say what holds the deletion up."""
    why = held_up_by(pool)
    if not why:
        return Plan()
    return Plan(status=_status(pool, PoolPhase.TERMINATING, PoolReason.FINALIZERS_REMAIN, why))


def _foreign(
    pool: Manifest, spec: StockPoolSpec, observed: ObservedPool
) -> tuple[ResourceKind, Manifest] | None:
    """Return what stands where the pool's objects belong and is not the pool's, if anything.

    A Service of that name is in nobody's way when the pool has no ports.
    """
    uid = pool["metadata"]["uid"]
    places = [(DEPLOYMENT, observed.deployment)]
    if _template(spec).ports:
        places.append((SERVICE, observed.service))
    for kind, observation in places:
        match observation:
            case Present(found) if not is_controlled_by(found, uid):
                return kind, found
            case _:
                continue
    return None


def _adopted(pool: Manifest, kind: ResourceKind, found: Manifest) -> Plan | None:
    """Return the plan that takes back what lost its owner reference, if it is the pool's.

    What a pool of that name before it left is not: its pods may be another tenant's.
    """
    uid, name = pool["metadata"]["uid"], pool["metadata"]["name"]
    if field(found, "metadata", "labels", POOL_UID_LABEL) != uid or not is_orphan(
        found, POOL_LABEL, name
    ):
        return None
    message = f"The {kind.kind} lost its owner reference and gets it again."
    return Plan(
        actions=[adoption(kind, found, pool)],
        status=_status(pool, PoolPhase.PROGRESSING, PoolReason.DEPLOYMENT_PROGRESSING, message),
        requeue_after=ADOPTED_SECONDS,
    )


def _conflict(pool: Manifest, kind: ResourceKind, found: Manifest) -> Plan:
    message = (
        f"The {kind.kind} '{found['metadata']['name']}' exists and this pool is not its"
        " controlling owner. It is left as it is; remove it or rename it."
    )
    return Plan(
        status=_status(pool, PoolPhase.FAILED, PoolReason.NAME_CONFLICT, message),
        requeue_after=FAILED_SECONDS,
    )


def _unread(observed: ObservedPool) -> tuple[PoolReason, str] | None:
    """Return what could not be read, if anything, and the cluster's words."""
    readings = (
        (PoolReason.SERVICE_SYNC_FAILED, observed.service),
        (PoolReason.DEPLOYMENT_SYNC_FAILED, observed.deployment),
        (PoolReason.POD_STATUS_SYNC_FAILED, observed.pods),
    )
    return first_unknown(readings)


def _service_actions(
    pool: Manifest, spec: StockPoolSpec, observation: Observation[Manifest]
) -> list[Action]:
    """The Service is there exactly when the template has ports."""
    template, uid = _template(spec), pool["metadata"]["uid"]
    match observation:
        case Absent() if template.ports:
            return [Apply(SERVICE, manifests.service(pool, template), force=False)]
        case Present(live) if template.ports:
            return _applied(SERVICE, live, manifests.service(pool, template))
        case Present(live) if is_controlled_by(live, uid):
            metadata = live["metadata"]
            return [Delete(SERVICE, metadata["namespace"], metadata["name"], metadata["uid"])]
        case _:
            return []


def _deployment_actions(
    pool: Manifest, spec: StockPoolSpec, observation: Observation[Manifest]
) -> list[Action]:
    wanted = manifests.deployment(pool, spec)
    match observation:
        case Absent():
            return [Apply(DEPLOYMENT, wanted, force=False)]
        case Present(live) if keeps_its_template(live, wanted):
            return _scaled(live, spec.replicas)
        case Present(live):
            cleared = without_foreign_sources(live, wanted)
            return [*([cleared] if cleared else []), *_applied(DEPLOYMENT, live, wanted)]
        case _:
            return []


def _applied(kind: ResourceKind, live: Manifest, wanted: Manifest) -> list[Action]:
    """Apply what is wanted over exactly the object that was read, unless it is so already."""
    if contains(live, wanted):
        return []
    metadata = {**wanted["metadata"], "uid": live["metadata"]["uid"]}
    return [Apply(kind, {**wanted, "metadata": metadata}, force=True)]


def _scaled(live: Manifest, replicas: int) -> list[Action]:
    if number(live, "spec", "replicas") == replicas:
        return []
    metadata = live["metadata"]
    version = {key: metadata[key] for key in ("uid", "resourceVersion")}
    patch = {"metadata": version, "spec": {"replicas": replicas}}
    return [Patch(DEPLOYMENT, metadata["namespace"], metadata["name"], patch)]


def _observed_status(
    pool: Manifest, spec: StockPoolSpec, observed: ObservedPool, *, is_changing: bool
) -> Status:
    """Say how the pool is doing, about the current generation only."""
    deployment = observed.deployment.value if isinstance(observed.deployment, Present) else {}
    available = number(deployment, "status", "availableReplicas")
    pods = observed.pods.value if isinstance(observed.pods, Present) else ()
    again = unproven_failure(pool, pods, PoolReason.POD_STARTUP_FAILED, observed.at)
    failure = None
    if is_changing or not is_caught_up(deployment):
        phase, reason = PoolPhase.PROGRESSING, PoolReason.DEPLOYMENT_PROGRESSING
        message = f"{available} of {spec.replicas} pods are available; a change is under way."
    elif spec.replicas == 0:
        phase, reason = PoolPhase.EMPTY, PoolReason.SCALED_TO_ZERO
        message = "The pool is scaled to zero."
    elif available >= spec.replicas and not again:
        phase, reason = PoolPhase.READY, PoolReason.DEPLOYMENT_READY
        message = f"{available} of {spec.replicas} pods are available."
    else:
        failure = startup_failure(pods, deployment, observed.at) or again
        if failure is None:
            phase, reason = PoolPhase.PROGRESSING, PoolReason.DEPLOYMENT_PROGRESSING
            failure = startup_delay(pods, observed.at)
            message = (
                f"{available} of {spec.replicas} pods are available; the others are starting."
            )
            message = f"{message} {failure.text}" if failure else message
        else:
            phase, reason = PoolPhase.FAILED, PoolReason.POD_STARTUP_FAILED
            failure = lasting_failure(pool, failure, reason)
            message = failure.text
    counts = {
        "available": available,
        "allocated": max(spec.replicas - available, 0),
        "replicas": number(deployment, "status", "replicas"),
        "selector": f"{POOL_LABEL}={pool['metadata']['name']}",
        "serviceName": (service_name(pool["metadata"]["name"]) if _template(spec).ports else None),
    }
    return _status(pool, phase, reason, message, counts, failure)


def _requeue_after(status: Status) -> float | None:
    """Settled pools are left to the watch; the others are looked at again."""
    match status.phase:
        case PoolPhase.PROGRESSING:
            return PROGRESS_SECONDS
        case PoolPhase.FAILED:
            return FAILED_SECONDS
        case _:
            return None


def _template(spec: StockPoolSpec) -> PodTemplate:
    return spec.template or PodTemplate()


def _status(
    pool: Manifest,
    phase: PoolPhase,
    reason: PoolReason,
    message: str,
    counts: Mapping[str, object] | None = None,
    failure: StartupFailure | None = None,
) -> Status:
    """Return the whole status; without `counts` the ones that were known last stay."""
    generation = number(pool, "metadata", "generation")
    truth: ConditionStatus = "True" if phase == PoolPhase.READY else "False"
    known = {key: field(pool, "status", key) for key in _OBSERVED_FIELDS}
    told = _TOLD.get(phase)
    return Status(
        phase=phase.value,
        conditions=(Condition("Ready", truth, reason.value, message, generation),),
        observed_generation=generation,
        cause=failure.cause.value if failure else None,
        fields=counts or {key: value for key, value in known.items() if value is not None},
        event=None if told is None else Event(told, reason.value, message),
    )
