"""The local process of a container with a known image: module, environment and probes. Pure.

Paths and addresses of the container are translated. Each volume is a folder in the working
directory of the process, and each port is a free port on loopback.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from gpuplatform.dev.simulator.kubelet.behaviour import Behaviour, Exit
from gpuplatform.dev.simulator.kubelet.expansion import expanded_environment
from gpuplatform.images import ECHO_IMAGE, SIDECAR_COMMAND

Manifest: TypeAlias = dict[str, Any]

MODULES: Final[Mapping[str, str]] = {ECHO_IMAGE: "serverless.examples.echo"}
"""Python module of each known image that runs its default command."""


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The state of a process that runs a container."""

    is_ready: bool
    exit_code: int | None = None
    """Exit code of the process, or `None` while it is running."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The HTTP request of a probe or hook."""

    path: str
    port: int
    headers: Mapping[str, str]


def module_of(container: Manifest) -> str:
    """Return the Python module that runs a container, or "" if image or command are unknown.

    The sidecar is known by its command, because a setting determines its image.
    """
    command = (*(container.get("command") or ()), *(container.get("args") or ()))
    if command:
        return SIDECAR_COMMAND[-1] if command == SIDECAR_COMMAND else ""
    return MODULES.get(container.get("image", ""), "")


def running_programs(pod: Manifest) -> dict[str, int]:
    """Return the restart count of each running container that has a module, by container name."""
    modules = {entry["name"]: module_of(entry) for entry in pod["spec"]["containers"]}
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return {
        entry["name"]: entry["restartCount"]
        for entry in statuses
        if modules.get(entry["name"]) and "running" in (entry.get("state") or {})
    }


def with_report(behaviour: Behaviour, report: ProcessReport | None) -> Behaviour:
    """Return the behavior of a container, updated with the state of its process.

    `report` is `None` if the process is not started.
    """
    behaviour = replace(behaviour, is_process=True, exit=None, ready_after_seconds=None)
    if report is None:
        return behaviour
    if report.exit_code is not None:
        return replace(behaviour, exit=Exit(report.exit_code))
    ready = 0.0 if report.is_ready else None
    return replace(behaviour, ready_after_seconds=ready, ignores_sigterm=True)


def volume_folders(pod: Manifest) -> dict[str, str]:
    """Return the folder of each volume by mount path.

    The names are short, because the length of socket paths is limited.
    """
    volumes = pod["spec"].get("volumes") or []
    return {volume["name"]: f"v{number}" for number, volume in enumerate(volumes)}


def environment(
    pod: Manifest, container: Manifest, ports: Mapping[int, int], secrets: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of the process: the translated variables of the container.

    `ports` maps the ports of the pod to local ports. `secrets` contains the variables with values
    from Secrets and ConfigMaps, which are not translated.
    """
    folders = volume_folders(pod)
    mounts = {
        mount["mountPath"]: folders[mount["name"]]
        for mount in container.get("volumeMounts") or []
        if mount["name"] in folders
    }
    addresses = {f":{inside}": f"127.0.0.1:{outside}" for inside, outside in ports.items()}
    found = dict(secrets)
    values = expanded_environment(container)
    for entry in container.get("env") or []:
        if {"secretKeyRef", "configMapKeyRef"} & {*(entry.get("valueFrom") or {})}:
            continue
        text = values.get(entry["name"]) or _from_field(pod, entry)
        found[entry["name"]] = addresses.get(text) or _translated(text, mounts)
    return found


def pod_ports(pod: Manifest) -> list[int]:
    """Return the pod ports on which the processes of a pod listen."""
    return [
        port["containerPort"]
        for container in pod["spec"]["containers"]
        if module_of(container)
        for port in container.get("ports") or []
    ]


def readiness_probe(container: Manifest) -> Probe | None:
    """Return the readiness probe, or `None` if the container is ready as soon as it runs."""
    return _probe(container.get("readinessProbe") or {})


def stop_hook(container: Manifest) -> Probe | None:
    """Return the preStop hook, or `None` if the container has none."""
    return _probe((container.get("lifecycle") or {}).get("preStop") or {})


def _probe(declared: Manifest) -> Probe | None:
    requested = declared.get("httpGet")
    if requested is None:
        return None
    headers = {entry["name"]: entry["value"] for entry in requested.get("httpHeaders") or []}
    return Probe(requested.get("path") or "/", int(requested["port"]), headers)


def _translated(text: str, mounts: Mapping[str, str]) -> str:
    for inside, folder in mounts.items():
        if text == inside or text.startswith(f"{inside}/"):
            return folder + text.removeprefix(inside)
    return text


def _from_field(pod: Manifest, entry: Manifest) -> str:
    path = ((entry.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
    found: Any = pod
    for step in path.split("."):
        found = found.get(step, "") if isinstance(found, dict) else ""
    return found if isinstance(found, str) else ""
