"""Runs a command as a child that the kernel kills with its parent.

`python child.py GROUP… -- COMMAND…`; the command runs in these control groups. This is a program
because a process that has threads may not run Python code between fork and exec.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Join the groups, bind the life to the parent's, and become the command."""
    end = arguments.index("--")
    for group in arguments[:end]:
        # pathlib would double the time until the command runs.
        with open(f"{group}/cgroup.procs", "w") as members:  # noqa: PTH123 - see above
            members.write(str(os.getpid()))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    command = arguments[end + 1 :]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
