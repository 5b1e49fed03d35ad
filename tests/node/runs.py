"""The folders of running clusters in the cache directory, and the removal of abandoned ones.

A folder is locked while its process is running. It lists the control groups of its nodes, so that
the next start can remove the groups of a killed process. The kernel removes namespaces, mounts and
links with the last process in them.
"""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.cluster.controlplane.cache import cache_root
from tests.node import cgroups

GROUPS = "control-groups"
PREFIX = "run-"


def runs_root() -> Path:
    """Return the directory of the folders; it is created if necessary."""
    root = cache_root() / "nodes"
    root.mkdir(parents=True, exist_ok=True)
    return root


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Yield the folder of a new cluster; first remove abandoned ones, at the end this one."""
    with contextlib.ExitStack() as stack:
        with _exclusive():
            _remove_abandoned()
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=runs_root()))
            lock = stack.enter_context((folder / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            _remove(folder)


def remove_abandoned() -> None:
    """Remove the folders and the control groups of processes that were killed."""
    with _exclusive():
        _remove_abandoned()


def note_groups(folder: Path, groups: Iterable[Path]) -> None:
    """Record control groups before they are created."""
    with (folder / GROUPS).open("a") as listed:
        listed.writelines(f"{group}\n" for group in groups)


@contextlib.contextmanager
def _exclusive() -> Iterator[None]:
    """Keep other processes from creating and removing folders during the block."""
    with (runs_root() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_abandoned() -> None:
    for folder in runs_root().glob(f"{PREFIX}*"):
        with contextlib.suppress(BlockingIOError), (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)


def _remove(folder: Path) -> None:
    listed = folder / GROUPS
    if listed.is_file():
        left = cgroups.remove(map(Path, listed.read_text().splitlines()))
        if left:  # The next start removes them.
            return
    shutil.rmtree(folder, ignore_errors=True)
