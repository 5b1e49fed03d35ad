"""A pytest plugin that starts one PostgreSQL and one Valkey server for a test run.

The option `-p` in pyproject.toml loads the plugin before pytest-django reads the settings. The
main process of pytest starts the servers; `DATABASE_URL` and `REDIS_URL` each replace an embedded
server. Each xdist worker has its own PostgreSQL database and its own Valkey database. A run of
tests in `tests/pure` starts no server.
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
"""Environment variables of all tests, which override the variables of the shell."""

WITHOUT_SERVERS = {
    "DATABASE_URL": "postgres://app@127.0.0.1:1/app",
    "REDIS_URL": "redis://127.0.0.1:1/0",
}
"""Environment variables of tests that need no server. Nothing listens on these addresses."""

PURE = Path(__file__).parents[3] / "tests" / "pure"
"""The directory of the tests that need no server."""

PREFIX = "gpuplatform-test-"
SETUP_SECONDS = 60


class _Servers:
    """The embedded servers of one test run, with their data in a temporary directory."""

    def __init__(self) -> None:
        self.data = DataDirectory(Path(tempfile.mkdtemp(prefix=PREFIX)))
        self.data.create()
        self._lock = self.data.lock.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.data.path / "static").mkdir()
        self._record = ChildRecord(self.data.children)
        self._children: list[tuple[subprocess.Popen[bytes], signal.Signals]] = []

    def start(self, server: Postgres | Valkey) -> str:
        """Start a server and return its URL."""
        command = server.command()
        with (self.data.path / "servers.log").open("ab") as log:
            child = start_child(command, type(server).__name__, self._record, log)
        self._children.append((child, command.stop_signal))
        if not wait_until(server.is_ready, 20):
            raise pytest.UsageError((self.data.path / "servers.log").read_text())
        return server.url

    def stop(self) -> None:
        """Stop the servers and delete the temporary directory."""
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
    """Delete the directories of killed test runs, whose locks are released."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            # A run that is starting may not have created its lock yet.
            if time.time() - path.stat().st_mtime < SETUP_SECONDS:
                continue
            with DataDirectory(path).lock.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_data(path)
        except OSError:
            continue


def _needs_no_server(config: pytest.Config) -> bool:
    """Return whether the command line selects only tests in `tests/pure`."""
    selected = [one.partition("::")[0] for one in config.known_args_namespace.file_or_dir]
    paths = [config.invocation_params.dir / one for one in selected]
    return bool(paths) and all(path.resolve().is_relative_to(PURE) for path in paths)


def _start_servers(*, is_pure: bool) -> _Servers:
    _remove_abandoned()
    servers = _Servers()
    data = servers.data.path
    if is_pure:
        os.environ.update(WITHOUT_SERVERS)
    if not os.environ.get("DATABASE_URL"):
        postgres = Postgres.prepare(data, free_port(), is_durable=False)
        os.environ["DATABASE_URL"] = servers.start(postgres)
    if not os.environ.get("REDIS_URL"):
        valkey = Valkey.prepare(data / "valkey", free_port(), is_durable=False)
        os.environ["REDIS_URL"] = servers.start(valkey)
    os.environ["GPUPLATFORM_DATA"] = str(data)
    return servers


def _select_broker_database(worker: str) -> None:
    """Assign a Valkey database to this xdist worker. The main process uses database 0."""
    base, _slash, _number = os.environ["REDIS_URL"].rpartition("/")
    os.environ["REDIS_URL"] = f"{base}/{1 + int(worker.removeprefix('gw')) % 15}"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start the servers in the main process; select the Valkey database in an xdist worker."""
    os.environ.update(FIXED)
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        _select_broker_database(worker)
        return
    servers = _start_servers(is_pure=_needs_no_server(early_config))
    early_config.add_cleanup(servers.stop)
