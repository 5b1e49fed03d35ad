"""Decides what to write to the objects that run the pod of a unit. Pure.

A unit has a Deployment, or a Job if its program may end. A unit whose spec changed from one to the
other has both for a while. At most one of them wants a pod: the Job is deleted before the
Deployment is scaled up, and the Deployment is scaled to zero and kept before the Job starts, so
that a late write of an earlier decision fails (rules `zero`, `rvdep` and `stamp`).
"""

from gpuplatform.kube.kinds import DEPLOYMENT, JOB
from gpuplatform.planning.ownership import deletion_of, is_controlled_by
from gpuplatform.planning.plan import Action, Present
from units.core.child import is_at_rest, wants_pod
from units.core.deployments import deployment_actions
from units.core.jobs import job_actions
from units.core.observed import ObservedUnit
from units.core.view import UnitView


def is_at_zero(observed: ObservedUnit) -> bool:
    """Return whether the unit has neither a Deployment nor a Job that wants a pod."""
    return not any(wants_pod(kind, observed.live(kind)) for kind, _ in observed.workloads())


def child_actions(unit: UnitView, observed: ObservedUnit, *, runs: bool) -> list[Action]:
    """Return the actions that apply the spec to the object that runs the pod.

    `runs` is whether the unit must have a pod. The other object is stopped first.
    """
    if not unit.may_end:
        others = _job_deletion(unit, observed)
        own = [] if runs and others else deployment_actions(unit, observed, replicas=int(runs))
        return [*others, *own]
    if _is_fenced(unit, observed):
        return job_actions(unit, observed, runs=runs)
    fence = deployment_actions(unit, observed, replicas=0)
    return fence if runs else [*fence, *job_actions(unit, observed, runs=False)]


def _job_deletion(unit: UnitView, observed: ObservedUnit) -> list[Action]:
    """Return the deletion of the Job of a unit that has a Deployment."""
    match observed.job:
        case Present(live) if is_controlled_by(live, unit.uid):
            return [deletion_of(JOB, live, is_unchanged=True)]
        case _:
            return []


def _is_fenced(unit: UnitView, observed: ObservedUnit) -> bool:
    """Return whether no earlier decision can scale up a Deployment of a unit that has a Job.

    The Deployment has to be idle. The first spec of a unit has no earlier decisions, and a Job
    that runs was fenced when it started.
    """
    live, job = observed.live_deployment, observed.live(JOB)
    if live and not is_controlled_by(live, unit.uid):
        return True  # A Deployment with the name cannot be created.
    if wants_pod(DEPLOYMENT, live):
        return False
    has_no_past = unit.generation == 1 or wants_pod(JOB, job)
    return has_no_past or (bool(live) and is_at_rest(unit, DEPLOYMENT, live))
