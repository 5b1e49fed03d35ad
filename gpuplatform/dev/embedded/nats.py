"""The embedded NATS server with JetStream. It listens on loopback.

Only users of the platform's account can connect. The settings of development mode read the seed of
the account from the data directory.
"""

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuplatform.dev.embedded.children import Command
from gpuplatform.dev.embedded.data_directory import write_secret
from gpuplatform.dev.embedded.ports import LOOPBACK
from gpuplatform.dev.embedded.wheels import nats_server
from gpuplatform.nats.keys import KeyKind, KeyPair
from serverless.queue.credentials import server_configuration

MAX_PAYLOAD: Final = 4 * 1024 * 1024
"""Maximum size in bytes of a message: a 1 MiB result in base64 with its metadata."""


@dataclass(frozen=True, slots=True)
class Nats:
    """A NATS server. `prepare` writes its files, and `command` returns its command line."""

    directory: Path
    port: int
    account: KeyPair

    @classmethod
    def prepare(cls, directory: Path, port: int) -> "Nats":
        """Create the directory, the account and the configuration file. Idempotent."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        seed = directory / "account-seed"
        if not seed.exists():
            write_secret(seed, KeyPair.generate(KeyKind.ACCOUNT).seed)
        account = KeyPair.from_seed(seed.read_text().strip(), KeyKind.ACCOUNT)
        server = cls(directory, port, account)
        write_secret(directory / "nats.conf", server._configuration())
        return server

    def _configuration(self) -> str:
        return (
            f"host: {LOOPBACK}\nport: {self.port}\n"
            f"max_payload: {MAX_PAYLOAD}\n"
            # After a power failure, lost messages are published again from the rows.
            f"jetstream {{ store_dir: {json.dumps(str(self.directory))}, max_mem: 64MB,"
            " max_file: 16GB, sync_interval: 10s }\n"
            f"log_file: {json.dumps(str(self.directory / 'nats.log'))}\n"
            "logfile_size_limit: 4MB\nlogfile_max_num: 2\n"
            f"{server_configuration(self.account)}"
        )

    @property
    def url(self) -> str:
        """Value of NATS_URL. It contains no credentials."""
        return f"nats://{LOOPBACK}:{self.port}"

    def command(self) -> Command:
        """Return the command that starts the server."""
        return Command(argv=(str(nats_server()), "-c", str(self.directory / "nats.conf")))

    def is_ready(self) -> bool:
        """Return whether the server accepts connections and JetStream is enabled."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                greeting = connection.makefile().readline()
        except OSError:
            return False
        return greeting.startswith("INFO ") and '"jetstream":true' in greeting
