"""The readiness of a PostgreSQL server, from its own lock file or an earlier one."""

import os
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.postgres import Postgres

PORT = 5432
GONE = 2**22 + 1
"""No process has this id."""


@pytest.fixture
def server(tmp_path: Path) -> Postgres:
    made = Postgres(tmp_path, tmp_path, PORT, "", None)
    made.cluster.mkdir()
    return made


def lock(pid: int, status: str) -> str:
    return f"{pid}\n/data\n0\n{PORT}\n/run\n127.0.0.1\n0\n{status}\n"


@pytest.mark.parametrize(
    ("process", "status", "is_ready"),
    [("own", "ready   ", True), ("own", "starting", False), ("gone", "ready   ", False)],
)
def test_a_running_server_that_reports_ready_is_ready(
    server: Postgres, process: str, status: str, is_ready: bool
) -> None:
    # Parameters must be the same in all xdist workers, and this id is not.
    pid = os.getpid() if process == "own" else GONE
    (server.cluster / "postmaster.pid").write_text(lock(pid, status))

    assert server.is_ready() is is_ready


def test_the_lock_file_of_a_killed_server_does_not_count(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = server.cluster / "postmaster.pid"
    path.write_text(lock(GONE, "ready   "))
    read = Path.read_text

    def read_then_replaced(self: Path) -> str:
        """Write the file of the next server after the old one was read."""
        found = read(self)
        path.write_text(lock(os.getpid(), "starting"))
        return found

    monkeypatch.setattr(Path, "read_text", read_then_replaced)

    assert not server.is_ready()
