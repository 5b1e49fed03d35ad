"""The fields of objects that affect planning. The event filter drops events that change none.

Most events of a starting pod and its Deployment only report progress or a write of the planner.
Each run of a reconciler reads all fields, and a progressing resource has its next run scheduled,
so that a dropped event has no other effect. Pure; accepts any object.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import DEPLOYMENT, FIELD_MANAGER, JOB, POD, Manifest, ResourceKind
from gpuplatform.workloads.startup import is_caught_up, startup_failure

_REVISION: Final = "deployment.kubernetes.io/revision"
"""Annotation that the Deployment controller writes after each change of the template."""

_VOLATILE: Final = frozenset({"resourceVersion", "managedFields"})
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def facts_of_resource(resource: Manifest) -> str:
    """Return the relevant fields of a custom resource as text.

    The status is relevant only if another client edited it.
    """
    metadata = {k: v for k, v in (resource.get("metadata") or {}).items() if k not in _VOLATILE}
    is_edited = any(
        entry.get("subresource") == "status" and entry.get("manager") != FIELD_MANAGER
        for entry in items(resource, "metadata", "managedFields")
    )
    return json.dumps([metadata, resource.get("status") if is_edited else None], sort_keys=True)


def facts_of(kind: ResourceKind, child: Manifest) -> str:
    """Return the relevant fields of an owned object as text."""
    return json.dumps([_metadata(child), _state(kind, child)], sort_keys=True)


def is_starting(kind: ResourceKind, child: Manifest) -> bool:
    """Return whether a new owned object has no relevant state yet."""
    has_state = kind in {DEPLOYMENT, JOB, POD} and _state(kind, child) is not None
    return not has_state and bool(field(child, "metadata", "ownerReferences"))


def _metadata(child: Manifest) -> Mapping[str, Any]:
    metadata = {key: field(child, "metadata", key) for key in ("labels", "ownerReferences")}
    annotations = field(child, "metadata", "annotations")
    if isinstance(annotations, dict):
        metadata["annotations"] = {k: v for k, v in annotations.items() if k != _REVISION}
    return metadata


def _state(kind: ResourceKind, child: Manifest) -> Any:
    """Return the relevant state, or `None` for a pod or a Deployment that is starting."""
    if kind == POD:
        return _pod_state(child)
    if kind == DEPLOYMENT:
        return _deployment_state(child)
    if kind == JOB:
        return _job_state(child)
    return [child.get("spec"), field(child, "metadata", "deletionTimestamp")]


def _pod_state(pod: Manifest) -> list[Any] | None:
    """Return the failure, and whether the pod has ended.

    The Deployment or the Job reports the readiness, and the `DELETED` event reports the deletion.
    """
    failure = startup_failure([pod], {})
    has_ended = field(pod, "status", "phase") in _ENDED
    reported = [failure.cause, failure.text] if failure else None
    return [reported, has_ended] if failure or has_ended else None


def _deployment_state(deployment: Manifest) -> list[Any] | None:
    generation = number(deployment, "metadata", "generation")
    available = number(deployment, "status", "availableReplicas")
    failure = condition(deployment, "ReplicaFailure")
    is_deleting = bool(field(deployment, "metadata", "deletionTimestamp"))
    is_first = generation <= 1 and number(deployment, "spec", "replicas") > 0
    if is_first and not available and not is_deleting and failure.get("status") != "True":
        return None
    replicas = number(deployment, "status", "replicas")
    reported = [failure.get("status"), failure.get("message")]
    return [generation, is_caught_up(deployment), available, replicas, *reported, is_deleting]


def _job_state(job: Manifest) -> list[Any]:
    """Return the conditions and the counts. A new Job is suspended, and has to be started."""
    counts = ("active", "ready", "terminating", "succeeded", "failed")
    conditions = {
        str(field(one, "type")): field(one, "status") for one in items(job, "status", "conditions")
    }
    return [
        number(job, "metadata", "generation"),
        [number(job, "status", name) for name in counts],
        conditions,
        bool(field(job, "metadata", "deletionTimestamp")),
    ]
