"""Why the pods of a Deployment do not start, read out of raw objects.

Total: a malformed object raises no exception. Pure.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from gpuplatform import clock
from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import Manifest

PULL_GRACE_SECONDS: Final = 20.0
"""For so long after a pod's start a failed pull is no failure of it: a registry that was away for
a moment has answered by then, at the cluster's second try."""

PROVEN_SECONDS: Final = 60.0
"""For so long a container that had ended has to run until its pod's failure is over."""

_PASSING = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"})
_NOT_A_FAILURE = frozenset({"", "ContainerCreating", "PodInitializing"})
_PULL_CAUSE = "ErrImagePull: "
_LONGEST_MESSAGE = 1000


def startup_failure(
    pods: Sequence[Manifest], deployment: Manifest, at: datetime | None = None
) -> str | None:
    """Return why pods do not start, in the cluster's own words; None if nothing says so.

    The most useful first: why its node put the pod out, what a container said, what the scheduler
    said, why no pod was made.
    Pods that are being deleted belong to the past. `at` is when they were read.
    """
    living = [pod for pod in pods if not field(pod, "metadata", "deletionTimestamp")]
    for pod in living:
        text = _node_refusal(pod) or _container_failure(pod) or _pod_failure(pod)
        if text and not (_is_pulling(pod) and _is_young(pod, at)):
            return _shortened(f"Pod {field(pod, 'metadata', 'name')}: {text}")
    for pod in living:
        scheduled = condition(pod, "PodScheduled")
        if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
            return _shortened(f"No node for the pod: {_said(scheduled)}")
    refused = condition(deployment, "ReplicaFailure")
    if refused.get("status") == "True":
        return _shortened(f"No pod can be made: {_said(refused)}")
    return None


def startup_news(pods: Sequence[Manifest], at: datetime | None = None) -> str:
    """Return what is known of pods that start and have not failed; empty if nothing is.

    A pull that fails and has its time of grace, and until when; a container that runs and is not
    ready, and since when. It says the same as long as nothing changes.
    """
    living = [pod for pod in pods if not field(pod, "metadata", "deletionTimestamp")]
    for pod in living:
        text, started = _container_failure(pod), _started(pod)
        if text and started is not None and _is_pulling(pod) and _is_young(pod, at):
            end = started + timedelta(seconds=PULL_GRACE_SECONDS)
            said = _shortened(f"Pod {field(pod, 'metadata', 'name')}: {text}")
            return f"{said}. It is tried again, and counts as failed from {end:%H:%M:%S} UTC on."
    return next((said for pod in living if (said := _runs_unready(pod))), "")


def silent_node(pods: Sequence[Manifest]) -> str:
    """Return the name of a node that no longer answers for one of its pods; empty if none is seen.

    The cluster then takes the pod's Ready from it and leaves what its containers said last.
    """
    for pod in pods:
        said = {
            type_: condition(pod, type_).get("status") for type_ in ("Ready", "ContainersReady")
        }
        node = field(pod, "spec", "nodeName")
        has_gates = bool(items(pod, "spec", "readinessGates"))
        if said == {"Ready": "False", "ContainersReady": "True"} and node and not has_gates:
            return str(node)
    return ""


def unproven_failure(
    resource: Manifest, pods: Sequence[Manifest], reason: str, at: datetime | None
) -> str | None:
    """Return what was said of pods that failed, while one of them runs again but not for long.

    A program that ends again and again is ready for a moment at each try. None if nothing was
    said of this generation under `reason`, or if all that ended ran on since.
    """
    living = (pod for pod in pods if not field(pod, "metadata", "deletionTimestamp"))
    is_unproven = at is not None and any(_ran_since_its_end(pod, at) for pod in living)
    return _said_before(resource, reason) or None if is_unproven else None


def first_cause(resource: Manifest, failure: str, reason: str) -> str:
    """Return the cause that was said of this generation while `failure` only says there is a wait.

    `reason` is the one under which failures are said.
    """
    return _said_before(resource, reason) or failure if _is_wait(failure) else failure


def is_caught_up(deployment: Manifest) -> bool:
    """Say whether the Deployment's status speaks of its present spec and counts no older pod."""
    generation = number(deployment, "metadata", "generation")
    wanted = number(deployment, "spec", "replicas")
    return (
        generation > 0
        and number(deployment, "status", "observedGeneration") >= generation
        and number(deployment, "status", "replicas")
        == number(deployment, "status", "updatedReplicas")
        and number(deployment, "status", "replicas") <= wanted
    )


def _said_before(resource: Manifest, reason: str) -> str:
    """Return what was said of this generation under `reason`; empty if it was not that."""
    said = condition(resource, "Ready")
    is_of_this_spec = number(said, "observedGeneration") == number(
        resource, "metadata", "generation"
    )
    is_known = is_of_this_spec and said.get("reason") == reason
    return str(said.get("message") or "") if is_known else ""


def _ran_since_its_end(pod: Manifest, at: datetime) -> bool:
    """Say whether a container of `pod` ended and was started again moments ago."""
    for status in items(pod, "status", "containerStatuses"):
        started = _time(field(status, "state", "running", "startedAt"))
        is_recent = started is not None and (at - started).total_seconds() < PROVEN_SECONDS
        if is_recent and number(status, "restartCount") > 0:
            return True
    return False


def _is_wait(text: str) -> bool:
    """Say whether `text` only repeats that there is a wait, and not what for."""
    return "Back-off pulling image" in text or "back-off " in text


def _is_pulling(pod: Manifest) -> bool:
    """Say whether all that hinders the pod is a pull that the cluster tries again."""
    waiting = [field(state, "waiting", "reason") for _, state, _ in _container_states(pod)]
    hindered = {reason for reason in waiting if reason and reason not in _NOT_A_FAILURE}
    return bool(hindered) and hindered <= _PASSING


def _is_young(pod: Manifest, at: datetime | None) -> bool:
    started = _started(pod)
    if at is None or started is None:
        return False
    return (at - started).total_seconds() < PULL_GRACE_SECONDS


def _started(pod: Manifest) -> datetime | None:
    return _time(field(pod, "status", "startTime"))


def _runs_unready(pod: Manifest) -> str:
    """Return that a container of the pod runs and is not ready, and how its last run ended."""
    has_probe = any(field(one, "readinessProbe") for one in items(pod, "spec", "containers"))
    for one in items(pod, "status", "containerStatuses"):
        since = _time(field(one, "state", "running", "startedAt"))
        if since is not None and field(one, "ready") is False:
            why = ": its readiness probe has not passed" if has_probe else ""
            said = f"The container runs since {since:%H:%M:%S} UTC and is not ready{why}."
            last = _termination(field(one, "lastState", "terminated"))
            return _shortened(f"{said} Its last run ended: {last}") if last else said
    return ""


def _time(text: object) -> datetime | None:
    try:
        return clock.parse_rfc3339(str(text))
    except ValueError:
        return None


def _container_failure(pod: Manifest) -> str | None:
    for name, state, last in _container_states(pod):
        text = _state_failure(state, last)
        if text:
            return f"container {name}: {text}"
    return None


def _container_states(pod: Manifest) -> Iterator[tuple[Any, Any, Any]]:
    for group in ("initContainerStatuses", "containerStatuses"):
        for status in items(pod, "status", group):
            yield field(status, "name"), field(status, "state"), field(status, "lastState")


def _state_failure(state: Any, last: Any) -> str | None:
    waiting = field(state, "waiting")
    if isinstance(waiting, dict):
        reason, message = waiting.get("reason") or "", waiting.get("message") or ""
        if reason in _NOT_A_FAILURE:
            return None
        if reason == "CrashLoopBackOff":
            return _termination(field(last, "terminated")) or message or reason
        # The pull's cause stands behind the back-off: keep it, so that the text does not flip.
        cause = message.partition(_PULL_CAUSE)[2] or message
        return (
            f"{'ErrImagePull' if _PULL_CAUSE in message else reason}: {cause}" if cause else reason
        )
    return _termination(field(state, "terminated"))


def _termination(terminated: Any) -> str | None:
    if not isinstance(terminated, dict):
        return None
    code, signal = terminated.get("exitCode"), terminated.get("signal")
    reason, message = terminated.get("reason") or "", terminated.get("message") or ""
    if not terminated:
        return None
    if code == 0 and not signal:
        return "it ended with exit code 0; the container has to keep running"
    how = f"exit code {code}" if code is not None else f"signal {signal}"
    said = f": {message.strip()}" if message.strip() else ""
    return f"{reason or 'Error'} ({how}){said}"


def _node_refusal(pod: Manifest) -> str | None:
    """Return why the node evicted or refused the pod: its containers only say that they died."""
    reason = field(pod, "status", "reason")
    return _pod_failure(pod) if reason else None


def _pod_failure(pod: Manifest) -> str | None:
    if field(pod, "status", "phase") != "Failed":
        return None
    status = pod["status"]
    return str(status.get("message") or status.get("reason") or "it failed")


def _said(condition_: Manifest) -> str:
    return str(condition_.get("message") or condition_.get("reason") or "the cluster says no more")


def _shortened(text: str) -> str:
    """Cut what has no end, and leave out NUL, which a container may write and no row can hold."""
    text = text.replace("\x00", "")
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"
