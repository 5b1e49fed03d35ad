"""What to do about a GPU unit, in either role: its rules, most urgent first. Pure and total.

The hand-over is checked as a model; the names of its rules (`waitabs`, `arbiter`, `zero`,
`voidstart`, `rvdep`, `stamp`) stand where the rule is implemented.
"""

from dataclasses import replace
from typing import Final

from gpuplatform.errors import FieldError, InvalidSpec
from gpuplatform.formats.model import invalid_spec
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, Manifest
from gpuplatform.planning.plan import Action, Apply, Create, Delete, Plan, Present, StatusSummary
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.owner import SOON_SECONDS
from units.core import manifests, statuses
from units.core.children import deployment_actions, is_at_zero
from units.core.observed import ObservedUnit
from units.core.sources import SourceHeld, SourcePending
from units.core.spec import access_fault
from units.core.statuses import OWNER
from units.core.view import UnitView
from units.phases import UnitPhase, UnitReason, UnitRole, role_of

FIRST_WAIT_SECONDS: Final = 0.5
"""When to run again after a unit began to wait for its stock, which releases its GPU in about a
tenth of a second."""


def plan_unit(unit: Manifest, observed: ObservedUnit) -> Plan:
    """Return what brings the cluster closer to `unit`, and the status of the unit.

    Nothing is deleted because of a failed read, and no object of another owner is changed.
    """
    resource = ResourceView.of(unit)
    if resource.is_deleting:
        return OWNER.ending(resource)
    if _is_consumed(resource, observed):
        return _delete_itself(resource)
    try:
        view = UnitView.parse(unit, resource)
    except InvalidSpec as error:
        return OWNER.invalid(resource, error)
    if view.spec.suspend or observed.is_start_void:  # `voidstart`
        return _stop(view, observed)
    try:
        _check_access(view)
    except InvalidSpec as error:
        return OWNER.invalid(resource, error, UnitReason.ACCESS_CONFIG_INVALID)
    return _obstacle(view, observed) or _wait(view, observed) or _run(view, observed)


def _is_consumed(unit: ResourceView, observed: ObservedUnit) -> bool:
    return role_of(unit.namespace) == UnitRole.STOCK and bool(observed.consumed_by)


def _delete_itself(unit: ResourceView) -> Plan:
    """A stock unit whose row says consumed is deleted; its consumer waits for that."""
    deletion = Delete(GPU_UNIT, unit.namespace, unit.name, unit.uid)
    return Plan(actions=[deletion], requeue_after=SOON_SECONDS)


def _check_access(unit: UnitView) -> None:
    fault = None if unit.is_stock else access_fault(unit.spec)
    if fault:
        raise invalid_spec([FieldError(f"spec.{fault.field}", fault.message)])


def _obstacle(unit: UnitView, observed: ObservedUnit) -> Plan | None:
    return OWNER.obstacle(unit, observed, has_service=unit.has_service, progress=unit.progress)


def _stop(unit: UnitView, observed: ObservedUnit) -> Plan:
    """Release the GPU. The Service stays, and no fault of it keeps the pod running.

    A unit without a Deployment gets one at zero: a late POST of one then conflicts (`zero`).
    """
    actions = deployment_actions(unit, observed, replicas=0)
    obstacle = _obstacle(unit, observed)
    if obstacle is not None:
        actions += obstacle.actions
        return replace(obstacle, actions=actions, on_error=OWNER.refusals(unit))
    summary = statuses.stopped(unit, observed, is_changing=bool(actions))
    if access_fault(unit.spec) is None:
        actions += _service_actions(unit, observed)
    return _plan(unit, observed, summary, actions)


def _wait(unit: UnitView, observed: ObservedUnit) -> Plan | None:
    """Return the plan of a unit that may not start yet; None if it may.

    The row of its source decides (`arbiter`), and the source's pods must be gone (`waitabs`): a
    pod that waits for a GPU next to them would take the GPU of another unit. A running unit keeps
    running.
    """
    if not is_at_zero(observed):
        return None
    name = unit.source.name if unit.source else ""
    match observed.source:
        case _ if observed.has_gpu(unit):
            message = "The pod of the last run is terminating; the unit starts once it is gone."
            summary = StatusSummary(UnitPhase.PROGRESSING, UnitReason.STOPPING, message)
        case SourcePending():
            summary = _waiting(f"Waiting for the hand-over of stock unit '{name}'.")
        case SourceHeld(why):
            summary = _waiting(f"Waiting for stock unit '{name}' to release its GPU: {why}.")
        case _:
            return None
    is_pending = isinstance(observed.source, SourcePending)
    actions = _service_actions(unit, observed, may_create=not is_pending)
    return _plan(unit, observed, summary, actions)


def _waiting(message: str) -> StatusSummary:
    return StatusSummary(UnitPhase.PROGRESSING, UnitReason.WAITING_FOR_STOCK, message)


def _run(unit: UnitView, observed: ObservedUnit) -> Plan:
    actions = _service_actions(unit, observed)
    actions += deployment_actions(unit, observed, replicas=1)
    summary = statuses.running(unit, observed, is_changing=bool(actions))
    plan = _plan(unit, observed, summary, actions)
    if _is_first_start(unit, actions):
        # A pod that starts within a moment is reported as ready, and as nothing before that.
        return replace(plan, status=None, requeue_after=SOON_SECONDS)
    return plan


def _is_first_start(unit: UnitView, actions: list[Action]) -> bool:
    """Return whether the Deployment of a unit without any status is being created."""
    is_start = any(isinstance(one, Create) and one.kind == DEPLOYMENT for one in actions)
    return is_start and not unit.phase


def _service_actions(
    unit: UnitView, observed: ObservedUnit, *, may_create: bool = True
) -> list[Action]:
    wanted = manifests.service(unit) if unit.has_service else None
    return OWNER.service_actions(unit, observed.service, wanted, may_create=may_create)


def _plan(
    unit: UnitView, observed: ObservedUnit, summary: StatusSummary, actions: list[Action]
) -> Plan:
    is_reachable = isinstance(observed.service, Present) or any(
        isinstance(action, Apply) for action in actions
    )
    return Plan(
        actions=actions,
        status=statuses.unit_status(unit, observed, summary, is_reachable=is_reachable),
        requeue_after=_requeue_after(unit, summary),
        on_error=OWNER.refusals(unit) if actions else {},
    )


def _requeue_after(unit: UnitView, summary: StatusSummary) -> float | None:
    if summary.reason != UnitReason.WAITING_FOR_STOCK:
        return OWNER.requeue_after(summary)
    was_waiting = unit.previous is not None and unit.previous.reason == summary.reason
    return SOON_SECONDS if was_waiting else FIRST_WAIT_SECONDS
