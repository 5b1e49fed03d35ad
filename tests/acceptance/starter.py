"""Starts the platform's Python parts as `make run` does: as copies of one loaded process.

The tests' own process has too much in it to be copied. So this module is also a program that does
it for them: a line of JSON for each order, and a line with a number for each answer.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuplatform.dev.embedded.children import ChildRecord, Command, start_child
from gpuplatform.dev.embedded.data_directory import PROJECT_ROOT
from gpuplatform.dev.embedded.forking import BecomeChild, fork, load_libraries, run
from gpuplatform.dev.embedded.processes import IS_LINUX, read_process, send_signal, wait_until


class Process:
    """One process that leads a group of its own."""

    def __init__(self, pid: int, reap: Callable[[], int]) -> None:
        """`reap` waits for its end and returns its exit code."""
        self.pid = pid
        self._reap = reap

    def kill(self, seconds: float) -> None:
        """Kill the group and wait until the process is gone."""
        send_signal(self.pid, signal.SIGKILL, to_group=True)
        self.wait(seconds)

    def wait(self, seconds: float) -> int:
        """Wait for the end and return the exit code."""
        assert wait_until(lambda: read_process(self.pid) is None, seconds)
        return self._reap()


class Starter:
    """Starts processes; they end with it."""

    def __init__(self, record: ChildRecord, log: Path) -> None:
        """Processes are written down in the record; what they say goes to the log."""
        self._record = record
        self._log = log
        self._copier = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.starter"],
            cwd=PROJECT_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, command: Command, role: str) -> Process:
        """Start the command as a copy where that is possible, else anew."""
        if not (IS_LINUX and command.may_fork):
            with self._log.open("ab") as log:
                child = start_child(command, role, self._record, log)
            return Process(child.pid, child.wait)
        pid = self._ask(
            {
                "argv": command.argv,
                "env": dict(command.env),
                "cwd": str(command.cwd),
                "run": self._record.run,
                "log": str(self._log),
            }
        )
        self._record.add(pid, role, command)
        return Process(pid, lambda: self._ask({"reap": pid}))

    def close(self) -> None:
        """End."""
        self._copier.communicate(timeout=10)

    def _ask(self, order: dict[str, Any]) -> int:
        assert self._copier.stdin is not None
        assert self._copier.stdout is not None
        self._copier.stdin.write(json.dumps(order) + "\n")
        self._copier.stdin.flush()
        return int(self._copier.stdout.readline())


def _obey(order: dict[str, Any]) -> int:
    if pid := order.get("reap"):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    command = Command(argv=tuple(order["argv"]), env=order["env"], cwd=Path(order["cwd"]))
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    pid = fork(command, order["run"], log)
    os.close(log)
    return pid


def _copy() -> None:
    load_libraries()
    for line in sys.stdin:
        sys.stdout.write(f"{_obey(json.loads(line))}\n")
        sys.stdout.flush()


def main() -> None:
    """Start a copy, or wait for one, for each line; end when nobody asks any more."""
    try:
        _copy()
    except BecomeChild as copy:
        command = copy.command
    else:
        return
    # Outside of the `except`, where nothing holds frames and files any more.
    run(command)


if __name__ == "__main__":
    main()
