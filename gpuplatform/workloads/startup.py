"""Determines from raw objects why the pods of a Deployment do not start. Pure; accepts any object.

Only machine-readable fields determine the cause: reasons, exit codes and condition types. Messages
are only displayed. A malformed object raises no exception.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from gpuplatform import clock
from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.causes import CRASH_LOOP, TRANSIENT, StartupCause
from gpuplatform.workloads.container_failures import (
    NOT_A_FAILURE,
    RETRIED_PULLS,
    StartupFailure,
    container_failure,
    container_states,
    of_pod,
    shortened,
    termination,
)

POD_STARTUP_FAILED: Final = "PodStartupFailed"
"""The reason of a resource whose pods do not start."""

PULL_GRACE_SECONDS: Final = 20.0
"""Time in seconds after the start of a pod during which a failed image pull is not a failure yet.
The second attempt often succeeds."""

SCHEDULING_GRACE_SECONDS: Final = 20.0
"""Time in seconds after the first attempt to schedule a pod during which an unschedulable pod is
not a failure yet. During a hand-over, the scheduler can see the GPUs of the stock unit in use."""

REFUSAL_GRACE_SECONDS: Final = 20.0
"""Time in seconds after the start of a pod during which its rejection by the node is not a failure
yet. The cluster replaces the pod: a device can fail after the scheduler has chosen the node."""

PROVEN_SECONDS: Final = 60.0
"""Time in seconds that a restarted container must run before the failure of its pod ends."""

_EVICTIONS = frozenset({"Evicted", "Preempting", "NodeShutdown", "Terminated", "NodeLost"})


@dataclass(frozen=True, slots=True)
class PodStart:
    """The progress of the pods of a Deployment, with their failure or their delay, if any."""

    failure: StartupFailure | None = None
    delay: StartupFailure | None = None
    is_proven: bool = True
    """Whether no container was restarted within the last `PROVEN_SECONDS`."""


def startup_failure(
    pods: Sequence[Manifest], deployment: Manifest, at: datetime | None = None
) -> StartupFailure | None:
    """Return the failure of the pods, or `None` if no failure is reported.

    The order of precedence is: a pod that a node evicted or rejected, a failed container, an
    unschedulable pod, a pod that was not created. Pods that are being deleted are ignored, and so
    are rejected pods if a pod that replaces them is unschedulable.

    Args:
        pods: The pods of the Deployment.
        deployment: The Deployment, or an empty dict if it is unknown.
        at: Time of the read. If it is `None`, failed image pulls, rejected pods and unschedulable
            pods have no grace period.
    """
    living = _current(pods)
    for pod in living:
        failure = node_refusal(pod) or container_failure(pod) or _pod_failure(pod)
        if failure and not _is_in_grace(pod, failure, at):
            return failure
    for pod in living:
        failure = _unschedulable(pod)
        if failure and unschedulable_seconds(pod, at) >= SCHEDULING_GRACE_SECONDS:
            return failure
    rejected = condition(deployment, "ReplicaFailure")
    if rejected.get("status") == "True":
        text = f"The pod was rejected: {_message(rejected)}"
        return _failure(StartupCause.POD_REJECTED, text)
    return None


def startup_delay(pods: Sequence[Manifest], at: datetime | None = None) -> StartupFailure | None:
    """Return the delay of pods that have not failed, or `None` if no delay is known.

    A delay is an unreachable node, a failed image pull, an unschedulable pod or a rejected pod
    within its grace period, or a running container that is not ready. The text remains
    the same while the state is unchanged.
    """
    if node := unreachable_node(pods):
        text = f"Node '{node}' is unreachable, so its pod is not ready."
        return _failure(StartupCause.NODE_UNREACHABLE, text)
    living = _current(pods)
    for pod in living:
        if (failure := container_failure(pod)) and _is_in_grace(pod, failure, at):
            return _in_grace(pod, failure, "The pull is retried", PULL_GRACE_SECONDS)
    for pod in living:
        failure = _unschedulable(pod)
        if failure and unschedulable_seconds(pod, at) < SCHEDULING_GRACE_SECONDS:
            text = f"{failure.text} The pod starts when it fits a node."
            return replace(failure, text=text)
    for pod in living:
        if (failure := node_refusal(pod)) and _is_in_grace(pod, failure, at):
            return _in_grace(pod, failure, "The pod is replaced", REFUSAL_GRACE_SECONDS)
    return next((found for pod in living if (found := _unready(pod))), None)


def unschedulable_seconds(pod: Manifest, at: datetime | None) -> float:
    """Return for how long a pod has been unschedulable; 0 if it is not.

    Returns infinity if the time of the first attempt or the current time is unknown.
    """
    if _unschedulable(pod) is None:
        return 0.0
    since = _time(condition(pod, "PodScheduled").get("lastTransitionTime"))
    if since is None or at is None:
        return float("inf")
    seconds = (at - since).total_seconds()
    # If the clock of the scheduler is far ahead, the time counts as unknown.
    return float("inf") if seconds <= -SCHEDULING_GRACE_SECONDS else max(seconds, 0.0)


def unreachable_node(pods: Sequence[Manifest]) -> str:
    """Return the name of the first unreachable node of the pods, or an empty string.

    If a node is unreachable, the cluster sets the condition `Ready` of its pods to False, but does
    not change `ContainersReady`.
    """
    for pod in pods:
        statuses = {
            type_: condition(pod, type_).get("status") for type_ in ("Ready", "ContainersReady")
        }
        node = field(pod, "spec", "nodeName")
        has_gates = bool(items(pod, "spec", "readinessGates"))
        if statuses == {"Ready": "False", "ContainersReady": "True"} and node and not has_gates:
            return str(node)
    return ""


def node_refusal(pod: Manifest) -> StartupFailure | None:
    """Return the reason for which the node evicted or rejected the pod, or `None`.

    If the program exits with exit code 0 when the kubelet evicts the pod, the pod becomes
    `Succeeded` without a reason. The kubelet restarts programs of other pods whose restart policy
    is `Always`, so that these never succeed.
    """
    policy, phase = field(pod, "spec", "restartPolicy"), field(pod, "status", "phase")
    if (policy, phase) == ("Always", "Succeeded"):
        node = field(pod, "spec", "nodeName")
        text = f"node '{node}' stopped the pod, whose program exited with exit code 0"
        return of_pod(pod, _failure(StartupCause.EVICTED, text))
    return _pod_failure(pod) if field(pod, "status", "reason") else None


def pod_start(
    resource: ResourceView, pods: Sequence[Manifest], deployment: Manifest, at: datetime | None
) -> PodStart:
    """Return the failure or the delay of the pods, considering the failure in the status.

    A container that exits repeatedly is ready for a short time after each restart, and the cluster
    reports the error and the back-off alternately. The cause and the text of the failure remain
    the same during that time.

    Args:
        resource: The resource that owns the Deployment.
        pods: The pods of the Deployment.
        deployment: The Deployment, or an empty dict if it is unknown.
        at: Time of the read. If it is `None`, a failed image pull has no grace period, and no
            restart counts as recent.
    """
    is_restarted = at is not None and any(_restarted_lately(pod, at) for pod in _living(pods))
    unproven = _previous(resource, StartupCause.CONTAINER_EXITED) if is_restarted else None
    failure = startup_failure(pods, deployment, at) or unproven
    if failure is None:
        return PodStart(delay=startup_delay(pods, at))
    return PodStart(failure=_lasting(resource, failure), is_proven=unproven is None)


def _lasting(resource: ResourceView, failure: StartupFailure) -> StartupFailure:
    """Return the failure in the status if `failure` is only its back-off, otherwise `failure`."""
    previous = _previous(resource, failure.cause) if failure.is_back_off else None
    if previous is None:
        return failure
    is_repeated = previous.cause == failure.cause or {previous.cause, failure.cause} <= CRASH_LOOP
    return previous if is_repeated else failure


def is_caught_up(deployment: Manifest) -> bool:
    """Return whether the status describes the current spec, and all pods have its template."""
    generation = number(deployment, "metadata", "generation")
    wanted = number(deployment, "spec", "replicas")
    return (
        generation > 0
        and number(deployment, "status", "observedGeneration") >= generation
        and number(deployment, "status", "replicas")
        == number(deployment, "status", "updatedReplicas")
        and number(deployment, "status", "replicas") <= wanted
    )


def known_cause(status: Any) -> StartupCause | None:
    """Return the cause in the status of a resource, or `None` if it is absent or unknown."""
    found = str(field(status, "cause"))
    return StartupCause(found) if found in _VALUES else None


_VALUES: Final = frozenset(StartupCause)


def _failure(cause: StartupCause, text: str) -> StartupFailure:
    return StartupFailure(cause, shortened(text), is_transient=cause in TRANSIENT)


def _previous(resource: ResourceView, otherwise: StartupCause) -> StartupFailure | None:
    """Return the failure in the status, or `None` if the status describes no such failure.

    `otherwise` is the cause if the status has none.
    """
    previous = resource.previous
    if previous is None or previous.reason != POD_STARTUP_FAILED:
        return None
    return _failure(known_cause(resource.status) or otherwise, previous.message)


def _living(pods: Sequence[Manifest]) -> list[Manifest]:
    return [pod for pod in pods if not field(pod, "metadata", "deletionTimestamp")]


def _current(pods: Sequence[Manifest]) -> list[Manifest]:
    """Return the pods, without rejected ones whose replacement is unschedulable."""
    living = _living(pods)
    if not any(_unschedulable(pod) for pod in living):
        return living
    return [pod for pod in living if not _is_rejected(node_refusal(pod))]


def _is_rejected(failure: StartupFailure | None) -> bool:
    return failure is not None and failure.cause == StartupCause.REJECTED_BY_NODE


def _in_grace(
    pod: Manifest, failure: StartupFailure, next_step: str, seconds: float
) -> StartupFailure:
    """Return the delay of a pod whose failure is in its grace period."""
    started = _started(pod)
    end = f" at {started + timedelta(seconds=seconds):%H:%M:%S} UTC" if started else ""
    return replace(failure, text=f"{failure.text}. {next_step}, and counts as failed{end}.")


def _restarted_lately(pod: Manifest, at: datetime) -> bool:
    """Return whether a container of the pod was restarted within the last `PROVEN_SECONDS`."""
    for status in items(pod, "status", "containerStatuses"):
        started = _time(field(status, "state", "running", "startedAt"))
        if _is_within(started, PROVEN_SECONDS, at) and number(status, "restartCount") > 0:
            return True
    return False


def _is_in_grace(pod: Manifest, failure: StartupFailure, at: datetime | None) -> bool:
    """Return whether the failure is a retried image pull or a rejection in its grace period."""
    if at is not None and _is_rejected(failure):
        return _is_within(_started(pod), REFUSAL_GRACE_SECONDS, at)
    if failure.cause != StartupCause.IMAGE_PULL_FAILED or not failure.is_transient:
        return False
    waiting = {
        str(field(state, "waiting", "reason") or "") for _, state, _ in container_states(pod)
    }
    is_pull_alone = waiting - NOT_A_FAILURE <= RETRIED_PULLS
    started = _started(pod)
    return is_pull_alone and at is not None and _is_within(started, PULL_GRACE_SECONDS, at)


def _is_within(time: datetime | None, seconds: float, at: datetime) -> bool:
    """Return whether a time that a node reported is less than `seconds` from `at`.

    A node whose clock is ahead reports a time in the future. If it is far ahead, the time counts
    as unknown, because the period would otherwise last as long as the clock is ahead.
    """
    return time is not None and abs((at - time).total_seconds()) < seconds


def _started(pod: Manifest) -> datetime | None:
    return _time(field(pod, "status", "startTime"))


def _unready(pod: Manifest) -> StartupFailure | None:
    """Return the delay of a pod that has a running container that is not ready."""
    has_probe = any(field(one, "readinessProbe") for one in items(pod, "spec", "containers"))
    for one in items(pod, "status", "containerStatuses"):
        since = _time(field(one, "state", "running", "startedAt"))
        if since is None or field(one, "ready") is not False:
            continue
        probe = "; its readiness probe has not succeeded" if has_probe else ""
        text = f"The container has run since {since:%H:%M:%S} UTC but is not ready{probe}."
        last = termination(field(one, "lastState", "terminated"))
        return _failure(
            StartupCause.NOT_READY, f"{text} The previous run ended: {last.text}" if last else text
        )
    return None


def _unschedulable(pod: Manifest) -> StartupFailure | None:
    """Return the failure of a pod that fits no node, even within its grace period."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") != "False" or scheduled.get("reason") != "Unschedulable":
        return None
    return _failure(StartupCause.UNSCHEDULABLE, f"No suitable node: {_message(scheduled)}")


def _time(text: object) -> datetime | None:
    try:
        return clock.parse_rfc3339(str(text))
    except ValueError:
        return None


def _pod_failure(pod: Manifest) -> StartupFailure | None:
    if field(pod, "status", "phase") != "Failed":
        return None
    reason, text = (str(pod["status"].get(key) or "") for key in ("reason", "message"))
    cause = StartupCause.REJECTED_BY_NODE if reason else StartupCause.POD_FAILED
    if reason in _EVICTIONS:
        cause = StartupCause.EVICTED
    return of_pod(pod, _failure(cause, text or reason or "the pod failed"))


def _message(condition_: Manifest) -> str:
    return str(condition_.get("message") or condition_.get("reason") or "no message")
