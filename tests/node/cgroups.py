"""The control groups of nodes, on machines with either version of control groups.

A node has a group in each hierarchy of version 1, below the group of this process, or one group
at the top of version 2. Its cgroup namespace begins there, so the node sees only its own groups.
"""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERS = "cgroup.procs"
SUBTREE = "cgroup.subtree_control"
NEEDED = ("cpu", "cpuset", "memory", "pids")
"""The controllers without which a kubelet does not start."""
REMOVAL_SECONDS = 5.0


class ControlGroups:
    """The control groups of one node."""

    def __init__(self, label: str, *, root: Path = ROOT) -> None:
        self._root = root
        self.hierarchies = [] if is_unified(root) else _mounted(root)
        """The hierarchies of version 1; empty with version 2."""
        self.folders = [
            root / name.removeprefix("name=") / path / label for name, path in self.hierarchies
        ] or [root / label]

    @property
    def names(self) -> list[str]:
        """The names of the hierarchies of version 1."""
        return [name for name, _ in self.hierarchies]

    @property
    def joined(self) -> list[Path]:
        """The groups of the node's programs.

        In version 2 a group with processes cannot give controllers to the groups below it.
        """
        return self.folders if self.hierarchies else [self.folders[0] / "init"]

    def create(self) -> None:
        """Create the groups."""
        if not self.hierarchies:
            _delegate(self._root)
        for folder in self.folders:
            folder.mkdir()
            if not self.hierarchies:
                self.joined[0].mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):
                # A new group of version 1 has no processors and no memory nodes.
                if self.hierarchies and (folder / name).exists():
                    (folder / name).write_text((folder.parent / name).read_text())

    def settle(self) -> None:
        """Give the controllers to the groups below the node's, once its process 1 runs."""
        if self.hierarchies:
            return
        [folder] = self.folders
        for process in (folder / MEMBERS).read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (self.joined[0] / MEMBERS).write_text(process)
        _delegate(folder)


def is_unified(root: Path = ROOT) -> bool:
    """Return whether the machine has version 2 of control groups alone."""
    return (root / "cgroup.controllers").is_file()


def missing_controllers(root: Path = ROOT) -> list[str]:
    """Return the needed controllers that the machine does not have."""
    if is_unified(root):
        found = (root / "cgroup.controllers").read_text().split()
    else:
        found = [part for name, _ in _mounted(root) for part in name.split(",")]
    return [name for name in NEEDED if name not in found]


def remove(folders: Iterable[Path], seconds: float = REMOVAL_SECONDS) -> list[Path]:
    """Remove control groups with those below them; return those that still have processes."""
    left = [folder for folder in folders if folder.exists()]
    end = time.monotonic() + seconds
    while left:
        for top in left:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        left = [folder for folder in left if folder.exists()]
        if time.monotonic() > end:
            break
        if left:
            time.sleep(0.05)  # A process that has been killed is a member until it has ended.
    return left


def _mounted(root: Path) -> list[tuple[str, str]]:
    """Return the mounted hierarchies of version 1, each with the group of this process."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, name, path = line.split(":", 2)
        group = path.lstrip("/")
        if name and (root / name.removeprefix("name=") / group).is_dir():
            found.append((name, group))
    return found


def _delegate(folder: Path) -> None:
    """Enable every controller for the groups below one of version 2."""
    for name in (folder / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):  # Some controllers cannot be delegated.
            (folder / SUBTREE).write_text(f"+{name}")
