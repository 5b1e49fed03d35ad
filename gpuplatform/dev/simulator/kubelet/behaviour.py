"""The simulated behavior of a container, which its spec determines. Pure.

The docstring of the package contains the table of behaviors.
"""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from gpuplatform.dev.simulator.kubelet.expansion import expanded_command, expanded_environment
from gpuplatform.dev.simulator.kubelet.probes import SUCCESS, Outcome, outcome_of
from gpuplatform.dev.simulator.kubelet.scripts import Exit, run_of

Manifest: TypeAlias = dict[str, Any]

ECHO_IMAGE = "registry.example.com/echo:1"
"""Image whose containers run as a local web server (see `echo`)."""

MEMORY_ENV = "SIMULATOR_MEMORY"
READINESS_ENV = "SIMULATOR_READINESS"
SIGTERM_ENV = "SIMULATOR_SIGTERM"

_SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SUFFIXES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_PATH_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    r"(?:(?P<domain>[A-Za-z0-9.-]+(?::[0-9]+)?)/)?"
    rf"(?P<path>{_PATH_COMPONENT}(?:/{_PATH_COMPONENT})*)"
    r"(?P<tag>:[\w][\w.-]{0,127})?(?P<digest>@[A-Za-z][\w.+-]*:[0-9a-fA-F]{32,})?"
)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behavior of a container after its start."""

    image: str
    """Full image reference, as the runtime reports it, or an empty string if it is invalid."""
    pull_error: str = ""
    pull_policy: str = "IfNotPresent"
    exit: Exit | None = None
    output: str = ""
    """What the program writes to its log."""
    message: str = ""
    """What the program writes to its termination log."""
    is_scripted: bool = False
    """Whether the command line is interpreted completely."""
    outcome: Outcome = SUCCESS
    """The results of the probes."""
    ignores_sigterm: bool = False
    logs_on_error: bool = False
    """Whether the end of the log replaces an empty termination log after a failure."""
    is_process: bool = False
    """Whether the container is a local process. The other fields then describe the process."""


def behaviour_of(container: Manifest, address: str = "") -> Behaviour:
    """Return the behavior of an entry of `spec.containers` of a pod with the IP `address`."""
    envs, command = expanded_environment(container), expanded_command(container)
    image, run = full_reference(container.get("image", "")), run_of(command)
    is_unready = envs.get(READINESS_ENV) == "fail"
    return Behaviour(
        image=image,
        pull_error=_pull_error(image),
        pull_policy=container.get("imagePullPolicy", "IfNotPresent"),
        exit=_out_of_memory(container, envs) or run.exit,
        output=run.output,
        message=run.message,
        is_scripted=run.is_known,
        outcome=outcome_of(container, run, address, is_unready=is_unready),
        ignores_sigterm=envs.get(SIGTERM_ENV) == "ignore" or _traps_sigterm(command),
        logs_on_error=container.get("terminationMessagePolicy") == "FallbackToLogsOnError",
    )


def full_reference(image: str) -> str:
    """Return `image` with registry and tag, as containerd does, or "" if it is invalid."""
    match = _REFERENCE.fullmatch(image)
    if match is None:
        return ""
    domain, path = match["domain"] or "", match["path"]
    if domain and not ("." in domain or ":" in domain or domain == "localhost"):
        if domain != domain.lower():
            return ""
        domain, path = "", f"{domain}/{path}"
    if not domain:
        domain = "docker.io"
        path = path if "/" in path else f"library/{path}"
    tag = match["tag"] or ("" if match["digest"] else ":latest")
    return f"{domain}/{path}{tag}{match['digest'] or ''}"


def _pull_error(image: str) -> str:
    domain, _, path = image.partition("/")
    host = domain.partition(":")[0]
    if not host.endswith(".invalid"):
        return ""
    name, _, version = path.partition("@") if "@" in path else path.rpartition(":")
    url = f"https://{domain}/v2/{name}/manifests/{version}"
    return (
        f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": '
        f'failed to do request: Head "{url}": dial tcp: lookup {host}: no such host'
    )


def _out_of_memory(container: Manifest, envs: dict[str, str]) -> Exit | None:
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    if limit is None or MEMORY_ENV not in envs:
        return None
    if _bytes(envs[MEMORY_ENV]) <= _bytes(limit):
        return None
    return Exit(137, after_seconds=1.0, reason="OOMKilled")


def _bytes(quantity: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)", str(quantity))
    if match is None or match[2] not in _SUFFIXES:
        return 0.0
    return float(match[1]) * _SUFFIXES[match[2]]


def _traps_sigterm(command: list[str]) -> bool:
    return bool(re.search(r"""trap\s+(''|"")\s+.*TERM""", " ".join(command)))
