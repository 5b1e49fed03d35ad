"""The states of the object that runs the pod of a unit. Pure; accepts any object.

A unit has a Deployment, or a Job if its program may end. The rules of the hand-over are the same
for both, because both have the same states:

| state | Deployment | Job |
| --- | --- | --- |
| wants a pod | it has 1 replica | it is neither suspended nor finished |
| at zero | it has 0 replicas | it is suspended or finished |
| idle: a start waits for it | at zero, written for this generation | suspended, likewise |
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from gpuplatform.kube.fields import condition, field, number
from gpuplatform.kube.kinds import DEPLOYMENT, JOB, Manifest, ResourceKind
from gpuplatform.planning.ownership import is_controlled_by
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS
from units.core.names import GENERATION_ANNOTATION

_PRIORITY: Final = ("spec", "template", "spec", "priorityClassName")
_CLASSES: Final = frozenset({STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS})
_MAY_END: Final = frozenset({"onFailure", "never"})
_OUTCOMES: Final[Mapping[str, bool]] = {
    "SuccessCriteriaMet": True,
    "Complete": True,
    "FailureTarget": False,
    "Failed": False,
}
"""The conditions of a Job that has finished or is about to finish; true for a success."""


def kind_of(unit: Manifest) -> ResourceKind:
    """Return the kind of the object that runs the pod of a `GPUUnit` resource."""
    restart: Any = field(unit, "spec", "template", "restart")
    return JOB if isinstance(restart, str) and restart in _MAY_END else DEPLOYMENT


def possible_kinds(spec: object, generation: int) -> tuple[ResourceKind, ...]:
    """Return the kinds of the objects that the specs of a unit have ever required.

    The first spec requires one of them. After a change of the spec, both can exist.
    """
    return (kind_of({"spec": spec}),) if generation == 1 else (DEPLOYMENT, JOB)


def wants_pod(kind: ResourceKind, live: Manifest) -> bool:
    """Return whether the cluster has to run a pod for the object."""
    if kind == JOB:
        return bool(live) and not is_suspended(live) and outcome(live) is None
    return number(live, "spec", "replicas") > 0


def is_suspended(job: Manifest) -> bool:
    """Return whether a Job is suspended."""
    return field(job, "spec", "suspend") is True


def outcome(job: Manifest) -> bool | None:
    """Return whether the program of a Job succeeded, or `None` if the Job has not finished.

    The outcome of a Job never changes, and a finished Job never runs a pod again.
    """
    for type_, is_success in _OUTCOMES.items():
        if condition(job, type_).get("status") == "True":
            return is_success
    return None


def written_for(live: Manifest) -> int:
    """Return the generation of the unit for which the object was written; 0 if unknown."""
    mark = str(field(live, "metadata", "annotations", GENERATION_ANNOTATION))
    return int(mark) if re.fullmatch("[0-9]{1,9}", mark) else 0


def is_at_rest(unit: ResourceView, kind: ResourceKind, live: Manifest) -> bool:
    """Return whether the planner set the object to zero for this generation of `unit`.

    A start waits for this (rule `stamp` of the hand-over). Every earlier decision to run a pod was
    based on an older version of the object, so that the cluster rejects its late write.
    """
    is_at_zero = is_suspended(live) if kind == JOB else field(live, "spec", "replicas") == 0
    return is_at_zero and written_for(live) == unit.generation


def has_observed_zero(kind: ResourceKind, live: Manifest) -> bool:
    """Return whether the controller of an idle object has observed that it is at zero."""
    if kind == JOB:
        is_observed = condition(live, "Suspended").get("status") == "True"
        return is_observed and not number(live, "status", "active")
    seen = number(live, "status", "observedGeneration")
    return seen >= number(live, "metadata", "generation") and not number(
        live, "status", "replicas"
    )


def is_decided(kind: ResourceKind, live: Manifest, uid: str) -> bool:
    """Return whether the unit's object runs a pod whose priority the platform decided.

    The source of the unit then no longer affects the object.
    """
    runs = wants_pod(kind, live) and bool(decided_priority(live))
    return runs and is_controlled_by(live, uid)


def decided_priority(live: Manifest) -> str:
    """Return the priority class that the platform set, or an empty string."""
    name = field(live, *_PRIORITY)
    return name if isinstance(name, str) and name in _CLASSES else ""


def stamp(unit: ResourceView) -> dict[str, str]:
    """Return the annotation of an object that is written for the generation of `unit`."""
    return {GENERATION_ANNOTATION: str(unit.generation)}
