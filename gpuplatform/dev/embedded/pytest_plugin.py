"""The servers of a test run: one PostgreSQL and one Valkey, started by pytest's first process.

Loaded by `-p` in pyproject.toml, before pytest-django reads the settings. `DATABASE_URL` and
`REDIS_URL` each replace an embedded server. Each xdist worker has its own database (named by
pytest-django) and its own Valkey database.
"""

import fcntl
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.children import ChildRecord, start_child
from gpuplatform.dev.embedded.data_directory import DataDirectory, remove_data
from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.dev.embedded.postgres import Postgres
from gpuplatform.dev.embedded.processes import send_signal, wait_until
from gpuplatform.dev.embedded.valkey import Valkey

FIXED = {
    "GPUPLATFORM_DEV": "1",
    "KUBE_MODE": "off",
    "KUBECONFIG": "",
    "NO_COLOR": "1",
}
"""The environment of every test, independent of the shell."""

PREFIX = "gpuplatform-test-"
SETUP_SECONDS = 60


class _Servers:
    """The embedded servers of one run, below a directory that is deleted at the end."""

    def __init__(self) -> None:
        self.data = DataDirectory(Path(tempfile.mkdtemp(prefix=PREFIX)))
        self.data.create()
        self._lock = self.data.lock.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.data.path / "static").mkdir()
        self._record = ChildRecord(self.data.children)
        self._children: list[tuple[subprocess.Popen[bytes], signal.Signals]] = []

    def start(self, server: Postgres | Valkey) -> str:
        """Start one server and return its address."""
        command = server.command()
        with (self.data.path / "servers.log").open("ab") as log:
            child = start_child(command, type(server).__name__, self._record, log)
        self._children.append((child, command.stop_signal))
        if not wait_until(server.is_ready, 20):
            raise pytest.UsageError((self.data.path / "servers.log").read_text())
        return server.url

    def stop(self) -> None:
        """Stop the servers and delete their data."""
        for child, number in self._children:
            send_signal(child.pid, number, to_group=False)
        for child, _number in self._children:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
        remove_data(self.data.path)
        self._lock.close()


def _remove_abandoned() -> None:
    """Delete the data of killed runs; the system has ended their servers and locks."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            # A run that is starting has no lock yet.
            if time.time() - path.stat().st_mtime < SETUP_SECONDS:
                continue
            with DataDirectory(path).lock.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_data(path)
        except OSError:
            continue


def _start_servers() -> _Servers:
    _remove_abandoned()
    servers = _Servers()
    data = servers.data.path
    if not os.environ.get("DATABASE_URL"):
        postgres = Postgres.prepare(data, free_port(), is_durable=False)
        os.environ["DATABASE_URL"] = servers.start(postgres)
    if not os.environ.get("REDIS_URL"):
        valkey = Valkey.prepare(data / "valkey", free_port(), is_durable=False)
        os.environ["REDIS_URL"] = servers.start(valkey)
    os.environ["GPUPLATFORM_DATA"] = str(data)
    return servers


def _own_broker(worker: str) -> None:
    """Give this xdist worker its own broker database; database 0 is the first process's."""
    base, _slash, _number = os.environ["REDIS_URL"].rpartition("/")
    os.environ["REDIS_URL"] = f"{base}/{1 + int(worker.removeprefix('gw')) % 15}"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start the servers, or use those of the first process."""
    os.environ.update(FIXED)
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        _own_broker(worker)
        return
    servers = _start_servers()
    early_config.add_cleanup(servers.stop)
