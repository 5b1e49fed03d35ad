"""Child processes that never outlive the runner, even one that was killed with -9.

Three nets, one below the other: each child leads a process group of its own, which is killed as a
whole; on Linux the kernel sends it a signal when the runner dies; and it is recorded in the data
directory, so that the next run stops what is left. Start children from the main thread only: the
kernel's signal is tied to the thread that forked.
"""

import ctypes
import json
import os
import secrets
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gpuplatform.dev.embedded.processes import (
    IS_LINUX,
    all_processes,
    has_environment,
    read_process,
    send_signal,
    wait_until,
)

RUN_VARIABLE = "GPUPLATFORM_RUN"
"""Environment variable that marks the children of one run."""

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if IS_LINUX else None


@dataclass(frozen=True, slots=True)
class Command:
    """How one process is started and stopped. `user` is (uid, gid), or None for our own."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    user: tuple[int, int] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    """Sent to the leader, which stops its own children in order; the group gets SIGKILL later."""
    may_fork: bool = False
    """`argv` is our own interpreter with a program that a copy of the runner can run as well."""


def die_with_parent(number: signal.Signals) -> None:
    """Ask the kernel for this signal when the parent of this process dies; Linux only."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


class ChildRecord:
    """The file of one run's children: a line of JSON for each."""

    def __init__(self, path: Path) -> None:
        """The file need not exist; `begin` makes it."""
        self.path = path
        self.run = secrets.token_hex(8)

    def begin(self) -> None:
        """Forget the last run's children; call it after `stop_leftovers`."""
        self.path.write_text("")

    def add(self, pid: int, role: str, command: Command) -> None:
        """Write one child down."""
        process = read_process(pid)
        entry = {
            "pid": pid,
            "started": process.started if process else "",
            "role": role,
            "run": self.run,
            "signal": int(command.stop_signal),
        }
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def read(self) -> list[dict[str, str | int]]:
        """Return the entries; a torn last line is left out."""
        try:
            lines = self.path.read_text().splitlines()
        except OSError:
            return []
        entries = []
        for line in lines:
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue
        return entries


def start_child(
    command: Command, role: str, record: ChildRecord, output: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start the command as the leader of its own group and write it down."""
    parent = os.getpid()

    def in_child() -> None:
        # After the change of user, which would clear the setting.
        die_with_parent(command.stop_signal)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    user, group = command.user or (None, None)
    child = subprocess.Popen(
        command.argv,
        env={**command.env, RUN_VARIABLE: record.run},
        cwd=command.cwd,
        user=user,
        group=group,
        extra_groups=None if command.user is None else [],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=in_child if IS_LINUX else None,  # noqa: PLW1509 - no threads run here
    )
    record.add(child.pid, role, command)
    return child


def living_members(pid: int, started: str, run: str) -> list[int]:
    """Return the living processes of a recorded child's group, verified to be that run's.

    The leader is known by number and start. If it is gone, its number may be somebody else's, so
    each member of the group has to bear the mark of the run.
    """
    leader = read_process(pid)
    if leader and leader.started != started:
        return []
    members = [process.pid for process in all_processes() if process.group == pid]
    if leader:
        return members or [pid]
    return [member for member in members if has_environment(member, f"{RUN_VARIABLE}={run}")]


def stop_leftovers(record: ChildRecord, *, grace_seconds: float = 5.0) -> list[str]:
    """Stop what an earlier run left running and return the roles that were.

    No process that is not verifiably a child of that run gets a signal.
    """
    found: list[tuple[int, str, str]] = []
    roles: list[str] = []
    for entry in record.read():
        pid, started, run = int(entry["pid"]), str(entry["started"]), str(entry["run"])
        members = living_members(pid, started, run)
        if not members:
            continue
        found.append((pid, started, run))
        roles.append(str(entry["role"]))
        for member in members if pid not in members else [pid]:
            send_signal(member, signal.Signals(int(entry["signal"])), to_group=False)

    def all_gone() -> bool:
        return not any(living_members(*child) for child in found)

    if not wait_until(all_gone, grace_seconds):
        for child in found:
            for member in living_members(*child):
                send_signal(member, signal.SIGKILL, to_group=False)
        wait_until(all_gone, 2.0)
    return roles
