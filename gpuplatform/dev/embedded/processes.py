"""Access to operating system processes, which are identified by pid and start time.

The start time distinguishes processes that had the same pid. Zombies are treated as exited,
because orphans remain zombies if process 1 does not reap them.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
IS_LINUX = (PROC / "self" / "stat").exists()


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A running process."""

    pid: int
    group: int
    started: str
    """Boot id and clock tick of the start, which distinguish processes that had the same pid."""


def _boot() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def read_process(pid: int) -> ProcessState | None:
    """Return the process with this pid, or `None` if it has exited or is a zombie."""
    if not IS_LINUX:
        return _read_from_ps(pid)
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return ProcessState(pid=pid, group=int(fields[2]), started=f"{_boot()}/{fields[19]}")


def _read_from_ps(pid: int) -> ProcessState | None:
    result = subprocess.run(
        ["ps", "-o", "stat=,pgid=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    fields = result.stdout.split(maxsplit=2)
    if result.returncode != 0 or len(fields) < 3 or fields[0].startswith("Z"):
        return None
    return ProcessState(pid=pid, group=int(fields[1]), started=fields[2].strip())


def all_processes() -> Iterator[ProcessState]:
    """Yield all running processes. Yields nothing on systems without /proc."""
    for entry in PROC.iterdir() if IS_LINUX else ():
        if entry.name.isdigit() and (process := read_process(int(entry.name))):
            yield process


def has_environment(pid: int, line: str) -> bool:
    """Return whether the environment of the process contains `name` with `value`.

    Returns `False` if the environment cannot be read.
    """
    try:
        return line.encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def works_in(pid: int, directory: Path) -> bool:
    """Return whether `directory` is the working directory of the process.

    Returns `False` if the working directory cannot be read.
    """
    try:
        return (PROC / str(pid) / "cwd").resolve() == directory.resolve()
    except OSError:
        return False


def send_signal(pid: int, number: signal.Signals, *, to_group: bool) -> None:
    """Send a signal to a process or, with `to_group`, to its process group.

    Does nothing if the process has exited.
    """
    try:
        if to_group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def wait_until(is_done: Callable[[], bool], seconds: float) -> bool:
    """Poll `is_done` every 20 ms, and return whether it returned true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
