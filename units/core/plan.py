"""The planner of GPU units: decides which objects to write and which status to report.

The rules are applied in order of urgency. The planner is pure, and it returns a plan for every
input. The hand-over is verified as a model in `tests/model`; comments name the rules of the model
where the code implements them (`waitabs`, `arbiter`, `zero`, `voidstart`, `rvdep`, `stamp`).
"""

from dataclasses import replace
from typing import Final

from gpuplatform.errors import FieldError, InvalidSpec
from gpuplatform.formats.model import invalid_spec
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, JOB, Manifest
from gpuplatform.planning.plan import Action, Apply, Create, Delete, Plan, Present, StatusSummary
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.owner import FAILED_SECONDS, SOON_SECONDS
from units.core import manifests, statuses
from units.core.children import child_actions, is_at_zero
from units.core.endings import ProgramEnd, program_end
from units.core.observed import ObservedUnit
from units.core.sources import SourceHeld, SourcePending
from units.core.spec import access_error
from units.core.statuses import OWNER
from units.core.view import UnitView
from units.phases import UnitPhase, UnitReason, UnitRole, role_of

FIRST_WAIT_SECONDS: Final = 0.5
"""Delay in seconds before the next run of a unit that has begun to wait for its stock unit, which
usually releases its GPUs within about 0.1 seconds."""


def plan_unit(unit: Manifest, observed: ObservedUnit) -> Plan:
    """Return the actions that bring the cluster closer to the spec of `unit`, and its status.

    A failed read never causes a deletion, and objects of other owners are never changed.
    """
    resource = ResourceView.of(unit)
    if resource.is_deleting:
        return OWNER.ending(resource)
    if _is_consumed(resource, observed):
        return _delete_itself(resource)
    if observed.is_outdated:
        return Plan(requeue_after=FIRST_WAIT_SECONDS)
    try:
        view = UnitView.parse(unit)
    except InvalidSpec as error:
        return OWNER.invalid(resource, error)
    if view.spec.suspend or observed.is_start_void:  # `voidstart`
        return _stop(view, observed)
    return _start(view, observed)


def _start(view: UnitView, observed: ObservedUnit) -> Plan:
    """Return the plan of a unit that must run, or whose program has ended."""
    try:
        _check_access(view)
    except InvalidSpec as error:
        return OWNER.invalid(view, error, UnitReason.ACCESS_CONFIG_INVALID)
    return (
        _obstacle(view, observed)
        or _end(view, observed)
        or _wait(view, observed)
        or _run(view, observed)
    )


def _is_consumed(unit: ResourceView, observed: ObservedUnit) -> bool:
    return role_of(unit.namespace) == UnitRole.STOCK and bool(observed.consumed_by)


def _delete_itself(unit: ResourceView) -> Plan:
    """Return the plan that deletes a consumed stock unit, for which its consumer waits."""
    deletion = Delete(GPU_UNIT, unit.namespace, unit.name, unit.uid)
    return Plan(actions=[deletion], requeue_after=SOON_SECONDS)


def _check_access(unit: UnitView) -> None:
    error = None if unit.is_stock else access_error(unit.spec.access, unit.spec.template)
    if error:
        raise invalid_spec([FieldError(f"spec.{error.field}", error.message)])


def _obstacle(unit: UnitView, observed: ObservedUnit) -> Plan | None:
    return OWNER.obstacle(unit, observed, has_service=unit.has_service, progress=unit.progress)


def _stop(unit: UnitView, observed: ObservedUnit) -> Plan:
    """Return the plan that stops the unit, so that it releases its GPUs.

    The Service is kept, and an error about the Service does not prevent the stop. A unit without a
    Deployment gets one with 0 replicas, so that a late POST of a Deployment fails (rule `zero`).
    A finished Job is replaced by a suspended one, so that the next start runs the program again.
    """
    actions = child_actions(unit, observed, runs=False)
    obstacle = _obstacle(unit, observed)
    if obstacle is not None:
        actions += obstacle.actions
        return replace(obstacle, actions=actions, on_error=OWNER.refusals(unit))
    summary = statuses.stopped(unit, observed, is_changing=bool(actions))
    if access_error(unit.spec.access, unit.spec.template) is None:
        actions += _service_actions(unit, observed)
    return _plan(unit, observed, summary, actions)


def _end(unit: UnitView, observed: ObservedUnit) -> Plan | None:
    """Return the plan of a unit whose program has ended in its current run, or `None`.

    The program never runs again without a start, even if the spec changes.
    """
    end = program_end(unit, observed)
    if end is None:
        return None
    summary = statuses.ended(unit, observed, end)
    return _plan(unit, observed, summary, _service_actions(unit, observed), end)


def _wait(unit: UnitView, observed: ObservedUnit) -> Plan | None:
    """Return the plan of a unit that must not start yet, or `None` if it can start.

    The row of the source must name this unit as its consumer (rule `arbiter`), and the pods of the
    source must have ended (rule `waitabs`); otherwise, the pod of this unit could get the GPUs of
    another unit. A running unit is not stopped.
    """
    if not is_at_zero(observed):
        return None
    name = unit.source.name if unit.source else ""
    match observed.source:
        case _ if observed.has_gpu(unit):
            message = "The previous pod is terminating. The unit starts when the pod has ended."
            summary = StatusSummary(UnitPhase.PROGRESSING, UnitReason.STOPPING, message)
        case SourcePending():
            summary = _waiting(f"The unit waits for the hand-over of stock unit '{name}'.")
        case SourceHeld(remains):
            summary = _waiting(
                f"The unit waits until stock unit '{name}' releases its GPUs: {remains}."
            )
        case _:
            return None
    is_pending = isinstance(observed.source, SourcePending)
    actions = _service_actions(unit, observed, may_create=not is_pending)
    return _plan(unit, observed, summary, actions)


def _waiting(message: str) -> StatusSummary:
    return StatusSummary(UnitPhase.PROGRESSING, UnitReason.WAITING_FOR_STOCK, message)


def _run(unit: UnitView, observed: ObservedUnit) -> Plan:
    # The pod starts while the Service is created.
    actions = child_actions(unit, observed, runs=True)
    actions += _service_actions(unit, observed)
    summary = statuses.running(unit, observed, is_changing=bool(actions))
    plan = _plan(unit, observed, summary, actions)
    if any(one.kind == JOB for one in actions):
        # A created Job is started by the next run.
        return replace(plan, requeue_after=FIRST_WAIT_SECONDS)
    if _is_first_start(unit, actions):
        # The pod often starts immediately. The first reported status is then Ready.
        return replace(plan, status=None, requeue_after=SOON_SECONDS)
    return plan


def _is_first_start(unit: UnitView, actions: list[Action]) -> bool:
    """Return whether the actions create the first Deployment of a unit without a status."""
    is_start = any(isinstance(one, Create) and one.kind == DEPLOYMENT for one in actions)
    return is_start and not unit.phase


def _service_actions(
    unit: UnitView, observed: ObservedUnit, *, may_create: bool = True
) -> list[Action]:
    wanted = manifests.service(unit) if unit.has_service else None
    return OWNER.service_actions(unit, observed.service, wanted, may_create=may_create)


def _plan(
    unit: UnitView,
    observed: ObservedUnit,
    summary: StatusSummary,
    actions: list[Action],
    end: ProgramEnd | None = None,
) -> Plan:
    is_reachable = isinstance(observed.service, Present) or any(
        isinstance(action, Apply) for action in actions
    )
    status = statuses.unit_status(unit, observed, summary, is_reachable=is_reachable, end=end)
    return Plan(
        actions=actions,
        status=status,
        requeue_after=_requeue_after(unit, summary),
        on_error=OWNER.refusals(unit) if actions else {},
    )


def _requeue_after(unit: UnitView, summary: StatusSummary) -> float | None:
    if summary.phase == UnitPhase.FAILED and summary.reason == UnitReason.PROGRAM_FAILED:
        return None
    if summary.reason == UnitReason.STOCK_WITHHELD:
        return FAILED_SECONDS  # A change of the node marks its stock units due.
    if summary.reason != UnitReason.WAITING_FOR_STOCK:
        return OWNER.requeue_after(summary)
    was_waiting = unit.previous is not None and unit.previous.reason == summary.reason
    return SOON_SECONDS if was_waiting else FIRST_WAIT_SECONDS
