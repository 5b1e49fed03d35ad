"""PostgreSQL and Valkey from their wheels: first start, restart, after a kill, unusual paths."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from gpuplatform.dev.embedded.children import ChildRecord, start_child
from gpuplatform.dev.embedded.data_directory import DataDirectory, remove_data
from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.dev.embedded.postgres import Postgres
from gpuplatform.dev.embedded.processes import wait_until
from gpuplatform.dev.embedded.valkey import Valkey

pytestmark = pytest.mark.processes


class Started:
    """Starts servers and kills them at the end."""

    def __init__(self, data: DataDirectory) -> None:
        self.data = data
        self._record = ChildRecord(data.children)
        self._children: list[subprocess.Popen[bytes]] = []

    def __call__(self, server: Postgres | Valkey) -> subprocess.Popen[bytes]:
        command = server.command()
        child = start_child(command, "server", self._record, subprocess.DEVNULL)
        self._children.append(child)
        assert wait_until(server.is_ready, 20)
        return child

    def end(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()


@pytest.fixture
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    data = DataDirectory(tmp_path_factory.mktemp("data of a person") / ".data")
    data.create()
    started = Started(data)
    yield started
    started.end()
    remove_data(data.path)


def postgres(data: Path) -> Postgres:
    return Postgres.prepare(data, free_port(), is_durable=False)


def test_postgres_keeps_data_over_a_stop(started: Started) -> None:
    server = postgres(started.data.path)
    child = started(server)
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept (number int)")
    child.send_signal(signal.SIGINT)
    assert child.wait(10) == 0

    again = postgres(started.data.path)
    started(again)

    with psycopg.connect(again.url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_postgres_requires_its_password(started: Started) -> None:
    server = postgres(started.data.path)
    started(server)

    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(server.url.replace(server.password, "wrong"))


def test_the_passwords_are_readable_by_their_owner_only(started: Started) -> None:
    data = started.data.path
    postgres(data)
    Valkey.prepare(data / "valkey", free_port())

    secret = [data / "postgres-password", data / "valkey/password", data / "valkey/valkey.conf"]
    assert [path.stat().st_mode & 0o777 for path in secret] == [0o600] * 3


def test_postgres_starts_despite_the_lock_of_a_killed_server(started: Started) -> None:
    server = postgres(started.data.path)
    child = started(server)
    child.kill()
    child.wait()
    lock = server.cluster / "postmaster.pid"
    # Another process has this process id, which PostgreSQL would regard as a server.
    lines = lock.read_text().splitlines()
    lock.write_text("\n".join([str(os.getppid()), *lines[1:]]) + "\n")

    again = postgres(started.data.path)
    started(again)

    psycopg.connect(again.url).close()


def test_a_postgres_that_still_runs_is_stopped_first(started: Started) -> None:
    server = postgres(started.data.path)
    child = started(server)

    again = postgres(started.data.path)

    assert child.wait(10) == 0
    started(again)


def test_an_unfinished_setup_is_repeated(started: Started) -> None:
    server = postgres(started.data.path)
    server.cluster.rename(server.directory / "unfinished")

    again = postgres(started.data.path)

    started(again)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives way to the user nobody")
def test_as_root_a_closed_parent_directory_is_unchanged(started: Started, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    data = DataDirectory(closed / ".data")
    data.create()

    server = postgres(data.path)
    started(server)

    psycopg.connect(server.url).close()
    assert closed.stat().st_mode & 0o777 == 0o700
    assert (data.path / "postgres").resolve() == server.directory
    remove_data(data.path)


def test_valkey_keeps_messages_over_a_kill(started: Started) -> None:
    server = Valkey.prepare(started.data.path / "valkey", free_port())
    child = started(server)
    client = redis.Redis.from_url(server.url)
    client.set("key", "value")
    client.waitaof(1, 0, 5000)
    client.close()
    child.kill()
    child.wait()

    again = Valkey.prepare(started.data.path / "valkey", free_port())
    started(again)

    client = redis.Redis.from_url(again.url)
    assert client.get("key") == b"value"
    client.close()


def test_valkey_requires_its_password(started: Started) -> None:
    server = Valkey.prepare(started.data.path / "valkey", free_port())
    started(server)
    client = redis.Redis.from_url(server.url.replace(server.password, "wrong"))

    with pytest.raises(redis.AuthenticationError):
        client.ping()
    client.close()
