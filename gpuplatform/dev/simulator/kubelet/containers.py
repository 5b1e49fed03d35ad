"""The status of a container, as a state machine that time drives. Pure.

`waiting ContainerCreating → running → terminated → waiting CrashLoopBackOff → running`, or
`waiting ErrImagePull ⇄ ImagePullBackOff`, or `waiting CreateContainerConfigError` until the
variables are available. The messages are identical to kubelet 1.36.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from gpuplatform.clock import parse_rfc3339
from gpuplatform.dev.simulator.kubelet.behaviour import Behaviour
from gpuplatform.dev.simulator.kubelet.probes import ProbeFailure
from gpuplatform.dev.simulator.kubelet.scripts import Exit
from gpuplatform.dev.simulator.kubelet.texts import (
    digest,
    go_duration,
    invalid_reference_message,
    quoted,
    repository_of,
    timestamp,
)
from gpuplatform.kube.fields import text

Manifest: TypeAlias = dict[str, Any]

MAX_BACK_OFF_SECONDS = 300.0
LONG_RUN_SECONDS = 600.0
"""Minimum run time in seconds after which a container restarts without back-off."""
MAX_TRANSITIONS = 8
SIGKILL_CODE = 137
_LOG_LINES, _LOG_BYTES = 80, 2048
"""Maximum size of the end of a log that becomes the message of a failed container."""
_LOST = {
    "exitCode": SIGKILL_CODE,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}


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
    """The state of a container. A restarted kubelet continues with the status of the pod."""

    since: float
    """Exact time at which the current state began, because statuses contain whole seconds."""
    status: Manifest | None = None
    """The status, which other clients can overwrite in the pod, or `None` before the creation."""
    pulls: int = 0
    crashes: int = 0
    reported: ProbeFailure | None = None
    """The failure of a probe that has been reported since the start."""


@dataclass(slots=True)
class Container:
    """A container. `advance` updates `history` and appends to `events`."""

    name: str
    image: str
    behaviour: Behaviour
    restart_policy: str
    pod: str
    """Pod as `name_namespace(uid)`, the format in messages of the kubelet."""
    history: ContainerHistory
    images: set[str]
    """Full references of the images on the node, to which a pull adds one."""
    config_error: str = ""
    """Error that prevents the start of the container: a variable has no value."""
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
            self._end(Exit(code), now)

    def create(self, now: float) -> None:
        """Create the container if it does not exist. It starts later, by `advance`."""
        if self.state() == "new":
            self._create(now)

    def conclude(self) -> None:
        """Set the final state of a container that does not run, when its pod ends."""
        status = self.history.status
        if status is None or self.state() in {"running", "terminated"}:
            return
        last = status["lastState"].get("terminated")
        self.history.status = status | {
            "state": {"terminated": last or _LOST},
            "lastState": {},
            "ready": False,
            "started": False,
        }

    @property
    def status(self) -> Manifest:
        """A copy of the status, which is empty before the creation."""
        return dict(self.history.status or {})

    def state(self) -> str:
        """Return the state: `new`, `running`, `terminated`, or the reason for waiting."""
        if self.history.status is None:
            return "new"
        state = self.history.status["state"]
        if "waiting" in state:
            return text(state, "waiting", "reason") or "ContainerCreating"
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
            case "InvalidImageName" | "ErrImageNeverPull":
                return None, self._pull
            case "ErrImagePull":
                return began + shown, self._back_off_pull
            case "ImagePullBackOff":
                return began + _back_off(timing, self.history.pulls) - shown, self._retry_pull
            case "CreateContainerConfigError":
                return began + shown, self._retry_start
            case "CrashLoopBackOff":
                return began + _back_off(timing, self.history.crashes - 1) - shown, self._restart
            case _:
                return began + timing.start_delay_seconds, self._pull

    def _next_of_running(self) -> tuple[float | None, Callable[[float], None]]:
        status, outcome = self._known(), self.behaviour.outcome
        found: list[tuple[float, Callable[[float], None]]] = []
        if self.behaviour.exit is not None:
            found.append((self.behaviour.exit.after_seconds, self._exit))
        if not status["started"] and outcome.started_after_seconds is not None:
            found.append((outcome.started_after_seconds, self._finish_startup))
        if not status["ready"] and outcome.ready_after_seconds is not None:
            found.append((outcome.ready_after_seconds, self._become_ready))
        if self._lost_readiness():
            found.append((0.0, self._become_unready))
        if outcome.failure and outcome.failure != self.history.reported:
            found.append((outcome.failed_after_seconds, self._fail_probe))
        if not found:
            return None, self._exit
        seconds, transition = min(found, key=lambda one: one[0])
        return self.history.since + seconds, transition

    def _lost_readiness(self) -> bool:
        """Return whether the process of a ready container is no longer ready."""
        behaviour = self.behaviour
        is_unready = behaviour.is_process and behaviour.outcome.ready_after_seconds is None
        return bool(self._known()["ready"]) and is_unready

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
        self._record_pulling()

    def _record_pulling(self) -> None:
        if self.behaviour.image and not self._is_present() and not self._may_not_pull():
            self._record("Normal", "Pulling", f"Pulling image {quoted(self.image)}")

    def _is_present(self) -> bool:
        """Return whether the container can start without a pull."""
        is_known = self.behaviour.image in self.images
        return is_known and self.behaviour.pull_policy != "Always"

    def _may_not_pull(self) -> bool:
        return self.behaviour.pull_policy == "Never"

    def _pull(self, now: float) -> None:
        image = quoted(self.image)
        if not self.behaviour.image:
            message = invalid_reference_message(self.image)
            self._record("Warning", "InspectFailed", message)
            self._wait("InvalidImageName", message, now)
            self._record("Warning", "Failed", "Error: InvalidImageName")
        elif self._may_not_pull() and not self._is_present():
            message = f"Container image {image} is not present with pull policy of Never"
            self._record("Warning", "ErrImageNeverPull", message)
            self._record("Warning", "Failed", "Error: ErrImageNeverPull")
            self._wait("ErrImageNeverPull", message, now)
        elif self.behaviour.pull_error:
            self.history.pulls += 1
            error = self.behaviour.pull_error
            self._record("Warning", "Failed", f"Failed to pull image {image}: {error}")
            self._record("Warning", "Failed", "Error: ErrImagePull")
            self._wait("ErrImagePull", error, now)
        else:
            self._start(now)

    def _retry_pull(self, now: float) -> None:
        self._record_pulling()
        self._pull(now)

    def _back_off_pull(self, now: float) -> None:
        message = f"Back-off pulling image {quoted(self.image)}"
        self._record("Normal", "BackOff", message)
        self._record("Warning", "Failed", "Error: ImagePullBackOff")
        error = self.behaviour.pull_error
        self._wait("ImagePullBackOff", f"{message}: ErrImagePull: {error}", now)

    def _start(self, now: float) -> None:
        self._record("Normal", "Pulled", self._pulled_message(now))
        self.images.add(self.behaviour.image)
        if self.config_error:
            self._record("Warning", "Failed", f"Error: {self.config_error}")
            self._wait("CreateContainerConfigError", self.config_error, now)
            return
        self._record("Normal", "Created", "Container created")
        self._record("Normal", "Started", "Container started")
        self._enter({"running": {"startedAt": timestamp(now)}}, now)
        status = self._known()
        identity = f"{self.pod}/{self.name}/{status['restartCount']}"
        status["containerID"] = f"containerd://{digest(identity)}"
        status["image"] = self.behaviour.image
        status["imageID"] = f"{repository_of(self.behaviour.image)}@sha256:{digest(self.image)}"

    def _pulled_message(self, now: float) -> str:
        if self._is_present():
            return (
                f"Container image {quoted(self.image)} already present on machine and can be"
                " accessed by the pod"
            )
        lasted = go_duration(max(round(now - self.history.since, 3), 0.001))
        return (
            f"Successfully pulled image {quoted(self.image)} in {lasted} ({lasted} including"
            " waiting). Image size: 0 bytes."
        )

    def _restart(self, now: float) -> None:
        status = self._known()
        if "terminated" in status["state"]:
            status["lastState"] = status["state"]
        if not self.config_error:
            status["restartCount"] += 1
        self._start(now)

    def _retry_start(self, now: float) -> None:
        (self._restart if self._known()["lastState"] else self._start)(now)

    def _finish_startup(self, _now: float) -> None:
        self._known()["started"] = True

    def _become_ready(self, _now: float) -> None:
        self._known()["ready"] = True

    def _become_unready(self, _now: float) -> None:
        self._known()["ready"] = False

    def _fail_probe(self, now: float) -> None:
        """Report the failure of a probe, and end the container if it is not for readiness."""
        failure = self.behaviour.outcome.failure
        if failure is None:
            return
        self.history.reported = failure
        self._record("Warning", "Unhealthy", failure.message)
        if not failure.restarts:
            return
        message = f"Container {self.name} failed {failure.kind} probe, will be restarted"
        self._record("Normal", "Killing", message)
        if not self.behaviour.is_process:
            self.stop(now, code=SIGKILL_CODE)

    def _exit(self, now: float) -> None:
        if self.behaviour.exit is not None:
            self._end(self.behaviour.exit, now)

    def _end(self, end: Exit, now: float) -> None:
        began = self._state("running").get("startedAt") or timestamp(now)
        lasted = now - self.history.since
        self.history.crashes = 1 if lasted >= LONG_RUN_SECONDS else self.history.crashes + 1
        terminated = {
            "exitCode": end.code,
            "reason": end.reported_reason(),
            "startedAt": began,
            "finishedAt": timestamp(now),
            "containerID": text(self._known(), "containerID"),
        }
        message = self._termination_message(end)
        self._enter({"terminated": terminated | ({"message": message} if message else {})}, now)

    def _termination_message(self, end: Exit) -> str:
        behaviour = self.behaviour
        if behaviour.message or not (behaviour.logs_on_error and end.code):
            return behaviour.message
        last = behaviour.output.splitlines(keepends=True)[-_LOG_LINES:]
        return "".join(last)[-_LOG_BYTES:]

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
        status = self.history.status or {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "restartCount": 0,
            "lastState": {},
        }
        self.history.status = status | {"state": state, "ready": False, "started": False}
        self.history.since = now
        self.history.reported = None

    def _known(self) -> Manifest:
        if self.history.status is None:
            raise ValueError(f"the container {self.name} has no status yet")
        return self.history.status

    def _state(self, key: str) -> Manifest:
        return dict(self._known()["state"].get(key) or {})

    def _record(self, kind: str, reason: str, message: str) -> None:
        self.events.append(PodEvent(kind, reason, message))


def _back_off(timing: Timing, failures: int) -> float:
    doubled = timing.back_off_seconds * 2.0 ** min(max(failures - 1, 0), 10)
    return min(doubled, max(MAX_BACK_OFF_SECONDS, timing.back_off_seconds))


def state_since(status: Manifest, now: float) -> float:
    """Return the time at which a container entered the state in `status`.

    Returns `now` if the status contains no time, or a time in the future.
    """
    found = text(status, "state", "running", "startedAt")
    found = found or text(status, "state", "terminated", "finishedAt")
    try:
        return min(parse_rfc3339(found).timestamp(), now)
    except (ValueError, OverflowError):
        return now
