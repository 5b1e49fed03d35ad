"""The embedded Valkey server (the broker). It listens on loopback and requires a password."""

import socket
from dataclasses import dataclass
from pathlib import Path

from gpuplatform.dev.embedded.children import Command
from gpuplatform.dev.embedded.data_directory import keep_secret, write_secret
from gpuplatform.dev.embedded.ports import LOOPBACK
from gpuplatform.dev.embedded.wheels import valkey_server


@dataclass(frozen=True, slots=True)
class Valkey:
    """A Valkey server. `prepare` writes its files, and `command` returns its command line."""

    directory: Path
    port: int
    password: str
    is_durable: bool = True

    @classmethod
    def prepare(cls, directory: Path, port: int, *, is_durable: bool = True) -> "Valkey":
        """Create the directory, the password and the configuration file. Idempotent.

        Tests set `is_durable=False`, because they discard the data.
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
            # Eviction would delete messages.
            "maxmemory-policy": "noeviction",
            "loglevel": "warning",
            # Suppress warnings about kernel settings, which are not relevant for development.
            "logfile": "valkey.log",
            "io-threads": "1",
        }
        return "".join(f"{name} {value}\n" for name, value in lines.items())

    @property
    def url(self) -> str:
        """Value of REDIS_URL."""
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"

    def command(self) -> Command:
        """Return the command that starts the server. Its arguments do not contain the password."""
        return Command(argv=(str(valkey_server()), str(self.directory / "valkey.conf")))

    def is_ready(self) -> bool:
        """Return whether the server responds to PING."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                response = b""
                while response.count(b"\n") < 2 and (received := connection.recv(256)):
                    response += received
        except OSError:
            return False
        return response.endswith(b"+PONG\r\n")
