"""Valkey, the broker, from its wheel: loopback, a password, an append-only file."""

import socket
from dataclasses import dataclass
from pathlib import Path

from gpuplatform.dev.embedded.children import Command
from gpuplatform.dev.embedded.data_directory import keep_secret, write_secret
from gpuplatform.dev.embedded.ports import LOOPBACK
from gpuplatform.dev.embedded.wheels import valkey_server


@dataclass(frozen=True, slots=True)
class Valkey:
    """One server: `prepare` writes its files, `command` returns how to start it."""

    directory: Path
    port: int
    password: str
    is_durable: bool = True

    @classmethod
    def prepare(cls, directory: Path, port: int, *, is_durable: bool = True) -> "Valkey":
        """Create the directory, the password and the configuration. Idempotent.

        `is_durable=False` is for tests, which discard the data.
        """
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        server = cls(directory, port, keep_secret(directory / "password"), is_durable)
        write_secret(directory / "valkey.conf", server._configuration())
        return server

    def _configuration(self) -> str:
        quoted = str(self.directory).replace("\\", "\\\\").replace('"', '\\"')
        lines = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "dir": f'"{quoted}"',
            "requirepass": self.password,
            "appendonly": "yes" if self.is_durable else "no",
            "appendfsync": "everysec",
            "save": '""',
            # A broker that evicts loses messages.
            "maxmemory-policy": "noeviction",
            "loglevel": "warning",
            # It warns about kernel settings at each start, which would distract a newcomer.
            "logfile": "valkey.log",
            "io-threads": "1",
        }
        return "".join(f"{name} {value}\n" for name, value in lines.items())

    @property
    def url(self) -> str:
        """The value of REDIS_URL."""
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"

    def command(self) -> Command:
        """Return how to start the server; the password is in a file, not in the arguments."""
        return Command(argv=(str(valkey_server()), str(self.directory / "valkey.conf")))

    def is_ready(self) -> bool:
        """Return whether it answers a ping."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\n") < 2 and (received := connection.recv(256)):
                    answer += received
        except OSError:
            return False
        return answer.endswith(b"+PONG\r\n")
