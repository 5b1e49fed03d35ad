"""The status of a Deployment: replica counts, and Available, Progressing, ReplicaFailure."""

from datetime import datetime, timedelta

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver.controllers.rollout import Bounds
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone, condition, set_condition

_COUNTS = ("replicas", "readyReplicas", "availableReplicas")
_DONE, _TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"


def deployment_status(deployment: Manifest, new: Manifest | None, old: list[Manifest]) -> Manifest:
    """Return the status of `deployment`. `new` is its current ReplicaSet, `old` are the others."""
    replica_sets = [*old, *([new] if new else [])]
    states = [replica_set.get("status", {}) for replica_set in replica_sets]
    counts = {name: sum(s.get(name, 0) for s in states) for name in _COUNTS}
    counts["updatedReplicas"] = new.get("status", {}).get("replicas", 0) if new else 0
    requested = sum(replica_set["spec"]["replicas"] for replica_set in replica_sets)
    counts["unavailableReplicas"] = max(0, requested - counts["availableReplicas"])
    before = deployment.get("status", {})
    status: Manifest = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = sum(state.get("terminatingReplicas", 0) for state in states)
    status["observedGeneration"] = deployment["metadata"]["generation"]
    status["conditions"] = clone(before.get("conditions", []))
    _set_available(deployment, status)
    _set_progressing(deployment, status, new)
    _set_failure(status, replica_sets)
    return status


def _set_available(deployment: Manifest, status: Manifest) -> None:
    enough = status.get("availableReplicas", 0) >= Bounds.of(deployment).min_available
    word = "has" if enough else "does not have"
    new = {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": f"Deployment {word} minimum availability.",
    }
    set_condition(status, new)


def _set_progressing(deployment: Manifest, status: Manifest, new: Manifest | None) -> None:
    spec, present = deployment["spec"], condition({"status": status}, "Progressing")
    if spec.get("paused"):
        _progress(status, "Unknown", "DeploymentPaused", "Deployment is paused")
        return
    if new is None:
        return
    name = new["metadata"]["name"]
    message_names_it = name in present.get("message", "")
    settled = present.get("reason") == _DONE and message_names_it
    if _is_complete(deployment, status):
        _progress(status, "True", _DONE, f'ReplicaSet "{name}" has successfully progressed.')
    elif settled and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return
    elif not present or not message_names_it:
        _progress(status, "True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
    elif _has_progressed(deployment.get("status", {}), status):
        message = f'ReplicaSet "{name}" is progressing.'
        _progress(status, "True", "ReplicaSetUpdated", message, progressed=True)
    else:
        deadline = next_deadline(deployment, status)
        if deadline and deadline <= clock.now():
            _progress(
                status, "False", _TIMED_OUT, f'ReplicaSet "{name}" has timed out progressing.'
            )


def _progress(
    status: Manifest, value: str, reason: str, message: str, *, progressed: bool = False
) -> None:
    new = {"type": "Progressing", "status": value, "reason": reason, "message": message}
    set_condition(status, new, progressed=progressed)


def _is_complete(deployment: Manifest, status: Manifest) -> bool:
    desired = deployment["spec"]["replicas"]
    names = ("replicas", "updatedReplicas", "availableReplicas")
    return all(status.get(name, 0) == desired for name in names)


def _has_progressed(before: Manifest, status: Manifest) -> bool:
    """Return whether there are more new or available replicas, or fewer old replicas."""
    grown = any(
        status.get(name, 0) > before.get(name, 0)
        for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )
    return grown or _old_replicas(status) < _old_replicas(before)


def _old_replicas(status: Manifest) -> int:
    return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))


def _set_failure(status: Manifest, replica_sets: list[Manifest]) -> None:
    kept = [c for c in status["conditions"] if c.get("type") != "ReplicaFailure"]
    failures = [condition(replica_set, "ReplicaFailure") for replica_set in replica_sets]
    found = next(filter(None, failures), None)
    if found is None:
        status["conditions"] = kept
        return
    copied = {name: found.get(name, "") for name in ("type", "status", "reason", "message")}
    set_condition(status, copied)


def next_deadline(deployment: Manifest, status: Manifest) -> datetime | None:
    """Return the time of the progress deadline.

    Returns `None` if the rollout is complete, failed or paused.
    """
    present = condition({"status": status}, "Progressing")
    if present.get("status") != "True" or present.get("reason") == _DONE:
        return None
    updated_at = present.get("lastUpdateTime")
    since = clock.parse_rfc3339(updated_at) if updated_at else clock.now()
    return since + timedelta(seconds=deployment["spec"]["progressDeadlineSeconds"])
