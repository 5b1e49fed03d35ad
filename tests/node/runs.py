"""The folders of running clusters in the cache directory, and the removal of abandoned ones.

A folder is locked while its process is running. It lists the control groups of its nodes. If the
process is killed, a guard, which waits for the lock, removes the groups and the folder; if the
guard is killed too, the next start does. The kernel removes namespaces, mounts and links with the
last process in them.

`python -m tests.node.runs FOLDER` is the guard of a folder.
"""

import contextlib
import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.cluster.controlplane.cache import cache_root
from tests.node import cgroups

GROUPS = "control-groups"
PREFIX = "run-"
GUARD_ATTEMPTS = 10
"""Number of times that a guard waits until the groups of a killed process have no processes."""
_REPOSITORY = Path(__file__).parents[2]


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
        guard_process = _guarded(folder)
        try:
            yield folder
        finally:
            _remove(folder)
            lock.close()
            guard_process.wait()


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


def _guarded(folder: Path) -> subprocess.Popen[bytes]:
    """Start the guard of a folder, which no signal to the terminal of this process reaches."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.node.runs", str(folder)],
        cwd=_REPOSITORY,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def guard(folder: Path) -> None:
    """Wait until the process of a folder has ended, then remove the folder if it still exists."""
    with contextlib.suppress(FileNotFoundError), (folder / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(GUARD_ATTEMPTS):
            if folder.exists():
                with _exclusive():
                    _remove(folder)


def _remove_abandoned() -> None:
    """Remove the folders and the control groups of processes that were killed."""
    for folder in runs_root().glob(f"{PREFIX}*"):
        with contextlib.suppress(BlockingIOError), (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)


def _remove(folder: Path) -> None:
    listed = folder / GROUPS
    if listed.is_file():
        left = cgroups.remove(map(Path, listed.read_text().splitlines()))
        if left:  # The guard or the next start removes them.
            return
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
