"""What to do about a GPU unit, in either role: its rules, most urgent first. Pure and total.

The hand-over is checked as a model; the names of its rules (`waitabs`, `arbiter`, `zero`,
`voidstart`, `rvdep`, `stamp`) stand where the rule lives.
"""

from dataclasses import replace
from typing import Final

from gpuplatform.errors import FieldError, InvalidSpec
from gpuplatform.formats.model import invalid_spec
from gpuplatform.formats.resource import sound_spec
from gpuplatform.kube.fields import condition, field, number
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, SERVICE, Manifest, ResourceKind
from gpuplatform.planning.ownership import adoption, held_up_by, is_controlled_by
from gpuplatform.planning.plan import Action, Apply, Create, Delete, Plan, Present, first_unknown
from units.core import statuses
from units.core.children import (
    deployment_actions,
    has_service,
    is_at_zero,
    is_of_predecessor,
    is_orphaned_child,
    service_actions,
)
from units.core.observed import ObservedUnit, SourceHeld, SourcePending, source_of
from units.core.spec import GPUUnitSpec, access_fault, parse_unit_spec
from units.core.statuses import Saying
from units.phases import UnitPhase, UnitReason, UnitRole, role_of

FIRST_WAIT_SECONDS: Final = 0.5
STARTING_SECONDS: Final = 2.0
WAIT_SECONDS: Final = 2.0
PROGRESS_SECONDS: Final = 15.0
FAILED_SECONDS: Final = 60.0
"""How soon to look again without a mark; the watch is faster. A stock unit gives its GPU up in
about a tenth of a second, so the first look comes early."""


def plan_unit(unit: Manifest, observed: ObservedUnit) -> Plan:
    """Return what brings the cluster closer to `unit`, and what its status says.

    Nothing is deleted because of something unknown, and nothing that is not the unit's is changed.
    """
    if field(unit, "metadata", "deletionTimestamp"):
        return _ending(unit)  # The garbage collector takes what the unit owns.
    if _is_consumed(unit, observed):
        return _delete_itself(unit)
    try:
        spec = sound_spec(unit, parse_unit_spec)
    except InvalidSpec as error:
        return _invalid(unit, UnitReason.INVALID_SPEC, error)
    if spec.suspend or observed.is_start_void:  # `voidstart`
        return _stop(unit, spec, observed)
    try:
        _check_access(unit, spec)
    except InvalidSpec as error:
        return _invalid(unit, UnitReason.ACCESS_CONFIG_INVALID, error)
    return (
        _hindrance(unit, spec, observed)
        or _wait(unit, spec, observed)
        or _run(unit, spec, observed)
    )


def _ending(unit: Manifest) -> Plan:
    """Do nothing, and say what holds the deletion up."""
    why = held_up_by(unit)
    saying = Saying(UnitPhase.TERMINATING, UnitReason.FINALIZERS_REMAIN, why)
    return Plan(status=statuses.status(unit, saying)) if why else Plan()


def _is_consumed(unit: Manifest, observed: ObservedUnit) -> bool:
    return _role(unit) == UnitRole.STOCK and bool(observed.consumed_by)


def _delete_itself(unit: Manifest) -> Plan:
    """A stock unit whose row says consumed goes; the unit that consumed it waits for that."""
    metadata = unit["metadata"]
    gone = Delete(GPU_UNIT, metadata["namespace"], metadata["name"], metadata["uid"])
    return Plan(actions=[gone], requeue_after=WAIT_SECONDS)


def _check_access(unit: Manifest, spec: GPUUnitSpec) -> None:
    fault = access_fault(spec) if _role(unit) == UnitRole.ACTIVE else None
    if fault:
        raise invalid_spec([FieldError(f"spec.{fault.field}", fault.message)])


def _invalid(unit: Manifest, reason: UnitReason, error: InvalidSpec) -> Plan:
    """What runs keeps running; only a sound spec changes it."""
    faults = "; ".join(f"{fault.field}: {fault.message}" for fault in error.details)
    return Plan(status=statuses.failed(unit, reason, faults))


def _stop(unit: Manifest, spec: GPUUnitSpec, observed: ObservedUnit) -> Plan:
    """Give the GPU up. The Service stays, and nothing about it keeps the pod running.

    A unit without a Deployment gets one at zero: a late POST of one then meets it (`zero`).
    """
    actions = deployment_actions(unit, spec, observed, replicas=0)
    hindrance = _hindrance(unit, spec, observed)
    if hindrance is not None:
        actions += hindrance.actions
        return replace(hindrance, actions=actions, on_error=statuses.refusals(unit))
    saying = statuses.stopped(unit, observed, is_changing=bool(actions))
    if access_fault(spec) is None:
        actions += service_actions(unit, spec, observed.service, may_create=True)
    return _plan(unit, spec, observed, saying, actions)


def _wait(unit: Manifest, spec: GPUUnitSpec, observed: ObservedUnit) -> Plan | None:
    """Return the plan of a unit that may not start yet, if it may not.

    The row of its source decides (`arbiter`), and the source's pods have to be gone (`waitabs`):
    a pod that waits for a GPU beside them would take it from somebody else. What runs, runs.
    """
    if not is_at_zero(observed):
        return None
    source = source_of(unit)
    name = source.name if source else ""
    match observed.source:
        case _ if statuses.has_gpu(unit, observed):
            message = "The pod of the last run is ending; the unit starts once it is gone."
            saying = Saying(UnitPhase.PROGRESSING, UnitReason.STOPPING, message)
        case SourcePending():
            saying = _waiting(f"The stock unit '{name}' is not handed over to this unit yet.")
        case SourceHeld(why):
            saying = _waiting(f"The stock unit '{name}' gives up its GPU: {why}.")
        case _:
            return None
    is_pending = isinstance(observed.source, SourcePending)
    actions = service_actions(unit, spec, observed.service, may_create=not is_pending)
    return _plan(unit, spec, observed, saying, actions)


def _waiting(message: str) -> Saying:
    return Saying(UnitPhase.PROGRESSING, UnitReason.WAITING_FOR_STOCK, message)


def _run(unit: Manifest, spec: GPUUnitSpec, observed: ObservedUnit) -> Plan:
    actions = service_actions(unit, spec, observed.service, may_create=True)
    actions += deployment_actions(unit, spec, observed, replicas=1)
    saying = statuses.running(unit, observed, is_changing=bool(actions))
    plan = _plan(unit, spec, observed, saying, actions)
    if _is_first_start(unit, actions):
        # A pod that comes up at once is said to be ready, and nothing before that.
        return replace(plan, status=None, requeue_after=STARTING_SECONDS)
    return plan


def _is_first_start(unit: Manifest, actions: list[Action]) -> bool:
    """Say whether the pod of a unit of which nothing was ever said is being made."""
    is_start = any(isinstance(one, Create) and one.kind == DEPLOYMENT for one in actions)
    return is_start and not field(unit, "status", "phase")


def _plan(
    unit: Manifest,
    spec: GPUUnitSpec,
    observed: ObservedUnit,
    saying: Saying,
    actions: list[Action],
) -> Plan:
    is_reachable = isinstance(observed.service, Present) or any(
        isinstance(action, Apply) for action in actions
    )
    fields = statuses.published(unit, spec, observed, is_reachable=is_reachable)
    return Plan(
        actions=actions,
        status=statuses.status(unit, saying, fields),
        requeue_after=_requeue_after(unit, saying),
        on_error=statuses.refusals(unit),
    )


def _hindrance(unit: Manifest, spec: GPUUnitSpec, observed: ObservedUnit) -> Plan | None:
    """Return the plan of a unit that is not free to act, if it is not: it says why, and waits."""
    unread = _unread(observed)
    if unread is not None:
        reason, why = unread
        status = statuses.failed(unit, reason, f"It could not be read: {why}")
        return Plan(status=status, requeue_after=PROGRESS_SECONDS)
    places = [(DEPLOYMENT, observed.deployment)]
    if has_service(unit, spec):
        places.append((SERVICE, observed.service))
    for kind, observation in places:
        match observation:
            case Present(found) if not is_controlled_by(found, unit["metadata"]["uid"]):
                return _in_the_way(unit, kind, found)
            case _:
                continue
    return None


def _unread(observed: ObservedUnit) -> tuple[UnitReason, str] | None:
    """Return what could not be read, if anything, and the cluster's words."""
    readings = (
        (UnitReason.UNIT_SERVICE_SYNC_FAILED, observed.service),
        (UnitReason.UNIT_DEPLOYMENT_SYNC_FAILED, observed.deployment),
        (UnitReason.POD_STATUS_SYNC_FAILED, observed.pods),
    )
    return first_unknown(readings)


def _in_the_way(unit: Manifest, kind: ResourceKind, found: Manifest) -> Plan:
    what = f"{kind.kind} '{found['metadata']['name']}'"
    if is_orphaned_child(unit, kind, found):
        message = f"The {kind.kind} lost its owner reference and gets it again."
        status = statuses.status(unit, statuses.starting(unit, message))
        back = adoption(kind, found, unit)
        return Plan(actions=[back], status=status, requeue_after=WAIT_SECONDS)
    if is_of_predecessor(unit, found):
        message = f"The {what} of the unit that had this name before is being removed."
        status = statuses.status(unit, statuses.starting(unit, message))
        return Plan(status=status, requeue_after=WAIT_SECONDS)
    message = (
        f"The {what} exists and this unit is not its controlling owner. It is left as it is;"
        " remove it or rename it."
    )
    status = statuses.failed(unit, UnitReason.NAME_CONFLICT, message)
    return Plan(status=status, requeue_after=FAILED_SECONDS)


def _requeue_after(unit: Manifest, saying: Saying) -> float | None:
    """Settled units are left to the watch; the others are looked at again."""
    if saying.reason == UnitReason.WAITING_FOR_STOCK:
        said = condition(unit, "Ready")
        is_of_this_spec = number(said, "observedGeneration") == number(
            unit, "metadata", "generation"
        )
        was_said = is_of_this_spec and said.get("reason") == saying.reason
        return WAIT_SECONDS if was_said else FIRST_WAIT_SECONDS
    match saying.phase:
        case UnitPhase.PROGRESSING:
            return PROGRESS_SECONDS
        case UnitPhase.FAILED:
            return FAILED_SECONDS
        case _:
            return None


def _role(unit: Manifest) -> UnitRole:
    return role_of(unit["metadata"]["namespace"])
