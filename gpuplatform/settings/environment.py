"""The process settings: one table, from the environment and an optional file.

`gpuplatform.settings` turns it into Django's settings; `reading` fills it. Nobody else reads
`os.environ`. `docs/configuration.md` is generated from it.
"""

import json
import os
import secrets
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from gpuplatform.formats.names import dns_label

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent


class Environment(BaseSettings):
    """What a process is told from outside. Names are those of the environment variables."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_ignore_empty=True)

    gpuplatform_dev: bool = Field(
        default=False,
        description="Development mode: embedded servers, simulated cluster, open API on loopback.",
    )
    gpuplatform_data: Path = Field(
        default=Path(".data"),
        description="Directory of everything the development mode keeps.",
    )
    gpuplatform_role: Literal["web", "worker", "command"] = Field(
        default="command",
        description="What the process is; decides time limits and pooling of the database.",
    )
    gpuplatform_secret_key: str = Field(
        default="",
        description="Signs sessions; required outside development mode.",
        json_schema_extra={"secret": True},
    )
    gpuplatform_allowed_hosts: str = Field(
        default="",
        description="Host names the web process answers to, separated by commas; required"
        " outside development mode.",
    )
    gpuplatform_environment: str = Field(
        default="", description="Shown in the admin's header, for example 'production eu-1'."
    )
    gpuplatform_system_namespace: str = Field(
        default="gpu-platform", description="Namespace of the lease and the epoch."
    )
    gpuplatform_lease_seconds: int = Field(
        default=30, ge=3, le=300, description="How long a worker that died keeps its rows."
    )
    gpuplatform_fresh_seconds: int = Field(
        default=40, ge=8, le=300, description="A part without a sign of life for so long is down."
    )
    gpuplatform_web_threads: int = Field(
        default=4, ge=1, le=256, description="Threads of a web process; at most half may wait."
    )
    gpuplatform_drain_seconds: int = Field(
        default=10, ge=1, le=100, description="What a process may take for its work after SIGTERM."
    )
    gpuplatform_metrics_port: int = Field(
        default=0, ge=0, le=65535, description="Port of this process's /metrics; 0: none."
    )
    gpuplatform_metrics_host: str = Field(
        default="",
        description="Address that /metrics listens on; empty: all, in development mode loopback.",
    )
    gpuplatform_log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Minimum level of the lines that are logged."
    )
    gpuplatform_log_format: Literal["plain", "json"] = Field(
        default="plain", description="Format of the log: text, or one JSON object per line."
    )
    database_url: str = Field(
        default="", description="PostgreSQL, as a URL; required outside development mode."
    )
    redis_url: str = Field(
        default="",
        description="The broker, a Redis or Valkey server, as a URL; required outside"
        " development mode.",
    )
    nats_url: str = Field(
        default="",
        description="The queue of invocations, a NATS server with JetStream, as a URL; without"
        " one no function can be made.",
    )
    gpuplatform_nats_seed: str = Field(
        default="",
        description="Seed of the NATS account of the platform ('manage.py nats_accounts"
        " --new-seed' makes one).",
        json_schema_extra={"secret": True},
    )
    gpuplatform_nats_replicas: int = Field(
        default=1, ge=1, le=5, description="On how many NATS servers each message lies."
    )
    kubeconfig: str = Field(default="", description="Path of the kubeconfig of a real cluster.")
    kube_mode: Literal["auto", "required", "off", "simulated"] | None = Field(
        default=None,
        description="How the cluster is found; none: 'auto', in development mode 'simulated'.",
    )
    port: int = Field(default=8080, ge=0, le=65535, description="Port of the web process.")

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment comes before what is given, which is the file's."""
        return env_settings, init_settings

    @field_validator("kube_mode", mode="before")
    @classmethod
    def _as_meant(cls, mode: object) -> object:
        """Capitals and blanks change no mode."""
        return mode.strip().lower() or None if isinstance(mode, str) else mode

    @field_validator("database_url")
    @classmethod
    def _is_postgresql(cls, url: str) -> str:
        return _checked_url(url, "postgres", "postgresql")

    @field_validator("redis_url")
    @classmethod
    def _is_redis(cls, url: str) -> str:
        return _checked_url(url, "redis", "rediss")

    @field_validator("nats_url")
    @classmethod
    def _is_nats(cls, url: str) -> str:
        return _checked_url(url, "nats", "tls")

    @field_validator("gpuplatform_system_namespace")
    @classmethod
    def _is_namespace(cls, name: str) -> str:
        return dns_label(name)

    @property
    def allowed_hosts(self) -> list[str]:
        """The host names; in development mode those of loopback."""
        if self.gpuplatform_dev:
            return ["localhost", "127.0.0.1", "[::1]"]
        return [
            host for part in self.gpuplatform_allowed_hosts.split(",") if (host := part.strip())
        ]

    @property
    def data_dir(self) -> Path:
        """The data directory as an absolute path; a relative one belongs to the project."""
        return (PROJECT_ROOT / self.gpuplatform_data.expanduser()).resolve()

    def effective_kube_mode(self) -> str:
        """Return the mode; an exported KUBECONFIG alone never chooses a real cluster."""
        default = "simulated" if self.gpuplatform_dev else "auto"
        return self.kube_mode or self.running_address("KUBE_MODE") or default

    def effective_kubeconfig(self) -> str:
        """Return the kubeconfig's path; it belongs to the mode, so both have one source."""
        if self.effective_kube_mode() == "simulated":
            return str(self.data_dir / "kubeconfig")
        running = "" if self.kube_mode else self.running_address("KUBECONFIG")
        return running or self.kubeconfig

    def effective_port(self) -> int:
        """Return the port; in development mode without one that of the running platform."""
        if "port" in self.model_fields_set:
            return self.port
        return int(self.running_address("PORT") or self.port)

    @property
    def addresses_file(self) -> Path:
        """Where the runner of development mode writes the addresses while it runs."""
        return self.data_dir / "run" / "addresses.json"

    def running_address(self, name: str) -> str:
        """Return an address that the runner of development mode wrote, or an empty string."""
        if not self.gpuplatform_dev:
            return ""
        try:
            addresses = json.loads(self.addresses_file.read_text())
        except (OSError, ValueError):
            return ""
        return str(addresses.get(name, ""))

    def effective_database_url(self) -> str:
        """Return the URL; in development mode without one that of the embedded server."""
        return self.database_url or self.running_address("DATABASE_URL")

    def effective_redis_url(self) -> str:
        """Return the URL; in development mode without one that of the embedded server."""
        return self.redis_url or self.running_address("REDIS_URL")

    def effective_nats_url(self) -> str:
        """Return the URL; in development mode without one that of the embedded server."""
        return self.nats_url or self.running_address("NATS_URL")

    def effective_nats_seed(self) -> str:
        """Return the seed; in development mode without one that of the embedded server."""
        if self.gpuplatform_nats_seed or not self.gpuplatform_dev:
            return self.gpuplatform_nats_seed
        try:
            return (self.data_dir / "nats" / "account-seed").read_text().strip()
        except OSError:
            return ""

    def effective_metrics_host(self) -> str:
        """Return the address; nothing of development mode listens beyond loopback by itself."""
        everywhere = "0.0.0.0"  # noqa: S104 - metrics are asked for from other machines
        return self.gpuplatform_metrics_host or (
            "127.0.0.1" if self.gpuplatform_dev else everywhere
        )

    def effective_secret_key(self) -> str:
        """Return the key; development mode keeps a random one in the data directory."""
        if self.gpuplatform_secret_key or not self.gpuplatform_dev:
            return self.gpuplatform_secret_key
        path = self.data_dir / "secret-key"
        try:
            return path.read_text()
        except FileNotFoundError:
            return _keep_new_secret(path)


def secure_origins(hosts: list[str]) -> list[str]:
    """Return where the forms of these hosts come from: TLS ends before the web process."""
    return [f"https://{'*' if host.startswith('.') else ''}{host}" for host in hosts]


def _checked_url(url: str, *schemes: str) -> str:
    """Return the URL; what is said of a wrong one never shows it, since it has a password."""
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound = False
    if url and not is_sound:
        msg = f"has to look like {schemes[0]}://user:password@host:port/name"
        raise ValueError(msg) from None
    return url


def _keep_new_secret(path: Path) -> str:
    """Write a random key for the owner only; of two processes at once the first one wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "x", opener=_owner_only) as file:
            file.write(secrets.token_urlsafe(48))
    except FileExistsError:
        pass
    return path.read_text()


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
