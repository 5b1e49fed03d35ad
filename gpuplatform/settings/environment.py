"""The process settings: one table, from the environment and an optional file.

`gpuplatform.settings` derives Django's settings from it; `reading` loads it. No other module reads
settings from `os.environ`. `docs/configuration.md` is generated from it.
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
    """The settings of a process; the names are those of the environment variables."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_ignore_empty=True)

    gpuplatform_dev: bool = Field(
        default=False,
        description="Development mode: embedded servers, simulated cluster, open API on loopback.",
    )
    gpuplatform_data: Path = Field(
        default=Path(".data"),
        description="Data directory of development mode.",
    )
    gpuplatform_role: Literal["web", "worker", "command"] = Field(
        default="command",
        description="Role of the process; determines time limits and database pooling.",
    )
    gpuplatform_secret_key: str = Field(
        default="",
        description="Key that signs sessions; required outside development mode.",
        json_schema_extra={"secret": True},
    )
    gpuplatform_allowed_hosts: str = Field(
        default="",
        description="Host names of the web process, separated by commas; required outside"
        " development mode.",
    )
    gpuplatform_environment: str = Field(
        default="", description="Label in the header of the admin, for example 'production eu-1'."
    )
    gpuplatform_system_namespace: str = Field(
        default="gpu-platform", description="Namespace of the leases and the epoch."
    )
    gpuplatform_lease_seconds: int = Field(
        default=30, ge=3, le=300, description="Seconds until a row lease of a dead worker expires."
    )
    gpuplatform_fresh_seconds: int = Field(
        default=40,
        ge=8,
        le=300,
        description="Seconds without a heartbeat after which a part counts as down.",
    )
    gpuplatform_web_threads: int = Field(
        default=4,
        ge=1,
        le=256,
        description="Number of threads of a web worker; at most half of them serve waits.",
    )
    gpuplatform_drain_seconds: int = Field(
        default=10,
        ge=1,
        le=100,
        description="Seconds that running tasks and requests have after SIGTERM.",
    )
    gpuplatform_metrics_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Port of /metrics and /livez of this process; 0: none.",
    )
    gpuplatform_metrics_host: str = Field(
        default="",
        description="Listen address of /metrics; empty: all, in development mode loopback.",
    )
    gpuplatform_log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Minimum level of the lines that are logged."
    )
    gpuplatform_log_format: Literal["plain", "json"] = Field(
        default="plain", description="Format of the log: text, or one JSON object per line."
    )
    database_url: str = Field(
        default="", description="URL of PostgreSQL; required outside development mode."
    )
    redis_url: str = Field(
        default="",
        description="URL of the broker, a Redis or Valkey server; required outside development"
        " mode.",
    )
    nats_url: str = Field(
        default="",
        description="URL of the queue of invocations, a NATS server with JetStream; without it"
        " functions cannot be created.",
    )
    gpuplatform_nats_seed: str = Field(
        default="",
        description="Seed of the NATS account of the platform, created by 'manage.py"
        " nats_accounts --new-seed'.",
        json_schema_extra={"secret": True},
    )
    gpuplatform_nats_replicas: int = Field(
        default=1, ge=1, le=5, description="Number of NATS servers that store each message."
    )
    kubeconfig: str = Field(default="", description="Path of the kubeconfig of a real cluster.")
    kube_mode: Literal["auto", "required", "off", "simulated"] | None = Field(
        default=None,
        description="How the cluster is found; default 'auto', in development mode 'simulated'.",
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
        """Prefer the environment to the given values, which are those of the file."""
        return env_settings, init_settings

    @field_validator("kube_mode", mode="before")
    @classmethod
    def _normalized(cls, mode: object) -> object:
        """Ignore case and surrounding blanks."""
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
        """The absolute data directory; a relative setting is relative to the project."""
        return (PROJECT_ROOT / self.gpuplatform_data.expanduser()).resolve()

    def effective_kube_mode(self) -> str:
        """Return the mode; an exported KUBECONFIG alone never chooses a real cluster."""
        default = "simulated" if self.gpuplatform_dev else "auto"
        return self.kube_mode or self.running_address("KUBE_MODE") or default

    def effective_kubeconfig(self) -> str:
        """Return the path of the kubeconfig, from the same source as the mode."""
        if self.effective_kube_mode() == "simulated":
            return str(self.data_dir / "kubeconfig")
        running = "" if self.kube_mode else self.running_address("KUBECONFIG")
        return running or self.kubeconfig

    def effective_port(self) -> int:
        """Return the port; in development mode the default is that of the running platform."""
        if "port" in self.model_fields_set:
            return self.port
        return int(self.running_address("PORT") or self.port)

    @property
    def addresses_file(self) -> Path:
        """The file of the addresses that the runner of development mode writes while it runs."""
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
        """Return the URL; in development mode the default is the embedded server."""
        return self.database_url or self.running_address("DATABASE_URL")

    def effective_redis_url(self) -> str:
        """Return the URL; in development mode the default is the embedded server."""
        return self.redis_url or self.running_address("REDIS_URL")

    def effective_nats_url(self) -> str:
        """Return the URL; in development mode the default is the embedded server."""
        return self.nats_url or self.running_address("NATS_URL")

    def effective_nats_seed(self) -> str:
        """Return the seed; in development mode the default is that of the embedded server."""
        if self.gpuplatform_nats_seed or not self.gpuplatform_dev:
            return self.gpuplatform_nats_seed
        try:
            return (self.data_dir / "nats" / "account-seed").read_text().strip()
        except OSError:
            return ""

    def effective_metrics_host(self) -> str:
        """Return the address; the default of development mode is loopback."""
        everywhere = "0.0.0.0"  # noqa: S104 - other machines scrape metrics
        return self.gpuplatform_metrics_host or (
            "127.0.0.1" if self.gpuplatform_dev else everywhere
        )

    def effective_secret_key(self) -> str:
        """Return the key; development mode stores a random one in the data directory."""
        if self.gpuplatform_secret_key or not self.gpuplatform_dev:
            return self.gpuplatform_secret_key
        path = self.data_dir / "secret-key"
        try:
            return path.read_text()
        except FileNotFoundError:
            return _keep_new_secret(path)


def secure_origins(hosts: list[str]) -> list[str]:
    """Return the origins of these hosts; TLS is terminated in front of the web process."""
    return [f"https://{'*' if host.startswith('.') else ''}{host}" for host in hosts]


def _checked_url(url: str, *schemes: str) -> str:
    """Return the URL. The error does not show it, since it contains a password."""
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound = False
    if url and not is_sound:
        msg = f"must have the form {schemes[0]}://user:password@host:port/name"
        raise ValueError(msg) from None
    return url


def _keep_new_secret(path: Path) -> str:
    """Write a random key with mode 0600; of concurrent processes the first one wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "x", opener=_owner_only) as file:
            file.write(secrets.token_urlsafe(48))
    except FileExistsError:
        pass
    return path.read_text()


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
