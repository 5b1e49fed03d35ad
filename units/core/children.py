"""What to write to the Deployment of a unit. Pure.

It is created by POST once and then changed with the resource version that was read: a late write
of an older decision must not succeed (rule `rvdep` of the hand-over). It has the generation of the
unit that it was written for: a stop changes it even when it is at zero already, so that a decision
from before the stop is refused (rule `stamp`), and a decision made on an older read of the unit
than the Deployment was written for is not carried out.
"""

from typing import Final

from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import DEPLOYMENT, Manifest
from gpuplatform.planning.comparison import contains
from gpuplatform.planning.ownership import is_controlled_by, patch_of
from gpuplatform.planning.plan import Absent, Action, Create, Present
from gpuplatform.workloads.drift import without_foreign_sources
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS
from gpuplatform.workloads.releases import keeps_its_template
from units.core import manifests
from units.core.names import GENERATION_ANNOTATION
from units.core.observed import ObservedUnit, is_at_rest, written_for
from units.core.sources import NoSource, SourceGone
from units.core.view import UnitView

_PRIORITY: Final = ("spec", "template", "spec", "priorityClassName")
_CLASSES: Final = frozenset({STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS})


def is_at_zero(observed: ObservedUnit) -> bool:
    """Return whether the unit has no Deployment, or one that is scaled to zero."""
    match observed.deployment:
        case Present(live):
            return number(live, "spec", "replicas") == 0
        case _:
            return True


def is_decided(live: Manifest, uid: str) -> bool:
    """Return whether `live` is the unit's own Deployment and runs at a priority of the platform.

    The unit's source does not change it then.
    """
    runs = number(live, "spec", "replicas") > 0 and bool(_decided_priority(live))
    return runs and is_controlled_by(live, uid)


def deployment_actions(unit: UnitView, observed: ObservedUnit, *, replicas: int) -> list[Action]:
    """Return what brings the Deployment to the spec; nothing where it is unknown."""
    priority = _priority(unit, observed, is_starting=is_at_zero(observed) and replicas > 0)
    wanted = manifests.deployment(unit, replicas=replicas, priority=priority)
    match observed.deployment:
        case Absent():
            wanted["metadata"]["annotations"] |= _stamp(unit)
            return [Create(DEPLOYMENT, wanted)]
        case Present(live) if is_controlled_by(live, unit.uid):
            return _changed(unit, live, wanted)
        case _:
            return []


def _priority(unit: UnitView, observed: ObservedUnit, *, is_starting: bool) -> str:
    """Return the priority class of the pods.

    Only a unit that claimed its GPU from stock, by that stock's row, may evict others. It is
    decided at the start and stays while the pod lives: neither an edit of the catalogue nor the
    end of the row, which is kept for 30 days, restarts a running pod.
    """
    decided = _decided_priority(observed.live_deployment)
    match observed.source:
        case NoSource():
            return STOCK_PRIORITY_CLASS
        case _ if unit.is_stock:
            return STOCK_PRIORITY_CLASS
        case _ if not is_starting and decided:
            return decided
        case SourceGone(may_preempt=True):
            return UNIT_PRIORITY_CLASS
        case _:
            return STOCK_PRIORITY_CLASS


def _decided_priority(live: Manifest) -> str:
    """Return the platform's priority class of a Deployment's pods; empty if it is another."""
    name = field(live, *_PRIORITY)
    return name if isinstance(name, str) and name in _CLASSES else ""


def _stamp(unit: UnitView) -> dict[str, str]:
    return {GENERATION_ANNOTATION: str(unit.generation)}


def _changed(unit: UnitView, live: Manifest, wanted: Manifest) -> list[Action]:
    if written_for(live) > unit.generation:
        return []  # The unit was read before it changed; another run has acted on the change.
    part = _part(live, wanted)
    marks = part.get("metadata", {})
    is_whole = bool(marks)
    is_stamped = wanted["spec"]["replicas"] > 0 or is_at_rest(unit, live)
    is_meddled_with = is_whole and without_foreign_sources(live, wanted) is not None
    if contains(live, part) and is_stamped and not is_meddled_with:
        return []
    annotations = {**marks.get("annotations", {}), **_stamp(unit)}
    patch = {
        "metadata": {**marks, "annotations": annotations},
        "spec": _with_removals(live, part["spec"]) if is_whole else part["spec"],
    }
    return [patch_of(DEPLOYMENT, live, patch)]


def _part(live: Manifest, wanted: Manifest) -> Manifest:
    """Return the part of `wanted` that may be written to this Deployment.

    Its selector is immutable, its owner was checked. The template of another release stays; only
    a start decides the priority of its pods again.
    """
    spec, metadata = wanted["spec"], wanted["metadata"]
    if not keeps_its_template(live, wanted):
        return {
            "metadata": {key: metadata[key] for key in ("labels", "annotations")},
            "spec": {key: value for key, value in spec.items() if key != "selector"},
        }
    replicas = {"replicas": spec["replicas"]}
    if number(live, "spec", "replicas") == spec["replicas"]:
        return {"spec": replicas}
    priority = spec["template"]["spec"]["priorityClassName"]
    return {"spec": {**replicas, "template": {"spec": {"priorityClassName": priority}}}}


def _with_removals(live: Manifest, spec: Manifest) -> Manifest:
    """Return the patch of a Deployment's spec; a merge patch removes only keys that are null."""
    template = spec["template"]
    pod = template["spec"]
    before = field(live, "spec", "template", "spec", "nodeSelector")
    selector = pod.get("nodeSelector")
    if selector and isinstance(before, dict):
        selector = {**dict.fromkeys(before), **selector}
    placement = {"nodeSelector": selector, "tolerations": pod.get("tolerations")}
    return {
        **spec,
        "strategy": {**spec["strategy"], "rollingUpdate": None},
        "template": {**template, "spec": {**pod, **placement}},
    }
