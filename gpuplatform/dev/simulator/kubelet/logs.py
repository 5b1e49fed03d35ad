"""The logs of containers: what a process or a simulated program has written.

A container without a known program has a line for its start and a line for its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from gpuplatform import clock
from gpuplatform.dev.simulator.kubelet.behaviour import behaviour_of
from gpuplatform.dev.simulator.kubelet.statuses import container_statuses
from gpuplatform.kube.fields import field, text

Manifest: TypeAlias = dict[str, Any]

_PULL_ERRORS = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class NoLogError(Exception):
    """The container has no log. The message is the message of the kubelet."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The options of a request for a log."""

    is_previous: bool = False
    is_followed: bool = False
    has_timestamps: bool = False
    lines: int | None = None
    """Maximum number of lines at the end, or `None` for all."""
    size: int | None = None
    """Maximum number of bytes, or `None` for all."""
    since: datetime | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "LogQuery":
        """Parse the query of a request, which the API server has validated."""
        return cls(
            is_previous=_flag(query, "previous"),
            is_followed=_flag(query, "follow"),
            has_timestamps=_flag(query, "timestamps"),
            lines=_number(query, "tailLines"),
            size=_number(query, "limitBytes"),
            since=_since(query),
        )


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a container."""

    number: int
    """Number of restarts before the run."""
    started_at: str
    finished_at: str
    """Time of the end, or an empty string while the container runs."""
    exit_code: int | None
    reason: str

    @property
    def is_running(self) -> bool:
        """Whether the container runs."""
        return not self.finished_at


def run_of(pod: Manifest, name: str, *, is_previous: bool) -> Run:
    """Return the run of a container whose log is requested.

    Raises:
        NoLogError: If the container has not run, or has no previous run.
    """
    subject = f'container "{name}" in pod "{pod["metadata"]["name"]}"'
    status = container_statuses(pod).get(name)
    if status is None:
        raise NoLogError(f"{subject} is not available")
    state, restarts = status["state"], status["restartCount"]
    last = field(status, "lastState", "terminated")
    if is_previous:
        if last is None:
            raise NoLogError(f"previous terminated {subject} not found")
        return _run(last, restarts if "waiting" in state else restarts - 1)
    current = state.get("running", state.get("terminated", last))
    if current is None:
        reason = text(state, "waiting", "reason")
        cause = _PULL_ERRORS.get(reason, reason)
        raise NoLogError(f"{subject} is waiting to start: {cause}")
    return _run(current, restarts)


def log_of(pod: Manifest, name: str, run: Run, path: Path | None) -> bytes:
    """Return the log of a run. `path` is the log file of a process, if there is one."""
    if path is not None:
        return path.read_bytes()
    container = next(one for one in pod["spec"]["containers"] if one["name"] == name)
    behaviour = behaviour_of(container)
    if behaviour.is_scripted or behaviour.output:
        return behaviour.output.encode()
    lines = [f"{run.started_at} Simulated container started; no program runs.\n"]
    if run.exit_code is not None:
        end = f"Ended with exit code {run.exit_code} ({run.reason})."
        lines.append(f"{run.finished_at} {end}\n")
    return "".join(lines).encode()


def excerpt(log: bytes, run: Run, query: LogQuery) -> bytes:
    """Return the part of a log that a request selects.

    The time of a line is the start of the run.
    """
    started_at = clock.parse_rfc3339(run.started_at) if run.started_at else clock.now()
    if query.since is not None and started_at < query.since:
        return b""
    lines = log.splitlines(keepends=True)
    if query.lines is not None:
        lines = lines[max(0, len(lines) - query.lines) :]
    if query.has_timestamps:
        prefix = clock.rfc3339(started_at).replace("Z", ".000000000Z").encode()
        lines = [prefix + b" " + line for line in lines]
    return b"".join(lines)[: query.size]


def _run(state: Manifest, restarts: int) -> Run:
    code = state.get("exitCode", 0) if "finishedAt" in state or "exitCode" in state else None
    return Run(
        number=max(restarts, 0),
        started_at=text(state, "startedAt"),
        finished_at="" if code is None else text(state, "finishedAt") or text(state, "startedAt"),
        exit_code=code,
        reason=text(state, "reason"),
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name) in {"true", "1"}


def _number(query: Mapping[str, str], name: str) -> int | None:
    found = query.get(name, "")
    return int(found) if found.isdecimal() else None


def _since(query: Mapping[str, str]) -> datetime | None:
    seconds = _number(query, "sinceSeconds")
    if seconds is not None:
        return clock.now() - timedelta(seconds=min(seconds, 10**9))
    try:
        return clock.parse_rfc3339(query.get("sinceTime", ""))
    except ValueError:
        return None
