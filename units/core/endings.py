"""The end of a unit's program, as its Job, its pods and the status of the unit describe it. Pure.

Accepts any objects. All values come from the cluster, so that they do not change when the platform
reads them again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from gpuplatform.kube.fields import condition, field, items, text
from gpuplatform.kube.kinds import JOB, Manifest
from gpuplatform.planning.ownership import is_controlled_by
from gpuplatform.planning.plan import Absent, Observation, Present
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.container_failures import START_ERRORS
from gpuplatform.workloads.pods import CONTAINER_NAME
from gpuplatform.workloads.startup import startup_failure
from units.core.child import outcome
from units.core.jobs import is_of_run, run_of
from units.core.observed import ObservedUnit
from units.phases import UnitReason

_LONGEST_LOG: Final = 1000
_FINISHED_RUN: Final = "finishedRun"

END_FIELDS: Final = ("exitCode", "finishedAt", _FINISHED_RUN)
"""The fields of the status that describe the end of the program."""


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """The end of the program of a unit in its current run."""

    run: str
    exit_code: int | None
    """Exit code of the container, or `None` if it is unknown."""
    finished_at: str | None
    """Time at which the container ended, or `None` if it is unknown."""
    cause: str
    """The cause of a failure, or an empty string."""
    text: str
    """The end as a human-readable text, with the last lines of the log after a failure."""
    is_success: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the fields of the status that describe the end."""
        return {
            "exitCode": self.exit_code,
            "finishedAt": self.finished_at,
            _FINISHED_RUN: self.run,
        }


def has_ended(unit: ResourceView, job: Observation[Manifest]) -> bool:
    """Return whether the program has ended in the current run of the unit.

    The Job decides. If it was deleted after its end was recorded in the status, the status
    decides, so that the program does not run again.
    """
    match job:
        case Present(found):
            is_own = is_controlled_by(found, unit.uid) and is_of_run(found, unit)
            return is_own and outcome(found) is not None
        case Absent():
            return recorded_end(unit) is not None
        case _:
            return False


def program_end(unit: ResourceView, observed: ObservedUnit) -> ProgramEnd | None:
    """Return the end of the program in the current run, or `None` if it has not ended."""
    if not has_ended(unit, observed.job):
        return None
    recorded, job = recorded_end(unit), observed.live(JOB)
    is_success = outcome(job)
    if recorded is not None and is_success in {None, recorded.is_success}:
        return recorded  # The pods of a finished Job can be deleted.
    uid = str(field(job, "metadata", "uid"))
    pods = [pod for pod in observed.own_pods(unit) if is_controlled_by(pod, uid)]
    return _success(unit, pods) if is_success else _failure(unit, job, pods)


def recorded_end(unit: ResourceView) -> ProgramEnd | None:
    """Return the end in the status of the unit, or `None` if it has none of the current run."""
    run = unit.status.get(_FINISHED_RUN)
    if not isinstance(run, str) or run_of(unit) not in {"", run}:
        return None
    ready = condition({"status": dict(unit.status)}, "Ready")
    code, reason = unit.status.get("exitCode"), ready.get("reason")
    is_described = reason in {UnitReason.PROGRAM_SUCCEEDED, UnitReason.PROGRAM_FAILED}
    return ProgramEnd(
        run=run,
        exit_code=code if _is_integer(code) else None,
        finished_at=text(unit.status, "finishedAt") or None,
        cause=text(unit.status, "cause") if is_described else "",
        text=text(ready, "message")
        if is_described
        else f"The program ended with exit code {code}.",
        is_success=reason == UnitReason.PROGRAM_SUCCEEDED if is_described else code == 0,
    )


def _success(unit: ResourceView, pods: Sequence[Manifest]) -> ProgramEnd:
    ended = [pod for pod in pods if field(pod, "status", "phase") == "Succeeded"]
    finished_at = text(_newest(ended), "finishedAt") or None
    message = "The program ended with exit code 0."
    return ProgramEnd(run_of(unit), 0, finished_at, "", message, is_success=True)


def last_end(observed: ObservedUnit, unit: ResourceView) -> dict[str, Any]:
    """Return the status fields of the last end of a program that is started again.

    At the limit of restarts, the cluster deletes the pod that contains them.
    """
    uid = str(field(observed.live(JOB), "metadata", "uid"))
    pods = [pod for pod in observed.own_pods(unit) if is_controlled_by(pod, uid)]
    found = _newest(pods)
    code = found.get("exitCode")
    if not _is_integer(code):
        return {}
    return {"exitCode": code, "finishedAt": text(found, "finishedAt") or None}


def _failure(unit: ResourceView, job: Manifest, pods: Sequence[Manifest]) -> ProgramEnd:
    terminated = _newest(pods)
    if terminated:
        return _exit(unit, terminated)
    ready, code = condition({"status": dict(unit.status)}, "Ready"), unit.status.get("exitCode")
    if ready.get("reason") == UnitReason.POD_STARTUP_FAILED and _is_integer(code):
        return ProgramEnd(
            run=run_of(unit),
            exit_code=code,
            finished_at=text(unit.status, "finishedAt") or None,
            cause=text(unit.status, "cause"),
            text=text(ready, "message"),
        )
    reported = startup_failure(pods, {})
    if reported is not None:
        return ProgramEnd(run_of(unit), None, None, reported.cause, reported.text)
    found = condition(job, "Failed") or condition(job, "FailureTarget")
    message = f"The Job failed: {found.get('message') or found.get('reason') or 'no message'}"
    return ProgramEnd(run_of(unit), None, None, StartupCause.POD_FAILED, _tail(message))


def _exit(unit: ResourceView, terminated: Manifest) -> ProgramEnd:
    """Return the end of a program that failed, from the state of its container."""
    code, reason = terminated.get("exitCode"), text(terminated, "reason")
    cause = StartupCause.CONTAINER_EXITED
    if reason == "OOMKilled":
        cause = StartupCause.OUT_OF_MEMORY
    elif reason in START_ERRORS:
        cause = StartupCause.CONTAINER_CREATE_FAILED
    known = f" ({reason})" if reason not in {"", "Error"} else ""
    log = text(terminated, "message").strip()
    message = f"The program ended with exit code {code}{known}{f': {_tail(log)}' if log else '.'}"
    return ProgramEnd(
        run=run_of(unit),
        exit_code=code if _is_integer(code) else None,
        finished_at=text(terminated, "finishedAt") or None,
        cause=cause,
        text=message,
    )


def _is_integer(code: object) -> TypeGuard[int]:
    return isinstance(code, int) and not isinstance(code, bool)


def _newest(pods: Sequence[Manifest]) -> Manifest:
    """Return the newest end of the container of the program, or an empty dict."""
    found = [_terminated(pod) for pod in pods]
    return max(found, key=lambda one: text(one, "finishedAt"), default={})


def _terminated(pod: Manifest) -> Manifest:
    """Return the end of the container of a pod, or an empty dict.

    The container of a pod that is being deleted is terminated by the cluster. Its previous end is
    the reason why the Job failed.
    """
    for status in items(pod, "status", "containerStatuses"):
        if field(status, "name") != CONTAINER_NAME:
            continue
        now, before = (field(status, key, "terminated") for key in ("state", "lastState"))
        is_deleting = bool(field(pod, "metadata", "deletionTimestamp"))
        for found in (before, now) if is_deleting else (now, before):
            if isinstance(found, dict) and found:
                return found
    return {}


def _tail(log: str) -> str:
    """Truncate a text at its start, and remove NUL, which PostgreSQL cannot store."""
    log = log.replace("\x00", "")
    return log if len(log) <= _LONGEST_LOG else f"…{log[1 - _LONGEST_LOG :]}"
