"""What of an object a planner goes by: an event that changes none of it is no news.

Most events of a pod that starts and of its Deployment only say that it is on its way, or repeat
what the planner has just written. Pure and total. What is left out here is still read by every
run, and whatever is on its way has one again after the planner's own wait.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import DEPLOYMENT, FIELD_MANAGER, POD, Manifest, ResourceKind
from gpuplatform.workloads.startup import is_caught_up, startup_failure

_REVISION: Final = "deployment.kubernetes.io/revision"
"""Written by the Deployment controller after every change of the template."""

_ALWAYS_NEW: Final = frozenset({"resourceVersion", "managedFields"})
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def facts_of_resource(resource: Manifest) -> str:
    """Return what a planner may go by of a resource of ours, as text.

    Its status is what the planner said itself, unless somebody else wrote there.
    """
    metadata = {k: v for k, v in (resource.get("metadata") or {}).items() if k not in _ALWAYS_NEW}
    is_edited = any(
        entry.get("subresource") == "status" and entry.get("manager") != FIELD_MANAGER
        for entry in items(resource, "metadata", "managedFields")
    )
    return json.dumps([metadata, resource.get("status") if is_edited else None], sort_keys=True)


def facts_of(kind: ResourceKind, child: Manifest) -> str:
    """Return what a planner may go by of an owned object, as text."""
    return json.dumps({"marks": _marks(child), "state": _state(kind, child)}, sort_keys=True)


def is_on_its_way(kind: ResourceKind, child: Manifest) -> bool:
    """Say whether an owned object that is new has nothing to tell yet."""
    has_state = kind in {DEPLOYMENT, POD} and _state(kind, child) is not None
    return not has_state and bool(field(child, "metadata", "ownerReferences"))


def _marks(child: Manifest) -> Mapping[str, Any]:
    marks = {key: field(child, "metadata", key) for key in ("labels", "ownerReferences")}
    annotations = field(child, "metadata", "annotations")
    if isinstance(annotations, dict):
        marks["annotations"] = {k: v for k, v in annotations.items() if k != _REVISION}
    return marks


def _state(kind: ResourceKind, child: Manifest) -> Any:
    """Return what there is to tell; None of a pod or Deployment that is on its way."""
    if kind == POD:
        return _pod_state(child)
    if kind == DEPLOYMENT:
        return _deployment_state(child)
    return [child.get("spec"), field(child, "metadata", "deletionTimestamp")]


def _pod_state(pod: Manifest) -> list[Any] | None:
    """Whether it is ready is told by its Deployment; that it is gone, by its last event."""
    failure = startup_failure([pod], {})
    has_ended = field(pod, "status", "phase") in _ENDED
    shown = [failure.cause, failure.text] if failure else None
    return [shown, has_ended] if failure or has_ended else None


def _deployment_state(deployment: Manifest) -> list[Any] | None:
    generation = number(deployment, "metadata", "generation")
    available = number(deployment, "status", "availableReplicas")
    refused = condition(deployment, "ReplicaFailure")
    is_going = bool(field(deployment, "metadata", "deletionTimestamp"))
    is_first = generation <= 1 and number(deployment, "spec", "replicas") > 0
    if is_first and not available and not is_going and refused.get("status") != "True":
        return None
    replicas = number(deployment, "status", "replicas")
    said = [refused.get("status"), refused.get("message")]
    return [generation, is_caught_up(deployment), available, replicas, *said, is_going]
