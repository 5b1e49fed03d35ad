"""The planner of stock pools: decides which objects to write and which status to report.

The rules are applied in order of urgency. The planner is pure, and it returns a plan for every
input.
"""

from typing import Final

from gpuplatform.errors import InvalidSpec
from gpuplatform.kube.fields import number
from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, Manifest
from gpuplatform.planning.ownership import POOL_LABEL, POOL_UID_LABEL, patch_of
from gpuplatform.planning.plan import (
    Absent,
    Action,
    Apply,
    Event,
    EventType,
    Observation,
    Plan,
    Present,
    Status,
    StatusSummary,
)
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.drift import without_foreign_sources
from gpuplatform.workloads.owner import Children, Owner, applied
from gpuplatform.workloads.releases import keeps_its_template
from gpuplatform.workloads.startup import PodStart, is_caught_up, pod_start
from inventory.core import manifests
from inventory.core.names import object_name
from inventory.core.view import PoolView
from inventory.phases import PoolPhase, PoolReason

OWNER: Final = Owner(
    noun="stock pool",
    label=POOL_LABEL,
    uid_paths=dict.fromkeys((DEPLOYMENT, SERVICE), ("metadata", "labels", POOL_UID_LABEL)),
    refused={
        SERVICE: PoolReason.SERVICE_SYNC_FAILED,
        DEPLOYMENT: PoolReason.DEPLOYMENT_SYNC_FAILED,
    },
    resting=PoolPhase.EMPTY,
    fields=("available", "allocated", "replicas", "selector", "serviceName"),
)


def plan_pool(pool: Manifest, observed: Children) -> Plan:
    """Return the actions that bring the cluster closer to the spec of `pool`, and its status.

    A failed read never causes a deletion, and objects of other owners are never changed.
    """
    resource = ResourceView.of(pool)
    if resource.is_deleting:
        return OWNER.ending(resource)
    try:
        view = PoolView.parse(pool)
    except InvalidSpec as error:
        return OWNER.invalid(resource, error)
    has_service = bool(view.template.ports)
    return OWNER.obstacle(
        view, observed, has_service=has_service, progress=PoolReason.DEPLOYMENT_PROGRESSING
    ) or _run(view, observed)


def _run(pool: PoolView, observed: Children) -> Plan:
    service = manifests.service(pool) if pool.template.ports else None
    actions = OWNER.service_actions(pool, observed.service, service)
    actions += _deployment_actions(pool, observed)
    summary = _summary(pool, observed, is_changing=bool(actions))
    return Plan(
        actions=actions,
        status=_status(pool, observed, summary),
        requeue_after=OWNER.requeue_after(summary),
        on_error=OWNER.refusals(pool) if actions else {},
        events=_scaling(pool, observed.deployment),
    )


def _scaling(pool: PoolView, observation: Observation[Manifest]) -> list[Event]:
    """Return the Event about a change of the Deployment's number of replicas."""
    match observation:
        case Present(live) if number(live, "spec", "replicas") != pool.spec.replicas:
            before = number(live, "spec", "replicas")
            message = f"Scaled from {before} to {pool.spec.replicas} pods."
            return [Event(EventType.NORMAL, "Scaled", message)]
        case _:
            return []


def _deployment_actions(pool: PoolView, observed: Children) -> list[Action]:
    wanted = manifests.deployment(pool, observed.settings)
    match observed.deployment:
        case Absent():
            return [Apply(DEPLOYMENT, wanted, force=False)]
        case Present(live) if keeps_its_template(live, wanted):
            return _scaled(live, pool.spec.replicas)
        case Present(live):
            cleared = without_foreign_sources(live, wanted)
            return [*([cleared] if cleared else []), *applied(DEPLOYMENT, live, wanted)]
        case _:  # pragma: no cover - with an unknown Deployment, the obstacle is the plan
            return []


def _scaled(live: Manifest, replicas: int) -> list[Action]:
    if number(live, "spec", "replicas") == replicas:
        return []
    return [patch_of(DEPLOYMENT, live, {"spec": {"replicas": replicas}})]


def _summary(pool: PoolView, observed: Children, *, is_changing: bool) -> StatusSummary:
    """Return the phase, the reason and the message of the stock pool.

    They describe the current generation of its spec only.
    """
    deployment, wanted = observed.live_deployment, pool.spec.replicas
    available = number(deployment, "status", "availableReplicas")
    pods = observed.pods.value if isinstance(observed.pods, Present) else ()
    start = pod_start(pool, pods, deployment, observed.at)
    counted = f"{available} of {wanted} pods are available"
    if is_changing or not is_caught_up(deployment):
        return _progressing(f"{counted}; a change is in progress.")
    if wanted == 0:
        return StatusSummary(
            PoolPhase.EMPTY, PoolReason.SCALED_TO_ZERO, "The stock pool is scaled to zero."
        )
    if available >= wanted and start.is_proven:
        return StatusSummary(PoolPhase.READY, PoolReason.DEPLOYMENT_READY, f"{counted}.")
    return _unready(start, counted)


def _unready(start: PodStart, counted: str) -> StatusSummary:
    if start.failure is not None:
        cause, text = start.failure.cause, start.failure.text
        return StatusSummary(PoolPhase.FAILED, PoolReason.POD_STARTUP_FAILED, text, cause)
    message = f"{counted}; the others are starting."
    if start.delay is None:
        return _progressing(message)
    return _progressing(f"{message} {start.delay.text}", cause=start.delay.cause)


def _progressing(message: str, *, cause: str = "") -> StatusSummary:
    return StatusSummary(PoolPhase.PROGRESSING, PoolReason.DEPLOYMENT_PROGRESSING, message, cause)


def _status(pool: PoolView, observed: Children, summary: StatusSummary) -> Status:
    available = number(observed.live_deployment, "status", "availableReplicas")
    counts = {
        "available": available,
        "allocated": max(pool.spec.replicas - available, 0),
        "replicas": number(observed.live_deployment, "status", "replicas"),
        "selector": f"{POOL_LABEL}={pool.name}",
        "serviceName": object_name(pool.name) if pool.template.ports else None,
    }
    return OWNER.status(pool, summary, counts)
