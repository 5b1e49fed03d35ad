"""What real nodes need of the machine, and the one sentence that names what is missing.

`python -m tests.node.requirements` prints the sentence, or nothing. It needs no installed package.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.node import builds, cgroups

BUILD_COMMANDS = {"apt-get": "apt", "dpkg-deb": "dpkg"}
RUN_COMMANDS = {
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "pivot_root": "util-linux",
    "sysctl": "procps",
    "unshare": "util-linux",
}
"""The package of Debian that has each command."""
CAPABILITIES = {"CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12}


def missing_sentence(*, is_build: bool = False) -> str:
    """Return a sentence that names everything that is missing, or an empty text.

    A build needs no permissions.
    """
    missing = [*_missing_commands(BUILD_COMMANDS)]
    if not is_build:
        missing = [*_missing_permissions(), *missing, *_missing_commands(RUN_COMMANDS)]
        missing += _missing_of_the_kernel()
    if builds.needs_go() and shutil.which("go") is None:
        missing.append("Go (https://go.dev/dl)")
    if not missing:
        return ""
    *others, last = missing
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"Real nodes need {listed}; see tests/node/README.md."


def _missing_permissions() -> Iterator[str]:
    if os.geteuid() != 0:
        yield "root"
        return
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    effective = int(status["CapEff"], 16)
    yield from (name for name, bit in CAPABILITIES.items() if not effective >> bit & 1)


def _missing_commands(commands: Mapping[str, str]) -> Iterator[str]:
    for command, package in commands.items():
        if shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            yield f"the command {command} (Debian package {package})"


def _missing_of_the_kernel() -> Iterator[str]:
    for controller in cgroups.missing_controllers():
        yield f"the cgroup controller {controller}"
    if not Path("/bin").is_symlink():
        yield "a distribution whose /bin is a link to /usr/bin"


if __name__ == "__main__":
    sys.stdout.write(missing_sentence())
