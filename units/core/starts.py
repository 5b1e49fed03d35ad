"""The steps of the start of a unit: what its pod waited for, and for how long. Pure."""

from collections.abc import Sequence

from gpuplatform.kube.kinds import JOB
from gpuplatform.planning.plan import Present
from gpuplatform.workloads.start_steps import StartStep, StepTime, start_steps, steps_in
from units.core.child import outcome
from units.core.observed import ObservedUnit
from units.core.view import UnitView
from units.phases import UnitPhase


def steps_of(unit: UnitView, observed: ObservedUnit) -> Sequence[StepTime]:
    """Return the steps of the start of `unit`. A stock unit has no steps.

    They remain unchanged while the unit is ready, after its program has ended, and if the pods or
    their Events were not read.
    """
    known = steps_in(unit.status)
    has_ended = outcome(observed.live(JOB)) is not None
    if unit.is_stock or unit.phase == UnitPhase.READY or has_ended:
        return known
    match observed.pods, observed.pod_events, observed.claimed_at, observed.at:
        case Present(), Present(events), claimed_at, at if claimed_at and at:
            return start_steps(known, claimed_at, observed.own_pods(unit), events, at)
        case _:
            return known


def current_pull(unit: UnitView, observed: ObservedUnit) -> StepTime | None:
    """Return the image pull in progress, or `None` if no pull is in progress."""
    steps = steps_of(unit, observed)
    is_pull = bool(steps) and steps[-1].step == StartStep.IMAGE_PULL
    return steps[-1] if is_pull and steps[-1].seconds is None else None
