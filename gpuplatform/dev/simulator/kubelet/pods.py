"""The next step of the kubelet for a pod: its status, Events and next due time. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from gpuplatform.clock import parse_rfc3339
from gpuplatform.dev.simulator.kubelet.behaviour import Behaviour, behaviour_of
from gpuplatform.dev.simulator.kubelet.containers import (
    Container,
    ContainerHistory,
    PodEvent,
    Timing,
    state_since,
    timestamp,
)
from gpuplatform.dev.simulator.kubelet.options import GPU
from gpuplatform.dev.simulator.kubelet.programs import ProcessReport, module_of, with_report

Manifest: TypeAlias = dict[str, Any]

SIGKILL_CODE = 137
_EVICTED = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 0. "
    "Container was using more than its request. "
)


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The context of a pod: its node and the control object."""

    host_ip: str
    pod_ip: str
    timing: Timing
    free_gpus: int
    evict: bool = False
    hold_terminating: bool = False
    reports: Mapping[str, ProcessReport] = field(default_factory=dict)
    """State of the containers that are local processes, by container name."""
    config_errors: Mapping[str, str] = field(default_factory=dict)
    """Errors that prevent the start of containers, by container name."""


@dataclass(slots=True)
class PodHistory:
    """The state of a pod that its status does not contain."""

    containers: dict[str, ContainerHistory] = field(default_factory=dict)
    stopping: bool = False

    def copy(self) -> "PodHistory":
        """Return a copy, which is discarded if a write fails."""
        kept = {name: replace(history) for name, history in self.containers.items()}
        return PodHistory(kept, self.stopping)


@dataclass(frozen=True, slots=True)
class Step:
    """The next actions for a pod."""

    status: Manifest | None = None
    """Status to write, or `None` if the status is unchanged."""
    remove: bool = False
    events: tuple[PodEvent, ...] = ()
    due: float | None = None


def step(pod: Manifest, history: PodHistory, context: NodeContext, now: float) -> Step:
    """Return the next step of a pod on a simulated node, and update `history`."""
    status = pod.get("status") or {}
    deleting = "deletionTimestamp" in pod["metadata"]
    if deleting and context.hold_terminating:
        return Step()
    if status.get("phase") in {"Succeeded", "Failed"}:
        return Step(remove=deleting)
    containers = _containers(pod, history, context, now)
    if deleting:
        return _terminate(pod, containers, history, context, now)
    if context.evict:
        return _evict(pod, containers, context, now)
    if not status.get("containerStatuses") and gpus_of(pod) > context.free_gpus:
        return _reject(pod, context, now)
    return _advance(pod, containers, context, now)


def gpus_of(pod: Manifest) -> int:
    """Return the number of GPUs that a pod requests."""
    total = 0
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        requested = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        total += int(requested.get(GPU, 0))
    return total


def full_name(pod: Manifest) -> str:
    """Return the pod as `name_namespace(uid)`, the format in messages of the kubelet."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


def _behaviour(spec: Manifest, context: NodeContext) -> Behaviour:
    behaviour = behaviour_of(spec)
    return (
        with_report(behaviour, context.reports.get(spec["name"])) if module_of(spec) else behaviour
    )


def _containers(
    pod: Manifest, history: PodHistory, context: NodeContext, now: float
) -> list[Container]:
    statuses = {
        entry["name"]: entry for entry in (pod.get("status") or {}).get("containerStatuses") or []
    }
    found = []
    for spec in pod["spec"]["containers"]:
        status = statuses.get(spec["name"])
        if spec["name"] not in history.containers:
            history.containers[spec["name"]] = ContainerHistory(state_since(status or {}, now))
        found.append(
            Container(
                name=spec["name"],
                image=spec.get("image", ""),
                behaviour=_behaviour(spec, context),
                restart_policy=pod["spec"].get("restartPolicy", "Always"),
                pod=full_name(pod),
                history=history.containers[spec["name"]],
                config_error=context.config_errors.get(spec["name"], ""),
                status=None if status is None else dict(status),
            )
        )
    return found


def _advance(pod: Manifest, containers: list[Container], context: NodeContext, now: float) -> Step:
    dues = [container.advance(context.timing, now) for container in containers]
    events = [event for container in containers for event in container.events]
    status = _status(pod, containers, context, now)
    due = min((due for due in dues if due is not None), default=None)
    return Step(_changed(pod, status), events=tuple(events), due=due)


def _terminate(
    pod: Manifest,
    containers: list[Container],
    history: PodHistory,
    context: NodeContext,
    now: float,
) -> Step:
    running = [container for container in containers if container.state() == "running"]
    if not running:
        return Step(remove=True)
    events: tuple[PodEvent, ...] = ()
    if not history.stopping:
        history.stopping = True
        events = tuple(
            PodEvent("Normal", "Killing", f"Stopping container {container.name}")
            for container in running
        )
    killed_at = parse_rfc3339(pod["metadata"]["deletionTimestamp"]).timestamp()
    for container in running:
        behaviour = container.behaviour
        if behaviour.is_process and behaviour.exit is not None:
            container.stop(now, code=behaviour.exit.code)
        elif not behaviour.ignores_sigterm:
            container.stop(now)
        elif now >= killed_at:
            container.stop(now, code=SIGKILL_CODE)
    is_finished = all(container.state() != "running" for container in containers)
    status = _status(pod, containers, context, now, is_terminal=is_finished)
    return Step(_changed(pod, status), is_finished, events, None if is_finished else killed_at)


def _evict(pod: Manifest, containers: list[Container], context: NodeContext, now: float) -> Step:
    for container in containers:
        container.stop(now, code=SIGKILL_CODE)
    status = _status(pod, containers, context, now, is_terminal=True)
    status |= {"phase": "Failed", "reason": "Evicted", "message": _EVICTED}
    target = _condition(
        status, "DisruptionTarget", now, explanation=("TerminationByKubelet", _EVICTED)
    )
    status["conditions"] = [*status["conditions"], target]
    return Step(status, events=(PodEvent("Warning", "Evicted", _EVICTED),))


def _reject(pod: Manifest, context: NodeContext, now: float) -> Step:
    message = (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for"
        f" {GPU}. Requested: {gpus_of(pod)}, Available: {max(context.free_gpus, 0)},"
        " which is unexpected"
    )
    reason = "UnexpectedAdmissionError"
    status = {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "startTime": timestamp(now),
    }
    return Step(
        status, events=(PodEvent("Warning", reason, message.removeprefix("Pod was rejected: ")),)
    )


def _status(
    pod: Manifest,
    containers: list[Container],
    context: NodeContext,
    now: float,
    *,
    is_terminal: bool = False,
) -> Manifest:
    old = pod.get("status") or {}
    phase = _phase(containers, pod["spec"].get("restartPolicy", "Always"), is_terminal=is_terminal)
    status = {
        "phase": phase,
        "startTime": old.get("startTime") or timestamp(now),
        "hostIP": context.host_ip,
        "hostIPs": [{"ip": context.host_ip}],
        "containerStatuses": [container.status for container in containers],
    }
    has_sandbox = any(container.state() != "ContainerCreating" for container in containers)
    if has_sandbox:
        address = old.get("podIP") or context.pod_ip
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    status["conditions"] = _conditions(old, containers, phase, now, has_sandbox=has_sandbox)
    return status


def _phase(containers: list[Container], restart_policy: str, *, is_terminal: bool) -> str:
    """Return the phase of a pod according to `getPhase` of the kubelet."""
    states = [container.state() for container in containers]
    ended = [
        (container.status or {})["state"]["terminated"]["exitCode"]
        for container in containers
        if container.state() == "terminated"
    ]
    never_ran = [
        container
        for container in containers
        if container.state() not in {"running", "terminated"}
        and not (container.status or {}).get("lastState")
    ]
    if never_ran:
        return "Failed" if is_terminal else "Pending"
    if "running" in states or not (is_terminal or restart_policy != "Always"):
        return "Running"
    if len(ended) == len(states) and not any(ended):
        return "Succeeded"
    return "Failed" if is_terminal or restart_policy == "Never" else "Running"


def _conditions(
    old: Manifest, containers: list[Container], phase: str, now: float, *, has_sandbox: bool
) -> list[Manifest]:
    unready = [
        container.name for container in containers if not (container.status or {}).get("ready")
    ]
    explanation = ("", "")
    if phase == "Succeeded":
        explanation = ("PodCompleted", "")
    elif phase == "Failed":
        explanation = ("PodFailed", "")
    elif unready:
        explanation = (
            "ContainersNotReady",
            f"containers with unready status: [{' '.join(unready)}]",
        )
    is_ready = not explanation[0]
    pod_conditions = [
        _condition(old, "PodReadyToStartContainers", now, is_true=has_sandbox),
        _condition(old, "Initialized", now),
        _condition(old, "Ready", now, is_true=is_ready, explanation=explanation),
        _condition(old, "ContainersReady", now, is_true=is_ready, explanation=explanation),
        _condition(old, "PodScheduled", now),
    ]
    types = {condition["type"] for condition in pod_conditions}
    others = [entry for entry in old.get("conditions") or [] if entry["type"] not in types]
    return [*others, *pod_conditions]


def _condition(
    old: Manifest,
    name: str,
    now: float,
    *,
    is_true: bool = True,
    explanation: tuple[str, str] = ("", ""),
) -> Manifest:
    known = {entry["type"]: entry for entry in old.get("conditions") or []}.get(name, {})
    desired = {"type": name, "status": "True" if is_true else "False"}
    desired |= {
        key: text for key, text in zip(("reason", "message"), explanation, strict=True) if text
    }
    changed = known.get("status") != desired["status"]
    since = timestamp(now) if changed else known.get("lastTransitionTime", timestamp(now))
    return {**desired, "lastTransitionTime": since, "lastProbeTime": None}


def _changed(pod: Manifest, status: Manifest) -> Manifest | None:
    old = pod.get("status") or {}
    return None if all(_same(old.get(key), value) for key, value in status.items()) else status


def _same(old: object, new: object) -> bool:
    """Return whether values are equal, ignoring nulls, empty maps and fields that servers add."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = (old.keys() | new.keys()) - {"observedGeneration", "allocatedResources"}
        return all(_same(old.get(key), new.get(key)) for key in keys)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    return old == new or not (old or new)
