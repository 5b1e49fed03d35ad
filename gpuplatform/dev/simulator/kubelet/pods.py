"""What a pod's kubelet does next. Pure: `step` says what to write and when to look again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from gpuplatform.clock import parse_rfc3339
from gpuplatform.dev.simulator.kubelet.behaviour import Behaviour, behaviour_of
from gpuplatform.dev.simulator.kubelet.containers import (
    Container,
    Memory,
    Note,
    Pace,
    moment_of,
    timestamp,
)
from gpuplatform.dev.simulator.kubelet.options import GPU
from gpuplatform.dev.simulator.kubelet.programs import Report, module_of, with_report

Manifest: TypeAlias = dict[str, Any]

SIGKILL_CODE = 137
_EVICTED = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 0. "
    "Container was using more than its request. "
)


@dataclass(frozen=True, slots=True)
class Place:
    """What the node gives to a pod, or does to it."""

    host_ip: str
    pod_ip: str
    pace: Pace
    free_gpus: int
    evict: bool = False
    hold_terminating: bool = False
    reports: Mapping[str, Report] = field(default_factory=dict)
    """What is known of those containers that are processes."""
    config_errors: Mapping[str, str] = field(default_factory=dict)
    """Why containers cannot be started, by their names."""


@dataclass(slots=True)
class PodMemory:
    """What the kubelet remembers of a pod beyond its status."""

    containers: dict[str, Memory] = field(default_factory=dict)
    stopping: bool = False

    def copy(self) -> "PodMemory":
        """Return a copy that a failed write leaves behind."""
        kept = {name: replace(memory) for name, memory in self.containers.items()}
        return PodMemory(kept, self.stopping)


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done with one pod."""

    status: Manifest | None = None
    """The status to write; None if it is as it should be."""
    remove: bool = False
    notes: tuple[Note, ...] = ()
    due: float | None = None


def step(pod: Manifest, memory: PodMemory, place: Place, now: float) -> Step:
    """Return the next step of a pod that is bound to a node of ours. `memory` is moved on."""
    status = pod.get("status") or {}
    deleting = "deletionTimestamp" in pod["metadata"]
    if deleting and place.hold_terminating:
        return Step()
    if status.get("phase") in {"Succeeded", "Failed"}:
        return Step(remove=deleting)
    containers = _containers(pod, memory, place, now)
    if deleting:
        return _terminate(pod, containers, memory, place, now)
    if place.evict:
        return _evict(pod, containers, place, now)
    if not status.get("containerStatuses") and gpus_of(pod) > place.free_gpus:
        return _reject(pod, place, now)
    return _advance(pod, containers, place, now)


def gpus_of(pod: Manifest) -> int:
    """Return how many GPUs a pod asks for."""
    total = 0
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        total += int(asked.get(GPU, 0))
    return total


def full_name(pod: Manifest) -> str:
    """Return `name_namespace(uid)`."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


def _behaviour(spec: Manifest, place: Place) -> Behaviour:
    behaviour = behaviour_of(spec)
    return (
        with_report(behaviour, place.reports.get(spec["name"])) if module_of(spec) else behaviour
    )


def _containers(pod: Manifest, memory: PodMemory, place: Place, now: float) -> list[Container]:
    statuses = {
        entry["name"]: entry for entry in (pod.get("status") or {}).get("containerStatuses") or []
    }
    found = []
    for spec in pod["spec"]["containers"]:
        status = statuses.get(spec["name"])
        if spec["name"] not in memory.containers:
            memory.containers[spec["name"]] = Memory(moment_of(status or {}, now))
        found.append(
            Container(
                name=spec["name"],
                image=spec.get("image", ""),
                behaviour=_behaviour(spec, place),
                restart_policy=pod["spec"].get("restartPolicy", "Always"),
                pod=full_name(pod),
                memory=memory.containers[spec["name"]],
                config_error=place.config_errors.get(spec["name"], ""),
                status=None if status is None else dict(status),
            )
        )
    return found


def _advance(pod: Manifest, containers: list[Container], place: Place, now: float) -> Step:
    dues = [container.advance(place.pace, now) for container in containers]
    notes = [note for container in containers for note in container.notes]
    status = _status(pod, containers, place, now)
    due = min((due for due in dues if due is not None), default=None)
    return Step(_changed(pod, status), notes=tuple(notes), due=due)


def _terminate(
    pod: Manifest, containers: list[Container], memory: PodMemory, place: Place, now: float
) -> Step:
    running = [container for container in containers if container.state() == "running"]
    if not running:
        return Step(remove=True)
    notes: tuple[Note, ...] = ()
    if not memory.stopping:
        memory.stopping = True
        notes = tuple(
            Note("Normal", "Killing", f"Stopping container {container.name}")
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
    gone = all(container.state() != "running" for container in containers)
    status = _status(pod, containers, place, now, is_terminal=gone)
    return Step(_changed(pod, status), gone, notes, None if gone else killed_at)


def _evict(pod: Manifest, containers: list[Container], place: Place, now: float) -> Step:
    for container in containers:
        container.stop(now, code=SIGKILL_CODE)
    status = _status(pod, containers, place, now, is_terminal=True)
    status |= {"phase": "Failed", "reason": "Evicted", "message": _EVICTED}
    target = _condition(status, "DisruptionTarget", now, words=("TerminationByKubelet", _EVICTED))
    status["conditions"] = [*status["conditions"], target]
    return Step(status, notes=(Note("Warning", "Evicted", _EVICTED),))


def _reject(pod: Manifest, place: Place, now: float) -> Step:
    message = (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for"
        f" {GPU}. Requested: {gpus_of(pod)}, Available: {max(place.free_gpus, 0)},"
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
        status, notes=(Note("Warning", reason, message.removeprefix("Pod was rejected: ")),)
    )


def _status(
    pod: Manifest,
    containers: list[Container],
    place: Place,
    now: float,
    *,
    is_terminal: bool = False,
) -> Manifest:
    old = pod.get("status") or {}
    phase = _phase(containers, pod["spec"].get("restartPolicy", "Always"), is_terminal=is_terminal)
    status = {
        "phase": phase,
        "startTime": old.get("startTime") or timestamp(now),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "containerStatuses": [container.status for container in containers],
    }
    has_sandbox = any(container.state() != "ContainerCreating" for container in containers)
    if has_sandbox:
        address = old.get("podIP") or place.pod_ip
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    status["conditions"] = _conditions(old, containers, phase, now, has_sandbox=has_sandbox)
    return status


def _phase(containers: list[Container], restart_policy: str, *, is_terminal: bool) -> str:
    """Return the phase by the rules of the kubelet's `getPhase`."""
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
    words = ("", "")
    if phase == "Succeeded":
        words = ("PodCompleted", "")
    elif phase == "Failed":
        words = ("PodFailed", "")
    elif unready:
        words = ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    is_ready = not words[0]
    mine = [
        _condition(old, "PodReadyToStartContainers", now, is_true=has_sandbox),
        _condition(old, "Initialized", now),
        _condition(old, "Ready", now, is_true=is_ready, words=words),
        _condition(old, "ContainersReady", now, is_true=is_ready, words=words),
        _condition(old, "PodScheduled", now),
    ]
    types = {condition["type"] for condition in mine}
    others = [entry for entry in old.get("conditions") or [] if entry["type"] not in types]
    return [*others, *mine]


def _condition(
    old: Manifest,
    name: str,
    now: float,
    *,
    is_true: bool = True,
    words: tuple[str, str] = ("", ""),
) -> Manifest:
    known = {entry["type"]: entry for entry in old.get("conditions") or []}.get(name, {})
    wanted = {"type": name, "status": "True" if is_true else "False"}
    wanted |= {key: word for key, word in zip(("reason", "message"), words, strict=True) if word}
    changed = known.get("status") != wanted["status"]
    since = timestamp(now) if changed else known.get("lastTransitionTime", timestamp(now))
    return {**wanted, "lastTransitionTime": since, "lastProbeTime": None}


def _changed(pod: Manifest, status: Manifest) -> Manifest | None:
    old = pod.get("status") or {}
    return None if all(_same(old.get(key), value) for key, value in status.items()) else status


def _same(old: object, new: object) -> bool:
    """Compare without what servers leave out or add: nulls, empty maps, bookkeeping."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = (old.keys() | new.keys()) - {"observedGeneration", "allocatedResources"}
        return all(_same(old.get(key), new.get(key)) for key in keys)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    return old == new or not (old or new)
