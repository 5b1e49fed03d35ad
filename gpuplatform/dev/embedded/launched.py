"""A process that the supervisor started, by a new interpreter or program, or as a copy of itself.

It is not reaped before `wait`: until then the system gives its number and its group's to nobody
else, so that signals to the group reach what it left behind and nothing else.
"""

import os
import signal
import subprocess

from gpuplatform.dev.embedded.children import ChildRecord, Command, start_child
from gpuplatform.dev.embedded.forking import fork
from gpuplatform.dev.embedded.processes import IS_LINUX, send_signal


class Launched:
    """One process, its exit code and the reading end of its output."""

    def __init__(self, pid: int, output: int, popen: subprocess.Popen[bytes] | None) -> None:
        """`popen` is None for a copy of the runner."""
        self.pid = pid
        self.output = output
        self.is_silent = False
        self._popen = popen
        self._exit_code: int | None = None
        os.set_blocking(output, False)

    def exit_code(self) -> int | None:
        """Return its code, negative for a signal; None while it runs."""
        if self._exit_code is not None:
            return self._exit_code
        if not IS_LINUX and self._popen:
            self._exit_code = self._popen.poll()
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
        """Kill it, if it runs, and whatever of its group is left."""
        send_signal(self.pid, signal.SIGKILL, to_group=True)

    def wait(self) -> None:
        """Wait for the end and let the system forget the process."""
        if self._popen:
            self._popen.wait()
        else:
            os.waitpid(self.pid, 0)

    def close_output(self) -> None:
        """Nothing more is read."""
        self.is_silent = True
        os.close(self.output)


def launch(command: Command, role: str, record: ChildRecord) -> Launched:
    """Start the command and write it down.

    Raises:
        BecomeChild: this is the copy of the runner that runs it.
        OSError: it cannot be started.
    """
    reading, writing = os.pipe()
    try:
        if IS_LINUX and command.may_fork:
            popen, pid = None, fork(command, record.run, writing)
            record.add(pid, role, command)
        else:
            popen = start_child(command, role, record, writing)
            pid = popen.pid
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return Launched(pid, reading, popen)
