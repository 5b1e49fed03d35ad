"""The failures of the containers of a pod. Pure; accepts any object.

Only machine-readable fields determine the cause: reasons and exit codes. Messages are only
displayed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.causes import StartupCause

NOT_A_FAILURE: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
RETRIED_PULLS: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"})
_PULLS = RETRIED_PULLS | {"InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
START_ERRORS: Final = frozenset({"StartError", "ContainerCannotRun"})
_PULL_DETAIL = "ErrImagePull: "
"""The prefix of the error in the message of a back-off."""
_LONGEST_MESSAGE = 1000


@dataclass(frozen=True, slots=True)
class StartupFailure:
    """The failure of a pod to start, with its cause and a human-readable text."""

    cause: StartupCause
    text: str
    is_transient: bool = False
    """Whether the failure can end without a change of the spec."""
    is_back_off: bool = False
    """Whether the cluster reports only a back-off, without the error."""


def has_failed_pull(pod: Manifest) -> bool:
    """Return whether the image of a container of the pod could not be pulled."""
    failures = (_state_failure(state, last) for _, state, last in container_states(pod))
    return any(one and one.cause == StartupCause.IMAGE_PULL_FAILED for one in failures)


def failure_of_container(status: Any) -> StartupFailure | None:
    """Return the failure in the status of a container, or `None`."""
    failure = _state_failure(field(status, "state"), field(status, "lastState"))
    return replace(failure, text=shortened(failure.text)) if failure else None


def container_failure(pod: Manifest) -> StartupFailure | None:
    """Return the failure of the first failed container of a pod, or `None`."""
    for name, state, last in container_states(pod):
        if failure := _state_failure(state, last):
            return of_pod(pod, replace(failure, text=f"container {name}: {failure.text}"))
    return None


def container_states(pod: Manifest) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the name, the state and the last state of each container of a pod."""
    for group in ("initContainerStatuses", "containerStatuses"):
        for status in items(pod, "status", group):
            yield field(status, "name"), field(status, "state"), field(status, "lastState")


def _state_failure(state: Any, last: Any) -> StartupFailure | None:
    waiting = field(state, "waiting")
    if not isinstance(waiting, dict):
        return termination(field(state, "terminated"))
    reason, message = (str(waiting.get(key) or "") for key in ("reason", "message"))
    if reason in NOT_A_FAILURE:
        return None
    if reason == "CrashLoopBackOff":
        back_off = StartupFailure(
            StartupCause.CONTAINER_EXITED, message or reason, is_back_off=True
        )
        return termination(field(last, "terminated")) or back_off
    text = f"{reason}: {message}" if message else reason
    if reason == "ImagePullBackOff":
        # Report the error in the message, so that the text does not alternate.
        detail = message.partition(_PULL_DETAIL)[2]
        return StartupFailure(
            StartupCause.IMAGE_PULL_FAILED,
            _PULL_DETAIL + detail if detail else text,
            is_transient=True,
            is_back_off=not detail,
        )
    if reason in _PULLS:
        is_retried = reason in RETRIED_PULLS
        return StartupFailure(StartupCause.IMAGE_PULL_FAILED, text, is_transient=is_retried)
    return StartupFailure(StartupCause.CONTAINER_CREATE_FAILED, text)


def termination(terminated: Any) -> StartupFailure | None:
    """Return the failure of a terminated container, or `None` if it is not terminated."""
    if not isinstance(terminated, dict) or not terminated:
        return None
    code, signal = terminated.get("exitCode"), terminated.get("signal")
    reason, message = (str(terminated.get(key) or "") for key in ("reason", "message"))
    if code == 0 and not signal:
        text = "the program exited with exit code 0, but must keep running"
        return StartupFailure(StartupCause.CONTAINER_EXITED, text)
    cause = StartupCause.CONTAINER_EXITED
    if reason == "OOMKilled":
        cause = StartupCause.OUT_OF_MEMORY
    elif reason in START_ERRORS:
        cause = StartupCause.CONTAINER_CREATE_FAILED
    how = f"exit code {code}" if code is not None else f"signal {signal}"
    detail = f": {message.strip()}" if message.strip() else ""
    return StartupFailure(cause, f"{reason or 'Error'} ({how}){detail}")


def of_pod(pod: Manifest, failure: StartupFailure) -> StartupFailure:
    """Return a failure whose text begins with the name of the pod."""
    text = f"Pod {field(pod, 'metadata', 'name')}: {failure.text}"
    return replace(failure, text=shortened(text))


def shortened(text: str) -> str:
    """Truncate a text, and remove NUL, which PostgreSQL cannot store."""
    text = text.replace("\x00", "")
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"
