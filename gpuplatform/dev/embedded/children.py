"""Child processes that never outlive the runner, not even one that was killed with SIGKILL.

Three safeguards: each child leads its own process group, which is killed as a whole; on Linux the
kernel signals the child when the runner dies; and each child is recorded in the data directory, so
that the next run stops what is left. Start children from the main thread only: the kernel's signal
is tied to the thread that forked.
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
    """How one process is started and stopped. `user` is (uid, gid), or None for this user."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    user: tuple[int, int] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    """Sent to the leader, which stops its own children in order; the group gets SIGKILL later."""


def die_with_parent(number: signal.Signals) -> None:
    """Ask the kernel to send this signal when the parent of this process dies; Linux only."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


class ChildRecord:
    """The file of one run's children, one JSON document per line.

    Each document has the keys `pid`, `started` (see `ProcessState`), `role`, `run` and `signal`.
    """

    def __init__(self, path: Path) -> None:
        """The file need not exist; `begin` creates it."""
        self.path = path
        self.run = secrets.token_hex(8)

    def begin(self) -> None:
        """Empty the file; call this after `stop_leftovers`."""
        self.path.write_text("")

    def add(self, pid: int, role: str, command: Command) -> None:
        """Append one child."""
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
        """Return the entries; an incomplete last line is skipped."""
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
    """A started process with the reading end of its output.

    It is not reaped before `wait`: until then the system does not reuse its pid or its process
    group, so a signal to the group reaches what the process left behind and nothing else.
    """

    def __init__(self, process: subprocess.Popen[bytes], output: int) -> None:
        """`output` is a file descriptor, which is read without blocking."""
        self.pid = process.pid
        self.output = output
        self.is_silent = False
        self._process = process
        self._exit_code: int | None = None
        os.set_blocking(output, False)

    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
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

    def ask_to_stop(self, number: signal.Signals) -> None:
        """Send the signal to the leader of the group, if it runs."""
        if self.exit_code() is None:
            send_signal(self.pid, number, to_group=False)

    def kill_group(self) -> None:
        """Kill the process, if it runs, and the rest of its group."""
        send_signal(self.pid, signal.SIGKILL, to_group=True)

    def wait(self) -> None:
        """Wait for the end and reap the process."""
        self._process.wait()

    def close_output(self) -> None:
        """Stop reading."""
        self.is_silent = True
        os.close(self.output)


def launch(command: Command, role: str, record: ChildRecord) -> Child:
    """Start the command with its output in a pipe, and record it.

    Raises:
        OSError: It cannot be started.
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
    """Start the command as the leader of a new process group, and record it."""
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
    """Return the pids of a recorded child's group that are alive and verified to be that run's.

    The leader is identified by pid and start time. When it is gone, its pid may have been reused,
    so each member of the group must carry the variable of the run.
    """
    leader = read_process(pid)
    if leader and leader.started != started:
        return []
    members = [process.pid for process in all_processes() if process.group == pid]
    if leader:
        return members or [pid]
    return [member for member in members if has_environment(member, f"{RUN_VARIABLE}={run}")]


def stop_leftovers(record: ChildRecord, *, grace_seconds: float = 5.0) -> list[str]:
    """Stop what an earlier run left running, and return the roles of these processes.

    Only processes that are verified children of that run get a signal.
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
