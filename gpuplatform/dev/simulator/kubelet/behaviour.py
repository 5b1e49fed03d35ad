"""The simulated behavior of a container, which its spec determines. Pure.

The docstring of the package contains the table of behaviors.
"""

import re
import shlex
from dataclasses import dataclass
from typing import Any, TypeAlias

from gpuplatform.dev.simulator.kubelet.expansion import expanded_command, expanded_environment

Manifest: TypeAlias = dict[str, Any]

ECHO_IMAGE = "registry.example.com/echo:1"
"""Image whose containers run as a local web server (see `echo`)."""

MEMORY_ENV = "SIMULATOR_MEMORY"
READINESS_ENV = "SIMULATOR_READINESS"
SIGTERM_ENV = "SIMULATOR_SIGTERM"

_SHELLS = {"sh", "bash", "ash", "dash"}
_SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SUFFIXES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_PATH_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    r"(?:(?P<domain>[A-Za-z0-9.-]+(?::[0-9]+)?)/)?"
    rf"(?P<path>{_PATH_COMPONENT}(?:/{_PATH_COMPONENT})*)"
    r"(?P<tag>:[\w][\w.-]{0,127})?(?P<digest>@[A-Za-z][\w.+-]*:[0-9a-fA-F]{32,})?"
)


@dataclass(frozen=True, slots=True)
class Exit:
    """The exit code and run time of a container that exits without being stopped."""

    code: int
    after_seconds: float = 0.0
    reason: str = ""

    def reported_reason(self) -> str:
        """Return the reason for the status of the container."""
        return self.reason or ("Error" if self.code else "Completed")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behavior of a container after its start."""

    image: str
    """Full image reference, as the runtime reports it, or an empty string if it is invalid."""
    pull_error: str = ""
    exit: Exit | None = None
    ready_after_seconds: float | None = 0.0
    """Time in seconds from start to ready. `None` means that the container never becomes ready."""
    ignores_sigterm: bool = False
    is_process: bool = False
    """Whether the container is a local process. The other fields then describe the process."""


def behaviour_of(container: Manifest) -> Behaviour:
    """Return the behaviour of `container`, an entry of `spec.containers` of a pod."""
    envs, command = expanded_environment(container), expanded_command(container)
    image = full_reference(container.get("image", ""))
    return Behaviour(
        image=image,
        pull_error=_pull_error(image),
        exit=_out_of_memory(container, envs) or exit_of(command),
        ready_after_seconds=_ready_after(container, envs),
        ignores_sigterm=envs.get(SIGTERM_ENV) == "ignore" or _traps_sigterm(command),
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


def _ready_after(container: Manifest, envs: dict[str, str]) -> float | None:
    if envs.get(READINESS_ENV) == "fail":
        return None
    probe = container.get("readinessProbe") or {}
    return float(probe.get("initialDelaySeconds") or 0)


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


def exit_of(command: list[str]) -> Exit | None:
    """Return the exit of a command line, or `None` if it does not exit."""
    if not command:
        return None
    program = command[0].rpartition("/")[2]
    if program in _SHELLS and len(command) > 2 and command[1].endswith("c"):
        return _exit_of_script(command[2])
    return _exit_of_command([program, *command[1:]])


def _exit_of_script(script: str) -> Exit | None:
    seconds = 0.0
    code = 0
    for line in re.split(r"[;\n]|&&", script):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            return None
        if not words or words[0] in {"set", "trap"}:
            continue
        step = _exit_of_command(words)
        if step is None:
            return None
        seconds += step.after_seconds
        code = step.code
        if words[0] == "exit":
            break
    return Exit(code, seconds)


def _exit_of_command(words: list[str]) -> Exit | None:
    match words:
        case ["true" | "echo" | ":", *_]:
            return Exit(0)
        case ["false"]:
            return Exit(1)
        case ["exit"]:
            return Exit(0)
        case ["exit", number] if number.isdecimal():
            return Exit(int(number) % 256)
        case ["sleep", number] if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?s?", number):
            return Exit(0, float(number.rstrip("s")))
        case _:
            return None
