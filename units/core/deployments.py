"""Decides what to write to the Deployment of a unit. Pure.

The Deployment is created with POST, and every patch contains the resource version that was read,
so that a late write of an earlier decision fails (rule `rvdep` of the hand-over). An annotation of
the Deployment records the generation of the unit for which it was written. A stop changes the
annotation even if the Deployment already has 0 replicas, so that decisions from before the stop
fail (rule `stamp`). A decision that is based on an older generation is discarded.
"""

from typing import Final

from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import DEPLOYMENT, Manifest
from gpuplatform.planning.comparison import contains
from gpuplatform.planning.ownership import is_controlled_by, patch_of
from gpuplatform.planning.plan import Absent, Action, Create, Present
from gpuplatform.workloads.drift import without_foreign_sources
from gpuplatform.workloads.objects import POD_ANNOTATIONS_ANNOTATION
from gpuplatform.workloads.releases import keeps_its_template
from units.core import manifests
from units.core.child import is_at_rest, stamp, written_for
from units.core.observed import ObservedUnit
from units.core.priority import priority_of
from units.core.view import UnitView

_OPTIONAL: Final = ("affinity", "nodeSelector", "tolerations", "volumes", "imagePullSecrets")
"""Fields of a pod that a spec or a start can remove."""


def deployment_actions(unit: UnitView, observed: ObservedUnit, *, replicas: int) -> list[Action]:
    """Return the actions that apply the spec to the Deployment, unless its state is unknown."""
    wanted = manifests.deployment(
        unit,
        replicas=replicas,
        priority=priority_of(unit, observed, DEPLOYMENT, runs=replicas > 0),
        settings=observed.settings,
    )
    match observed.deployment:
        case Absent():
            wanted["metadata"]["annotations"] |= stamp(unit)
            return [Create(DEPLOYMENT, wanted)]
        case Present(live) if is_controlled_by(live, unit.uid):
            return _changed(unit, live, wanted)
        case _:
            return []


def _changed(unit: UnitView, live: Manifest, wanted: Manifest) -> list[Action]:
    if written_for(live) > unit.generation:
        return []  # The unit has changed since it was read, and another run applied the change.
    part = _part(live, wanted)
    marks = part.get("metadata", {})
    is_whole = bool(marks)
    is_stamped = wanted["spec"]["replicas"] > 0 or is_at_rest(unit, DEPLOYMENT, live)
    is_drifted = is_whole and without_foreign_sources(live, wanted) is not None
    if contains(live, part) and is_stamped and not is_drifted:
        return []
    annotations = {**marks.get("annotations", {}), **stamp(unit)}
    if is_whole and _recorded(live):
        annotations = {POD_ANNOTATIONS_ANNOTATION: None, **annotations}
    patch = {
        "metadata": {**marks, "annotations": annotations},
        "spec": _with_removals(live, part["spec"]) if is_whole else part["spec"],
    }
    return [patch_of(DEPLOYMENT, live, patch)]


def _part(live: Manifest, wanted: Manifest) -> Manifest:
    """Return the part of `wanted` that can be written to the Deployment `live`.

    The selector is immutable, and the owner was checked before. A template that another release
    created is kept, except that a start sets the priority class and the affinity of its pods.
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
    pod = spec["template"]["spec"]
    started = {"priorityClassName": pod["priorityClassName"]}
    if pod.get("affinity") != field(live, "spec", "template", "spec", "affinity"):
        started["affinity"] = pod.get("affinity")
    return {"spec": {**replicas, "template": {"spec": started}}}


def _with_removals(live: Manifest, spec: Manifest) -> Manifest:
    """Return `spec` with null for keys to remove, because a merge patch keeps absent keys."""
    template = spec["template"]
    pod = template["spec"]
    before = field(live, "spec", "template", "spec", "nodeSelector")
    selector = pod.get("nodeSelector")
    if selector and isinstance(before, dict):
        selector = {**dict.fromkeys(before), **selector}
    security = {"fsGroup": None, **pod["securityContext"]}
    optional = dict.fromkeys(_OPTIONAL) | pod
    metadata = template["metadata"]
    if previous := _recorded(live):
        annotations = {**dict.fromkeys(previous), **metadata.get("annotations", {})}
        metadata = {**metadata, "annotations": annotations}
    return {
        **spec,
        "strategy": {**spec["strategy"], "rollingUpdate": None},
        "template": {
            **template,
            "metadata": metadata,
            "spec": {**optional, "nodeSelector": selector, "securityContext": security},
        },
    }


def _recorded(live: Manifest) -> list[str]:
    """Return the keys of the pod annotations of the previous spec."""
    keys = field(live, "metadata", "annotations", POD_ANNOTATIONS_ANNOTATION)
    return keys.split(",") if isinstance(keys, str) and keys else []
