"""The status of a container, as a state machine that time drives. Pure.

`waiting ContainerCreating → running → terminated → waiting CrashLoopBackOff → running`, or
`waiting ErrImagePull ⇄ ImagePullBackOff`, or `waiting CreateContainerConfigError` until the
variables are available. The messages are identical to kubelet 1.36.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from gpuplatform.clock import parse_rfc3339, rfc3339
from gpuplatform.dev.simulator.kubelet.behaviour import Behaviour, Exit

Manifest: TypeAlias = dict[str, Any]

MAX_BACK_OFF_SECONDS = 300.0
LONG_RUN_SECONDS = 600.0
"""Minimum run time in seconds after which a container restarts without back-off."""
MAX_TRANSITIONS = 6


class PodEvent(NamedTuple):
    """An Event to record."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Timing:
    """The delays of a simulated kubelet."""

    start_delay_seconds: float
    back_off_seconds: float

    @property
    def error_display_seconds(self) -> float:
        """Time in seconds for which an error is reported before the reason changes to BackOff."""
        return self.back_off_seconds / 5


@dataclass(slots=True)
class ContainerHistory:
    """State that is not in the container status, and is lost when the kubelet restarts."""

    since: float
    """Exact time at which the current state began, because statuses contain whole seconds."""
    pulls: int = 0
    crashes: int = 0


@dataclass(slots=True)
class Container:
    """A container. `advance` updates `status` and appends to `events`."""

    name: str
    image: str
    behaviour: Behaviour
    restart_policy: str
    pod: str
    """Pod as `name_namespace(uid)`, the format in messages of the kubelet."""
    history: ContainerHistory
    config_error: str = ""
    """Error that prevents the start of the container: a variable has no value."""
    status: Manifest | None = None
    events: list[PodEvent] = field(default_factory=list)

    def advance(self, timing: Timing, now: float) -> float | None:
        """Perform all due transitions, and return the time of the next one."""
        for _ in range(MAX_TRANSITIONS):
            due, transition = self._next(timing, now)
            if due is None or due > now:
                return due
            transition(now)
        return now

    def stop(self, now: float, *, code: int = 0) -> None:
        """Terminate a running container."""
        if self.state() == "running":
            self._end(Exit(code, reason="Completed" if code == 0 else "Error"), now)

    def state(self) -> str:
        """Return the state: `new`, `running`, `terminated`, or the reason for waiting."""
        if self.status is None:
            return "new"
        state = self.status.get("state") or {}
        if "waiting" in state:
            return str(state["waiting"].get("reason") or "ContainerCreating")
        return "running" if "running" in state else "terminated"

    def _next(self, timing: Timing, now: float) -> tuple[float | None, Callable[[float], None]]:
        state = self.state()
        if state == "new":
            return now, self._create
        if state == "running":
            return self._next_of_running()
        if state == "terminated":
            return self._next_of_terminated(timing)
        return self._next_of_waiting(state, timing)

    def _next_of_waiting(
        self, reason: str, timing: Timing
    ) -> tuple[float | None, Callable[[float], None]]:
        began, shown = self.history.since, timing.error_display_seconds
        match reason:
            case "ContainerCreating":
                return began + timing.start_delay_seconds, self._pull
            case "ErrImagePull":
                return began + shown, self._back_off_pull
            case "ImagePullBackOff":
                return began + _back_off(timing, self.history.pulls) - shown, self._pull
            case "CreateContainerConfigError":
                return began + shown, self._retry_start
            case "CrashLoopBackOff":
                return began + _back_off(timing, self.history.crashes - 1) - shown, self._restart
            case _:
                return None, self._start

    def _next_of_running(self) -> tuple[float | None, Callable[[float], None]]:
        began, behaviour = self.history.since, self.behaviour
        end = None if behaviour.exit is None else began + behaviour.exit.after_seconds
        if self.status and not self.status["ready"] and behaviour.ready_after_seconds is not None:
            ready = began + behaviour.ready_after_seconds
            if end is None or ready < end:
                return ready, self._become_ready
        if self._lost_readiness():
            return began, self._become_unready
        return end, self._exit

    def _lost_readiness(self) -> bool:
        """Return whether the process of a ready container is no longer ready."""
        behaviour = self.behaviour
        is_ready = bool(self.status and self.status["ready"])
        return is_ready and behaviour.is_process and behaviour.ready_after_seconds is None

    def _next_of_terminated(self, timing: Timing) -> tuple[float | None, Callable[[float], None]]:
        code = self._state("terminated").get("exitCode", 0)
        if self.restart_policy == "Never" or (self.restart_policy == "OnFailure" and code == 0):
            return None, self._restart
        shown_until = self.history.since + timing.error_display_seconds
        if self.history.crashes <= 1:
            return shown_until, self._restart
        return shown_until, lambda now: self._back_off_restart(timing, now)

    # Transitions

    def _create(self, now: float) -> None:
        self._enter({"waiting": {"reason": "ContainerCreating"}}, now)

    def _pull(self, now: float) -> None:
        if not self.behaviour.image:
            message = invalid_reference_message(self.image)
            self._record("Warning", "InspectFailed", message)
            self._wait("InvalidImageName", message, now)
            self._record("Warning", "Failed", "Error: InvalidImageName")
        elif self.behaviour.pull_error:
            self.history.pulls += 1
            image, error = quoted(self.image), self.behaviour.pull_error
            self._record("Normal", "Pulling", f"Pulling image {image}")
            self._record("Warning", "Failed", f"Failed to pull image {image}: {error}")
            self._record("Warning", "Failed", "Error: ErrImagePull")
            self._wait("ErrImagePull", error, now)
        else:
            self._start(now)

    def _back_off_pull(self, now: float) -> None:
        message = f"Back-off pulling image {quoted(self.image)}"
        self._record("Normal", "BackOff", message)
        self._record("Warning", "Failed", "Error: ImagePullBackOff")
        error = self.behaviour.pull_error
        self._wait("ImagePullBackOff", f"{message}: ErrImagePull: {error}", now)

    def _start(self, now: float) -> None:
        image = quoted(self.image)
        self._record("Normal", "Pulled", f"Container image {image} already present on machine")
        if self.config_error:
            self._record("Warning", "Failed", f"Error: {self.config_error}")
            self._wait("CreateContainerConfigError", self.config_error, now)
            return
        self._record("Normal", "Started", "Container started")
        self._enter({"running": {"startedAt": timestamp(now)}}, now)
        status = self._known()
        identity = f"{self.pod}/{self.name}/{status['restartCount']}"
        status["containerID"] = f"containerd://{digest(identity)}"
        status["image"] = self.behaviour.image
        status["imageID"] = f"{repository_of(self.behaviour.image)}@sha256:{digest(self.image)}"
        status["started"] = True

    def _restart(self, now: float) -> None:
        status = self._known()
        if "terminated" in status["state"]:
            status["lastState"] = status["state"]
        if not self.config_error:
            status["restartCount"] += 1
        self._start(now)

    def _retry_start(self, now: float) -> None:
        (self._restart if self._known()["lastState"] else self._start)(now)

    def _become_ready(self, _now: float) -> None:
        self._known()["ready"] = True

    def _become_unready(self, _now: float) -> None:
        self._known()["ready"] = False

    def _exit(self, now: float) -> None:
        if self.behaviour.exit is not None:
            self._end(self.behaviour.exit, now)

    def _end(self, end: Exit, now: float) -> None:
        began = self._state("running").get("startedAt", timestamp(now))
        lasted = now - self.history.since
        self.history.crashes = 1 if lasted >= LONG_RUN_SECONDS else self.history.crashes + 1
        terminated = {
            "exitCode": end.code,
            "reason": end.reported_reason(),
            "startedAt": began,
            "finishedAt": timestamp(now),
            "containerID": self._known().get("containerID", ""),
        }
        self._enter({"terminated": terminated}, now)

    def _back_off_restart(self, timing: Timing, now: float) -> None:
        status = self._known()
        status["lastState"] = status["state"]
        seconds = _back_off(timing, self.history.crashes - 1)
        detail = f"restarting failed container={self.name} pod={self.pod}"
        message = f"Back-off restarting failed container {self.name} in pod {self.pod}"
        self._record("Warning", "BackOff", message)
        self._wait("CrashLoopBackOff", f"back-off {go_duration(seconds)} {detail}", now)

    # Status

    def _wait(self, reason: str, message: str, now: float) -> None:
        self._enter({"waiting": {"reason": reason, "message": message}}, now)

    def _enter(self, state: Manifest, now: float) -> None:
        status = self.status or {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "restartCount": 0,
            "lastState": {},
        }
        self.status = status | {"state": state, "ready": False, "started": False}
        self.history.since = now

    def _known(self) -> Manifest:
        if self.status is None:
            raise ValueError(f"the container {self.name} has no status yet")
        return self.status

    def _state(self, key: str) -> Manifest:
        return dict(self._known()["state"].get(key) or {})

    def _record(self, kind: str, reason: str, message: str) -> None:
        self.events.append(PodEvent(kind, reason, message))


def _back_off(timing: Timing, failures: int) -> float:
    doubled = timing.back_off_seconds * 2.0 ** min(max(failures - 1, 0), 10)
    return min(doubled, max(MAX_BACK_OFF_SECONDS, timing.back_off_seconds))


def invalid_reference_message(image: str) -> str:
    """Return the error message of the container runtime for an invalid image reference."""
    detail = f"couldn't parse image name {quoted(image)}: invalid reference format"
    return f"Failed to apply default image tag {quoted(image)}: {detail}"


def repository_of(reference: str) -> str:
    """Return a full image reference without its tag and digest."""
    registry, _, name = reference.partition("@")[0].rpartition("/")
    return f"{registry}/{name.partition(':')[0]}"


def state_since(status: Manifest, now: float) -> float:
    """Return the time at which a container entered the state in `status`.

    Returns `now` if the status contains no time.
    """
    state = status.get("state") or {}
    found = (state.get("running") or {}).get("startedAt") or (state.get("terminated") or {}).get(
        "finishedAt"
    )
    return parse_rfc3339(found).timestamp() if found else now


def timestamp(now: float) -> str:
    """Return `now` in the timestamp format of Kubernetes."""
    return rfc3339(datetime.fromtimestamp(now, UTC))


def digest(text: str) -> str:
    """Return a hash of `text` with 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def quoted(text: str) -> str:
    """Return `text` quoted as `%q` of Go does."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def go_duration(seconds: float) -> str:
    """Return a duration in the format of Go, such as `10s`, `1m20s` or `500ms`."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"
