"""Bringing a unit's Deployment and Service about: what to write, and what is not the unit's.

The Deployment is made by POST once and then changed with the resource version that was read: a
late write of an older decision must not land (rule `rvdep` of the hand-over). It bears the unit's
generation that it was written for: a stop changes it even when it is at zero already, so that a
decision from before the stop is refused (rule `stamp`), and a decision made on an older read of
the unit than the Deployment was written for is not carried out.
"""

from typing import Final

from gpuplatform.kube.fields import field, items, number
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, SERVICE, Manifest, ResourceKind
from gpuplatform.planning.comparison import contains
from gpuplatform.planning.ownership import UNIT_LABEL, is_controlled_by, is_orphan
from gpuplatform.planning.plan import (
    Absent,
    Action,
    Apply,
    Create,
    Delete,
    Observation,
    Patch,
    Present,
)
from gpuplatform.workloads.drift import without_foreign_sources
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS
from gpuplatform.workloads.releases import keeps_its_template
from units.core import manifests
from units.core.names import GENERATION_ANNOTATION, UNIT_UID_LABEL
from units.core.observed import NoSource, ObservedUnit, SourceGone, is_at_rest, written_for
from units.core.spec import GPUUnitSpec
from units.phases import UnitRole, role_of

_PRIORITY: Final = ("spec", "template", "spec", "priorityClassName")
_CLASSES: Final = frozenset({STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS})


def is_at_zero(observed: ObservedUnit) -> bool:
    """Say whether the unit has no Deployment, or one that is scaled to zero."""
    match observed.deployment:
        case Present(live):
            return number(live, "spec", "replicas") == 0
        case _:
            return True


def is_decided(live: Manifest, uid: str) -> bool:
    """Say whether `live` is the unit's own Deployment and runs at a priority of ours.

    Nothing about the unit's source changes it then.
    """
    runs = number(live, "spec", "replicas") > 0 and bool(_decided_priority(live))
    return runs and is_controlled_by(live, uid)


def is_of_predecessor(unit: Manifest, found: Manifest) -> bool:
    """Say whether `found` belongs to a unit of the same name that is gone: it goes by itself."""
    return any(
        field(owner, "controller")
        and field(owner, "kind") == GPU_UNIT.kind
        and field(owner, "name") == unit["metadata"]["name"]
        for owner in items(found, "metadata", "ownerReferences")
    )


def is_orphaned_child(unit: Manifest, kind: ResourceKind, found: Manifest) -> bool:
    """Say whether `found` was made for this very unit and only lost its owner reference.

    The pods of a Deployment bear the unit's UID, so that what a unit of that name before it left
    is told apart; a Service has no more than its marks, and selects by the name.
    """
    if not is_orphan(found, UNIT_LABEL, unit["metadata"]["name"]):
        return False
    template = field(found, "spec", "template", "metadata", "labels")
    uid: object = field(template, UNIT_UID_LABEL)
    return kind == SERVICE or uid == unit["metadata"]["uid"]


def deployment_actions(
    unit: Manifest, spec: GPUUnitSpec, observed: ObservedUnit, *, replicas: int
) -> list[Action]:
    """Return what brings the Deployment to what is wanted; nothing where it is unknown."""
    priority = _priority(unit, observed, is_starting=is_at_zero(observed) and replicas > 0)
    wanted = manifests.deployment(unit, spec, replicas=replicas, priority=priority)
    match observed.deployment:
        case Absent():
            wanted["metadata"]["annotations"] |= _stamp(unit)
            return [Create(DEPLOYMENT, wanted)]
        case Present(live) if is_controlled_by(live, unit["metadata"]["uid"]):
            return _changed(unit, live, wanted)
        case _:
            return []


def service_actions(
    unit: Manifest, spec: GPUUnitSpec, observation: Observation[Manifest], *, may_create: bool
) -> list[Action]:
    """Return what brings the Service about: it is there exactly when an active unit has ports."""
    wants = has_service(unit, spec)
    match observation:
        case Absent() if wants and may_create:
            return [Apply(SERVICE, manifests.service(unit, spec), force=False)]
        case Present(live) if not is_controlled_by(live, unit["metadata"]["uid"]):
            return []
        case Present(live) if wants:
            return _applied(live, manifests.service(unit, spec))
        case Present(live):
            metadata = live["metadata"]
            return [Delete(SERVICE, metadata["namespace"], metadata["name"], metadata["uid"])]
        case _:
            return []


def has_service(unit: Manifest, spec: GPUUnitSpec) -> bool:
    """Say whether the unit is to have a Service. Stock has none."""
    return role_of(unit["metadata"]["namespace"]) == UnitRole.ACTIVE and bool(spec.ports)


def _priority(unit: Manifest, observed: ObservedUnit, *, is_starting: bool) -> str:
    """Return the priority class of the pods.

    Only a unit that took its GPU over from stock, by that stock's row, may evict others. It is
    decided at the start and stays while the pod lives: neither an edit of the catalogue nor the
    end of the row, which is kept for 30 days, restarts anybody's job.
    """
    live = observed.deployment.value if isinstance(observed.deployment, Present) else {}
    is_stock = role_of(unit["metadata"]["namespace"]) == UnitRole.STOCK
    decided = _decided_priority(live)
    match observed.source:
        case NoSource():
            return STOCK_PRIORITY_CLASS
        case _ if is_stock:
            return STOCK_PRIORITY_CLASS
        case _ if not is_starting and decided:
            return decided
        case SourceGone(may_preempt=True):
            return UNIT_PRIORITY_CLASS
        case _:
            return STOCK_PRIORITY_CLASS


def _decided_priority(live: Manifest) -> str:
    """Return the priority class of ours that a Deployment's pods have; empty where none."""
    name = field(live, *_PRIORITY)
    return name if isinstance(name, str) and name in _CLASSES else ""


def _stamp(unit: Manifest) -> dict[str, str]:
    return {GENERATION_ANNOTATION: str(number(unit, "metadata", "generation"))}


def _changed(unit: Manifest, live: Manifest, wanted: Manifest) -> list[Action]:
    if written_for(live) > number(unit, "metadata", "generation"):
        return []  # The unit was read before it changed; somebody has acted on the change.
    part = _part(live, wanted)
    marks = part.get("metadata", {})
    is_whole = bool(marks)
    is_stamped = wanted["spec"]["replicas"] > 0 or is_at_rest(unit, live)
    is_meddled_with = is_whole and without_foreign_sources(live, wanted) is not None
    if contains(live, part) and is_stamped and not is_meddled_with:
        return []
    metadata = live["metadata"]
    patch = {
        "metadata": {
            **marks,
            "annotations": {**marks.get("annotations", {}), **_stamp(unit)},
            **{key: metadata[key] for key in ("uid", "resourceVersion")},
        },
        "spec": _with_removals(live, part["spec"]) if is_whole else part["spec"],
    }
    return [Patch(DEPLOYMENT, metadata["namespace"], metadata["name"], patch)]


def _part(live: Manifest, wanted: Manifest) -> Manifest:
    """Return what of `wanted` may be brought about on this Deployment.

    Its selector cannot be changed, its owner was checked. Another release's template stays; only
    a start decides the priority of its pods anew.
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
    """Return the patch of a Deployment's spec; a merge patch removes only what it says is null."""
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


def _applied(live: Manifest, wanted: Manifest) -> list[Action]:
    """Apply what is wanted over exactly the Service that was read, unless it is so already."""
    if contains(live, wanted):
        return []
    metadata = {**wanted["metadata"], "uid": live["metadata"]["uid"]}
    return [Apply(SERVICE, {**wanted, "metadata": metadata}, force=True)]
