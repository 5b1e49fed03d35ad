"""The next step of the kubelet for a pod: its status, Events and next due time. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from gpuplatform.clock import parse_rfc3339
from gpuplatform.dev.simulator.kubelet.behaviour import Behaviour, behaviour_of
from gpuplatform.dev.simulator.kubelet.containers import (
    SIGKILL_CODE,
    Container,
    ContainerHistory,
    PodEvent,
    Timing,
    state_since,
)
from gpuplatform.dev.simulator.kubelet.programs import ProcessReport, module_of, with_report
from gpuplatform.dev.simulator.kubelet.statuses import (
    ENDED,
    conditions_of,
    container_statuses,
    phase_of,
)
from gpuplatform.dev.simulator.kubelet.texts import timestamp
from gpuplatform.formats.names import is_extended_resource
from gpuplatform.formats.quantity import Quantity
from gpuplatform.kube.fields import field as value_at
from gpuplatform.kube.fields import text

Manifest: TypeAlias = dict[str, Any]

MOUNT_RETRY_SECONDS = 1.0
_EVICTED = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 0. "
    "Container was using more than its request. "
)
_BY_KUBELET = "TerminationByKubelet"
_UNDER_PRESSURE = "The node had condition: [MemoryPressure]. "


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The context of a pod: its node and the control object."""

    host_ip: str
    pod_ip: str
    timing: Timing
    free_devices: Mapping[str, int]
    """Free units of the extended resources of the node. A kubelet ignores other resources."""
    evict: bool = False
    hold_terminating: bool = False
    images: set[str] = field(default_factory=set)
    """Full references of the images on the node, to which pulls add."""
    reports: Mapping[str, ProcessReport] = field(default_factory=dict)
    """State of the containers that are local processes, by container name."""
    config_errors: Mapping[str, str] = field(default_factory=dict)
    """Errors that prevent the start of containers, by container name."""
    mount_error: str = ""
    """Error that prevents the start of all containers: a volume cannot be mounted."""


@dataclass(slots=True)
class PodHistory:
    """The state of a pod that its status does not contain."""

    containers: dict[str, ContainerHistory] = field(default_factory=dict)
    stopping: bool = False
    mount_error: str = ""
    """Error of a volume that has been reported."""

    def copy(self) -> "PodHistory":
        """Return a copy, which is discarded if a write fails."""
        kept = {
            name: replace(history, status=history.status and dict(history.status))
            for name, history in self.containers.items()
        }
        return replace(self, containers=kept)


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
    deleting = "deletionTimestamp" in pod["metadata"]
    if deleting and context.hold_terminating:
        return Step()
    if phase_of(pod) in ENDED:
        return Step(remove=deleting)
    containers = _containers(pod, history, context, now)
    if deleting:
        return _terminate(pod, containers, history, context, now)
    if context.evict:
        return _evict(pod, containers, context, now)
    if _is_new(containers):
        for device, number in devices_of(pod).items():
            if number > context.free_devices.get(device, number):
                return _reject(device, number, context, now)
    return _advance(pod, containers, history, context, now)


def devices_of(pod: Manifest) -> Counter[str]:
    """Return the number of units of each extended resource that a pod requests."""
    total = Counter[str]()
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        requested = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        for name, amount in requested.items():
            if is_extended_resource(name):
                total[name] += int(Quantity.parse(str(amount)))
    return +total


def _is_new(containers: list[Container]) -> bool:
    return all(container.state() == "new" for container in containers)


def full_name(pod: Manifest) -> str:
    """Return the pod as `name_namespace(uid)`, the format in messages of the kubelet."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


def _behaviour(spec: Manifest, context: NodeContext) -> Behaviour:
    behaviour = behaviour_of(spec, context.pod_ip)
    return (
        with_report(behaviour, context.reports.get(spec["name"])) if module_of(spec) else behaviour
    )


def _containers(
    pod: Manifest, history: PodHistory, context: NodeContext, now: float
) -> list[Container]:
    statuses = container_statuses(pod)
    found = []
    for spec in pod["spec"]["containers"]:
        name = spec["name"]
        if name not in history.containers:
            status = statuses.get(name)
            since = state_since(status or {}, now)
            history.containers[name] = ContainerHistory(since, status)
        found.append(
            Container(
                name=name,
                image=spec.get("image", ""),
                behaviour=_behaviour(spec, context),
                restart_policy=pod["spec"].get("restartPolicy", "Always"),
                pod=full_name(pod),
                history=history.containers[name],
                images=context.images,
                config_error=context.config_errors.get(name, ""),
            )
        )
    return found


def _wait_for_volumes(
    pod: Manifest,
    containers: list[Container],
    history: PodHistory,
    context: NodeContext,
    now: float,
) -> Step:
    for container in containers:
        container.create(now)
    events = [event for container in containers for event in container.events]
    if context.mount_error != history.mount_error:
        history.mount_error = context.mount_error
        events.append(PodEvent("Warning", "FailedMount", context.mount_error))
    status = _status(pod, containers, context, now)
    return Step(_changed(pod, status), events=tuple(events), due=now + MOUNT_RETRY_SECONDS)


def _advance(
    pod: Manifest,
    containers: list[Container],
    history: PodHistory,
    context: NodeContext,
    now: float,
) -> Step:
    if context.mount_error:
        return _wait_for_volumes(pod, containers, history, context, now)
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
    events: tuple[PodEvent, ...] = ()
    if running and not history.stopping:
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
    if is_finished:
        for container in containers:
            container.conclude()
    status = _status(pod, containers, context, now, is_terminal=is_finished)
    return Step(_changed(pod, status), is_finished, events, None if is_finished else killed_at)


def _evict(pod: Manifest, containers: list[Container], context: NodeContext, now: float) -> Step:
    message = _UNDER_PRESSURE if _is_new(containers) else _EVICTED
    for container in containers:
        container.stop(now, code=SIGKILL_CODE)
        container.conclude()
    status = _status(pod, containers, context, now, is_terminal=True)
    status |= {"phase": "Failed", "reason": "Evicted", "message": message}
    target = _condition(
        conditions_of(status), "DisruptionTarget", now, explanation=(_BY_KUBELET, message)
    )
    status["conditions"] = [*status["conditions"], target]
    return Step(status, events=(PodEvent("Warning", "Evicted", message),))


def _reject(device: str, number: int, context: NodeContext, now: float) -> Step:
    available = max(context.free_devices[device], 0)
    message = (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for"
        f" {device}. Requested: {number}, Available: {available}, which is unexpected"
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
    phase = _phase(containers, pod["spec"].get("restartPolicy", "Always"), is_terminal=is_terminal)
    status: Manifest = {
        "phase": phase,
        "startTime": text(pod, "status", "startTime") or timestamp(now),
        "hostIP": context.host_ip,
        "hostIPs": [{"ip": context.host_ip}],
        "containerStatuses": [one.status for one in containers if one.status],
        "reason": None,
        "message": None,
    }
    without_sandbox = {"new", "ContainerCreating"}
    has_sandbox = any(container.state() not in without_sandbox for container in containers)
    if has_sandbox:
        status |= {"podIP": context.pod_ip, "podIPs": [{"ip": context.pod_ip}]}
    old = conditions_of(value_at(pod, "status") or {})
    status["conditions"] = _conditions(old, containers, phase, now, has_sandbox=has_sandbox)
    return status


def _phase(containers: list[Container], restart_policy: str, *, is_terminal: bool) -> str:
    """Return the phase of a pod according to `getPhase` of the kubelet."""
    states = [container.state() for container in containers]
    ended = [
        container.status["state"]["terminated"].get("exitCode", 0)
        for container in containers
        if container.state() == "terminated"
    ]
    never_ran = [
        container
        for container in containers
        if container.state() not in {"running", "terminated"}
        and not container.status.get("lastState")
    ]
    if never_ran:
        return "Failed" if is_terminal else "Pending"
    if "running" in states or not (is_terminal or restart_policy != "Always"):
        return "Running"
    if len(ended) == len(states) and not any(ended):
        return "Succeeded"
    return "Failed" if is_terminal or restart_policy == "Never" else "Running"


def _conditions(
    old: Mapping[str, Manifest],
    containers: list[Container],
    phase: str,
    now: float,
    *,
    has_sandbox: bool,
) -> list[Manifest]:
    unready = [container.name for container in containers if not container.status.get("ready")]
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
    others = [entry for name, entry in old.items() if name not in types]
    return [*others, *pod_conditions]


def _condition(
    old: Mapping[str, Manifest],
    name: str,
    now: float,
    *,
    is_true: bool = True,
    explanation: tuple[str, str] = ("", ""),
) -> Manifest:
    known = old.get(name, {})
    desired = {"type": name, "status": "True" if is_true else "False"}
    desired |= {
        key: text for key, text in zip(("reason", "message"), explanation, strict=True) if text
    }
    changed = known.get("status") != desired["status"]
    since = timestamp(now) if changed else known.get("lastTransitionTime") or timestamp(now)
    return {**desired, "lastTransitionTime": since, "lastProbeTime": None}


def _changed(pod: Manifest, status: Manifest) -> Manifest | None:
    old = value_at(pod, "status") or {}
    return None if all(_same(old.get(key), value) for key, value in status.items()) else status


def _same(old: object, new: object) -> bool:
    """Return whether values are equal, ignoring nulls, empty maps and fields that servers add."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = (old.keys() | new.keys()) - {"observedGeneration", "allocatedResources"}
        return all(_same(old.get(key), new.get(key)) for key in keys)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    return old == new or not (old or new)
