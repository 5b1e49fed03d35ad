"""The data directory of development mode: its paths, and its lock, which only one runner holds.

All files of development mode are below this directory, with one exception. If the runner is root
and the user `nobody` cannot reach the directory, the data of PostgreSQL is below /var/lib.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gpuplatform.dev.embedded.errors import StartError
from gpuplatform.dev.embedded.processes import wait_until

PROJECT_ROOT = Path(__file__).resolve().parents[3]
STOPPING_SECONDS = 15.0
"""Time in seconds that a new runner waits for a previous runner that is stopping."""


class DataDirectory:
    """The paths of files in the data directory. Only their owner can read files with secrets."""

    def __init__(self, path: Path) -> None:
        """Use the absolute `path`; `create` creates the directory."""
        self.path = path
        self.run = path / "run"
        self.addresses = self.run / "addresses.json"
        self.metrics = self.run / "metrics"
        self.metrics_targets = self.run / "metrics-targets.json"
        self.children = self.run / "children.jsonl"
        self.lock = self.run / "lock"
        self.kubeconfig = path / "kubeconfig"
        self.admin_password = path / "admin-password"
        self.demo_sent = path / "demo-sent"

    @classmethod
    def from_setting(cls, setting: str) -> "DataDirectory":
        """Return the directory that the GPUPLATFORM_DATA variable names.

        A relative path is relative to the project root.
        """
        return cls((PROJECT_ROOT / Path(setting or ".data").expanduser()).resolve())

    def create(self) -> None:
        """Create the data directory and its subdirectories.

        Raises:
            StartError: If the directory cannot be created or is not writable.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.run.mkdir(mode=0o700, exist_ok=True)
            self._close_to_others()
            with tempfile.TemporaryFile(dir=self.run):
                pass
        except OSError as error:
            raise StartError(
                f"The data directory {self.path} cannot be written: {error.strerror}."
                " Set GPUPLATFORM_DATA to a writable directory."
            ) from error

    def _close_to_others(self) -> None:
        """Remove the permissions of other users, which an earlier release may have granted.

        They can only traverse the directory if the database server needs that; see
        `reachable_directory`.
        """
        self.path.chmod(self.path.stat().st_mode & 0o711)
        for path in self.path.iterdir():
            if not path.is_symlink() and path.stat().st_uid == os.getuid():
                path.chmod(0o700 if path.is_dir() else 0o600)

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Lock the directory for this runner, and wait for another runner that is stopping.

        The kernel releases the lock when the runner exits.

        Raises:
            StartError: If another runner uses the directory.
        """
        with self.lock.open("a+") as file:
            if not wait_until(lambda: self._try_lock(file.fileno()), 0.0):
                self._wait_for_other(file.fileno())
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    @staticmethod
    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait_for_other(self, descriptor: int) -> None:
        seconds = STOPPING_SECONDS if self.is_stopping() else 0.0
        if not wait_until(lambda: self._try_lock(descriptor), seconds):
            pid = self.lock.read_text().split()[0:1]
            raise StartError(
                f"A platform already runs on {self.path} (process {''.join(pid) or 'unknown'})."
                " Stop it with Ctrl-C there, or set GPUPLATFORM_DATA to another directory."
            )

    def mark_stopping(self) -> None:
        """Record that this runner is stopping, so that a new runner waits for it."""
        self.lock.write_text(f"{os.getpid()} stopping")

    def is_stopping(self) -> bool:
        """Return whether the runner that holds the lock is stopping."""
        return self.lock.read_text().endswith("stopping")

    def write_addresses(self, addresses: dict[str, str]) -> None:
        """Write the addresses of the servers to a file that `manage.py` commands read."""
        write_secret(self.addresses, json.dumps(addresses, indent=2) + "\n")

    def write_metrics_targets(self, ports: Mapping[str, int]) -> None:
        """Write the metrics ports in the format of Prometheus file-based service discovery."""
        targets = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"process": process}}
            for process, port in ports.items()
        ]
        write_secret(self.metrics_targets, json.dumps(targets, indent=2) + "\n")

    def remove_addresses(self) -> None:
        """Delete the files with addresses and metrics ports."""
        self.addresses.unlink(missing_ok=True)
        self.metrics_targets.unlink(missing_ok=True)


def write_secret(path: Path, text: str, owner: tuple[int, int] | None = None) -> None:
    """Write a file atomically with mode 0600."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        if owner:
            os.fchown(file.fileno(), *owner)
    temporary.replace(path)


def keep_secret(path: Path, length: int = 18) -> str:
    """Return the secret in the file, after creating a random secret if the file does not exist."""
    if not path.exists():
        write_secret(path, secrets.token_urlsafe(length))
    return path.read_text().strip()


def is_reachable_by_others(path: Path) -> bool:
    """Return whether every user can traverse the path to this directory."""
    return all(directory.stat().st_mode & 0o001 for directory in (path, *path.parents))


def reachable_directory(data: Path, name: str) -> Path:
    """Return a directory that `nobody` can reach: `data/name`, or the target of this symlink.

    The data directory is made traversable if necessary. Its parent directories are unchanged.
    """
    wanted = data / name
    if wanted.is_symlink():
        wanted.resolve().mkdir(parents=True, exist_ok=True)
        return wanted.resolve()
    if wanted.exists() or is_reachable_by_others(data.parent):
        data.chmod(data.stat().st_mode | 0o111)
        wanted.mkdir(mode=0o700, exist_ok=True)
        return wanted
    outside = _outside_directory(data, name)
    wanted.symlink_to(outside)
    return outside


def remove_data(data: Path) -> None:
    """Delete a data directory of a test and its directories in /var/lib."""
    for link in data.glob("*"):
        if link.is_symlink() and link.resolve().name.startswith("gpuplatform-"):
            shutil.rmtree(link.resolve(), ignore_errors=True)
    shutil.rmtree(data, ignore_errors=True)


def _outside_directory(data: Path, name: str) -> Path:
    """Create an empty directory outside of the data directory, and delete a previous one."""
    digest = hashlib.sha256(str(data).encode()).hexdigest()[:12]
    for parent in (Path("/var/lib"), Path(tempfile.gettempdir())):
        outside = parent / f"gpuplatform-{name}-{digest}"
        try:
            if outside.exists() and outside.stat().st_uid in {os.getuid(), 65534}:
                shutil.rmtree(outside)
            outside.mkdir()
        except OSError:
            continue
        return outside
    raise StartError(
        f"The user `nobody` cannot reach {data}, and no directory can be created in /var/lib."
        " Set GPUPLATFORM_DATA to a directory that every user can traverse."
    )
