"""Child processes that do not outlive the runner, even if the runner is killed with SIGKILL.

Three mechanisms ensure this. Each child leads its own process group, which is killed as a whole.
On Linux the kernel signals the child when the runner dies. Each child is recorded in the data
directory, so that the next run can stop remaining children. Start children only from the main
thread, because the kernel sends its signal when the thread that forked the child ends.
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
"""Name of the environment variable that contains the id of the run in each child process."""

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if IS_LINUX else None


@dataclass(frozen=True, slots=True)
class Command:
    """The command line of a process and the signal that stops it.

    `user` is a tuple (uid, gid); `None` selects the current user.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    user: tuple[int, int] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    """Signal for the group leader, which stops its children. The group gets SIGKILL later."""


def die_with_parent(number: signal.Signals) -> None:
    """Request a signal from the kernel for the time when the parent process dies (Linux only)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


class ChildRecord:
    """A file that lists the child processes of one run, one JSON document per line.

    Each document has the keys `pid`, `started` (see `ProcessState`), `role`, `run` and `signal`.
    """

    def __init__(self, path: Path) -> None:
        """Use the file at `path`; `begin` creates the file if it does not exist."""
        self.path = path
        self.run = secrets.token_hex(8)

    def begin(self) -> None:
        """Clear the file. Call `stop_leftovers` first."""
        self.path.write_text("")

    def add(self, pid: int, role: str, command: Command) -> None:
        """Append an entry for a child process."""
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
        """Return all entries. An incomplete last line is ignored."""
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


class Child:
    """A child process and the read end of its output pipe.

    The process is reaped only by `wait`. Until then, the system does not reuse its pid or its
    process group, so a signal to the group reaches only the process and its descendants.
    """

    def __init__(self, process: subprocess.Popen[bytes], output: int) -> None:
        """Make the file descriptor `output` non-blocking."""
        self.pid = process.pid
        self.output = output
        self.is_silent = False
        self._process = process
        self._exit_code: int | None = None
        os.set_blocking(output, False)

    def exit_code(self) -> int | None:
        """Return the exit code, or `None` while the process is running.

        If a signal killed the process, the exit code is the negative signal number.
        """
        if self._exit_code is not None:
            return self._exit_code
        if not IS_LINUX:
            self._exit_code = self._process.poll()
            return self._exit_code
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            was_killed = ended.si_code != os.CLD_EXITED
            self._exit_code = -ended.si_status if was_killed else ended.si_status
        return self._exit_code

    def send_stop_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process if it is running."""
        if self.exit_code() is None:
            send_signal(self.pid, number, to_group=False)

    def kill_group(self) -> None:
        """Kill the process and all other processes of its group."""
        send_signal(self.pid, signal.SIGKILL, to_group=True)

    def wait(self) -> None:
        """Wait until the process has exited, and reap it."""
        self._process.wait()

    def close_output(self) -> None:
        """Close the read end of the output pipe."""
        self.is_silent = True
        os.close(self.output)


def launch(command: Command, role: str, record: ChildRecord) -> Child:
    """Start a command with its output redirected to a pipe, and record the process.

    Raises:
        OSError: If the command cannot be started.
    """
    reading, writing = os.pipe()
    try:
        process = start_child(command, role, record, writing)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return Child(process, reading)


def start_child(
    command: Command, role: str, record: ChildRecord, output: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a command as the leader of a new process group, and record the process."""
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
    """Return the pids of the running processes in the group of a recorded child.

    The leader is identified by pid and start time. If it has exited, its pid may have been reused,
    so each member of the group must have the environment variable of the run.
    """
    leader = read_process(pid)
    if leader and leader.started != started:
        return []
    members = [process.pid for process in all_processes() if process.group == pid]
    if leader:
        return members or [pid]
    return [member for member in members if has_environment(member, f"{RUN_VARIABLE}={run}")]


def stop_leftovers(record: ChildRecord, *, grace_seconds: float = 5.0) -> list[str]:
    """Stop the processes that an earlier run left behind, and return their roles.

    Only processes that are verified to be children of that run get a signal.
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

    def have_exited() -> bool:
        return not any(living_members(*child) for child in found)

    if not wait_until(have_exited, grace_seconds):
        for child in found:
            for member in living_members(*child):
                send_signal(member, signal.SIGKILL, to_group=False)
        wait_until(have_exited, 2.0)
    return roles
