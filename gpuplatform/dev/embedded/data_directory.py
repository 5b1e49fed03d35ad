"""The data directory of the development mode: what lies where, and that one runner owns it.

Nothing outside of it is ever changed, with one exception: as root, PostgreSQL needs a directory
that the user `nobody` can reach, and gets one below /var/lib where this one is not reachable.
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
"""How long a new runner waits for one that is stopping."""


class DataDirectory:
    """Paths below the data directory. Secrets are readable by the owner only."""

    def __init__(self, path: Path) -> None:
        """`path` is absolute; `create` makes it."""
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
        """Return the directory that GPUPLATFORM_DATA names; a relative one is the project's."""
        return cls((PROJECT_ROOT / Path(setting or ".data").expanduser()).resolve())

    def create(self) -> None:
        """Make the directories.

        Raises:
            StartError: it cannot be made or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.run.mkdir(mode=0o700, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.run):
                pass
        except OSError as error:
            raise StartError(
                f"The data directory {self.path} cannot be written: {error.strerror}."
                " Set GPUPLATFORM_DATA to one that can."
            ) from error

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Hold the directory for this runner; the kernel lets go when the runner dies.

        A runner that is just stopping is waited for.

        Raises:
            StartError: another runner uses the directory.
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
                f"The platform runs already on {self.path} (process {''.join(pid) or 'unknown'})."
                " Stop it with Ctrl-C there, or set GPUPLATFORM_DATA to another directory."
            )

    def mark_stopping(self) -> None:
        """Tell a runner that starts meanwhile to wait."""
        self.lock.write_text(f"{os.getpid()} stopping")

    def is_stopping(self) -> bool:
        """Say whether the runner that owns the directory is about to let go."""
        return self.lock.read_text().endswith("stopping")

    def write_addresses(self, addresses: dict[str, str]) -> None:
        """Say where the servers listen, for commands that a person runs beside the platform."""
        write_secret(self.addresses, json.dumps(addresses, indent=2) + "\n")

    def write_metrics_targets(self, ports: Mapping[str, int]) -> None:
        """Say where metrics are, in the form that Prometheus reads targets from files."""
        targets = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"process": process}}
            for process, port in ports.items()
        ]
        self.metrics_targets.write_text(json.dumps(targets, indent=2) + "\n")

    def remove_addresses(self) -> None:
        """Nobody listens any more."""
        self.addresses.unlink(missing_ok=True)
        self.metrics_targets.unlink(missing_ok=True)


def write_secret(path: Path, text: str, owner: tuple[int, int] | None = None) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        if owner:
            os.fchown(file.fileno(), *owner)
    temporary.replace(path)


def keep_secret(path: Path, length: int = 18) -> str:
    """Return the secret in this file; a random one is made at the first call."""
    if not path.exists():
        write_secret(path, secrets.token_urlsafe(length))
    return path.read_text().strip()


def is_reachable_by_others(path: Path) -> bool:
    """Say whether every directory down to this one may be passed by any user."""
    return all(directory.stat().st_mode & 0o001 for directory in (path, *path.parents))


def reachable_directory(data: Path, name: str) -> Path:
    """Return a directory for a server that runs as `nobody`; `data/name`, or a link to it.

    The data directory itself may be opened for passing; nothing above it is touched.
    """
    wanted = data / name
    if wanted.is_symlink():
        wanted.resolve().mkdir(parents=True, exist_ok=True)
        return wanted.resolve()
    if wanted.exists() or is_reachable_by_others(data.parent):
        data.chmod(data.stat().st_mode | 0o111)
        wanted.mkdir(exist_ok=True)
        return wanted
    outside = _outside_directory(data, name)
    wanted.symlink_to(outside)
    return outside


def remove_data(data: Path) -> None:
    """Remove a data directory, and what lies outside of it for `nobody`; for tests."""
    for link in data.glob("*"):
        if link.is_symlink() and link.resolve().name.startswith("gpuplatform-"):
            shutil.rmtree(link.resolve(), ignore_errors=True)
    shutil.rmtree(data, ignore_errors=True)


def _outside_directory(data: Path, name: str) -> Path:
    """Make an empty directory of our own outside, in place of one left by earlier data."""
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
        f"The user nobody cannot reach {data}, nor can a directory be made in /var/lib."
        " Set GPUPLATFORM_DATA to a directory that every user may pass."
    )
