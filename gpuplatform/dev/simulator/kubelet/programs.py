"""The local process of a container with a known image: module, environment and probes. Pure.

Paths and addresses of the container are translated. Each volume is a folder in the working
directory of the process, and each port is a free port on loopback.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from gpuplatform.dev.simulator.kubelet.behaviour import Behaviour
from gpuplatform.dev.simulator.kubelet.expansion import expanded_environment
from gpuplatform.dev.simulator.kubelet.probes import Outcome, ProbeFailure
from gpuplatform.dev.simulator.kubelet.scripts import Exit
from gpuplatform.dev.simulator.kubelet.statuses import (
    ENDED,
    container_statuses,
    is_running,
    phase_of,
)
from gpuplatform.images import ECHO_IMAGE, SIDECAR_COMMAND

Manifest: TypeAlias = dict[str, Any]

MODULES: Final[Mapping[str, str]] = {ECHO_IMAGE: "serverless.examples.echo"}
"""Python module of each known image that runs its default command."""


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The state of a process that runs a container."""

    is_ready: bool
    is_started: bool = True
    """Whether the startup probe has succeeded."""
    exit_code: int | None = None
    """Exit code of the process, or `None` while it is running."""
    failure: ProbeFailure | None = None
    """The latest failure of a probe."""
    output: str = ""
    """The end of the log of a process that has ended."""


VARIABLES: Final = "SERVERLESS_"
"""Prefix of the variables that the programs read. The others of a container are not passed on:
an interpreter, a linker or a library could read them, and run what the author of a pod wants."""


def own_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the programs read."""
    return {name: value for name, value in variables.items() if name.startswith(VARIABLES)}


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
    if phase_of(pod) in ENDED:
        return {}
    modules = {entry["name"]: module_of(entry) for entry in pod["spec"]["containers"]}
    return {
        name: status["restartCount"]
        for name, status in container_statuses(pod).items()
        if modules[name] and is_running(status)
    }


def with_report(behaviour: Behaviour, report: ProcessReport | None) -> Behaviour:
    """Return the behavior of a container, updated with the state of its process.

    `report` is `None` if the process is not started.
    """
    if report is None:
        outcome = Outcome(None, None)
        return replace(behaviour, is_process=True, exit=None, output="", outcome=outcome)
    outcome = Outcome(
        started_after_seconds=0.0 if report.is_started else None,
        ready_after_seconds=0.0 if report.is_ready else None,
        failure=report.failure,
    )
    end = None if report.exit_code is None else Exit(report.exit_code)
    return replace(
        behaviour,
        is_process=True,
        exit=end,
        output=report.output,
        outcome=outcome,
        ignores_sigterm=end is None,
    )


def log_file(name: str, restarts: int) -> str:
    """Return the name of the log file of a container after a number of restarts."""
    return f"{name}.{restarts}.log"


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
