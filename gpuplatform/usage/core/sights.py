"""What pods prove about the use of GPUs. Pure; accepts any pod.

A *sight* is the proof that a pod of a unit held its GPUs. Nothing that no sight proves is charged.
All times of a sight are times of the cluster, and the database limits them to its own time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from gpuplatform.clock import parse_rfc3339
from gpuplatform.kube.fields import condition, field, items, text
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.ownership import UNIT_UID_LABEL
from gpuplatform.workloads.holders import holds_gpu
from gpuplatform.workloads.nodes import NodeState

SILENCE: Final = timedelta(seconds=50)
"""The time for which Kubernetes may report a node as ready after the last message of its kubelet.

Source: Kubernetes documentation, "kube-controller-manager", `--node-monitor-grace-period`: 50
seconds, and 40 seconds before release 1.32.
"""


@dataclass(frozen=True, slots=True)
class Sight:
    """The proof that a pod of a unit held GPUs from `bound_at` until `at`."""

    unit_uid: str
    pod_uid: str
    bound_at: datetime
    """Time at which the pod was bound to its node."""
    at: datetime
    """Time until which the pod is known to have held its GPUs; at least `bound_at`."""
    is_end: bool = False
    """Whether the pod released its GPUs at `at`."""
    ready_since: datetime | None = None
    """Time since which the pod is ready, or `None` if it is not ready."""


def sight_of(pod: Manifest) -> Sight | None:
    """Return the proof that `pod` alone gives, or `None` if it gives none.

    A pod proves that it was bound. If all of its containers have terminated and none is started
    again, it proves when it released its GPUs.
    """
    uid, bound_at = text(pod, "metadata", "labels", UNIT_UID_LABEL), _bound_at(pod)
    if not uid or bound_at is None:
        return None
    pod_uid = text(pod, "metadata", "uid")
    finished_at = _finished_at(pod) if _is_ending(pod) else None
    if finished_at is not None:
        return Sight(uid, pod_uid, bound_at, max(bound_at, finished_at), is_end=True)
    return Sight(uid, pod_uid, bound_at, bound_at, ready_since=_ready_since(pod))


def sights_of(
    pods: Iterable[Manifest], nodes: Mapping[str, NodeState], at: datetime
) -> list[Sight]:
    """Return the proof of each pod in complete lists that were requested at `at` or later.

    A pod is seen on a node that the cluster reports as ready (rule `nodelost`). The node may have
    been silent for `SILENCE` already, so that the pod is known to have run only before.
    """
    found = []
    for pod in pods:
        sight = sight_of(pod)
        if sight is None:
            continue
        node = nodes.get(text(pod, "spec", "nodeName"))
        if not sight.is_end and holds_gpu(pod) and node is not None and node.is_ready:
            sight = replace(sight, at=max(sight.bound_at, at - SILENCE))
        found.append(sight)
    return found


def _bound_at(pod: Manifest) -> datetime | None:
    found = condition(pod, "PodScheduled")
    is_bound = text(pod, "spec", "nodeName") and found.get("status") == "True"
    return _time(found, "lastTransitionTime") if is_bound else None


def _is_ending(pod: Manifest) -> bool:
    return not holds_gpu(pod) or bool(field(pod, "metadata", "deletionTimestamp"))


def _finished_at(pod: Manifest) -> datetime | None:
    """Return the time at which the last container ended, or `None` unless all have ended."""
    names = [field(one, "name") for one in items(pod, "spec", "containers")]
    states = items(pod, "status", "containerStatuses")
    ends = [_time(one, "state", "terminated", "finishedAt") for one in states]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) == len(names) else None


def _ready_since(pod: Manifest) -> datetime | None:
    ready = condition(pod, "Ready")
    return _time(ready, "lastTransitionTime") if ready.get("status") == "True" else None


def _time(value: Manifest, *path: str) -> datetime | None:
    try:
        return parse_rfc3339(text(value, *path))
    except ValueError:
        return None
