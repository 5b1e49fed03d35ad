"""The table of process settings, which are read from the environment and an optional file.

`reading` loads the settings, and `gpuplatform.settings` derives the Django settings from them. No
other module reads settings from `os.environ`. `docs/configuration.md` is generated from the table.
"""

import json
import os
import secrets
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from gpuplatform.formats.image import image_reference
from gpuplatform.formats.names import dns_label, dns_subdomain
from gpuplatform.formats.namespaces import POOL_NAMESPACE, reserved_error
from gpuplatform.images import PLATFORM_IMAGE, RESERVATION_IMAGE
from gpuplatform.settings.oidc import OidcSettings
from gpuplatform.settings.rates import RateSettings

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent


class Environment(OidcSettings, RateSettings):
    """The settings of a process, by lowercase name of the environment variable."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_ignore_empty=True)

    gpuplatform_dev: bool = Field(
        default=False,
        description="Whether to use development mode: embedded servers, a simulated cluster and an"
        " open API on loopback.",
    )
    gpuplatform_data: Path = Field(
        default=Path(".data"),
        description="Data directory of development mode.",
    )
    gpuplatform_role: Literal["web", "worker", "command"] = Field(
        default="command",
        description="Role of the process. It determines time limits and database pooling.",
    )
    gpuplatform_secret_key: str = Field(
        default="",
        description="Key that signs sessions, links and webhooks: at least 32 random characters."
        " Required outside development mode.",
        json_schema_extra={"secret": True},
    )
    gpuplatform_allowed_hosts: str = Field(
        default="",
        description="Host names that the web process serves, separated by commas. Required outside"
        " development mode.",
    )
    gpuplatform_environment: str = Field(
        default="",
        description="Name of the environment that the admin displays, such as 'production eu-1'.",
    )
    gpuplatform_system_namespace: str = Field(
        default="gpu-platform", description="Namespace of the Leases and of the epoch."
    )
    gpuplatform_pool_namespaces: str = Field(
        default=POOL_NAMESPACE,
        description="Namespaces in which stock pools can be created, separated by commas. None of"
        " them may belong to Kubernetes, such as `default`, to the platform or to a tenant. Stock"
        " pools that exist in other namespaces are kept.",
    )
    gpuplatform_sidecar_image: str = Field(
        default=PLATFORM_IMAGE,
        description="Image of the sidecar in the workers of functions: the image 'platform' or"
        " 'sidecar' of the release, in a registry from which the nodes can pull.",
    )
    gpuplatform_reservation_image: str = Field(
        default=RESERVATION_IMAGE,
        description="Image of stock units, and of stock pools and GPU units without an image. It"
        " must contain a shell.",
    )
    gpuplatform_pull_secrets: str = Field(
        default="",
        description="Names of the Secrets with which nodes pull the images of all pods that the"
        " platform starts, separated by commas. Each namespace of pods must contain them.",
    )
    gpuplatform_lease_seconds: int = Field(
        default=30,
        ge=3,
        le=300,
        description="Duration in seconds after which a row lease expires if its worker has died.",
    )
    gpuplatform_preemption_notice_seconds: int = Field(
        default=60,
        ge=30,
        le=600,
        description="Time in seconds between the notice to a preemptible unit and its stop for"
        " another request.",
    )
    gpuplatform_fresh_seconds: int = Field(
        default=40,
        ge=8,
        le=300,
        description="Duration in seconds without a heartbeat after which a part is down.",
    )
    gpuplatform_web_threads: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Number of threads of a web worker. At most half of them wait for units,"
        " results and logs, and at most one in eight for the same tenant.",
    )
    gpuplatform_sync_wait_seconds: int = Field(
        default=60,
        ge=1,
        le=600,
        description="Maximum duration in seconds that a `sync` invocation waits for its result. "
        "Keep it below the timeout of a proxy in front of the platform.",
    )
    gpuplatform_drain_seconds: int = Field(
        default=10,
        ge=1,
        le=100,
        description="Maximum duration in seconds of running tasks and requests after SIGTERM.",
    )
    gpuplatform_metrics_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Port of /metrics and /livez of this process. 0 disables them.",
    )
    gpuplatform_metrics_host: str = Field(
        default="",
        description="Listen address of /metrics. Defaults to all addresses, in development mode to"
        " loopback.",
    )
    gpuplatform_log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Minimum level of log messages."
    )
    gpuplatform_log_format: Literal["plain", "json"] = Field(
        default="plain", description="Format of the log: text or one JSON object per line."
    )
    database_url: str = Field(
        default="", description="URL of the PostgreSQL server. Required outside development mode."
    )
    redis_url: str = Field(
        default="",
        description="URL of the broker, a Redis or Valkey server. Required outside development"
        " mode.",
    )
    nats_url: str = Field(
        default="",
        description="URL of the queue of invocations, a NATS server with JetStream. Without it,"
        " functions cannot be created.",
    )
    gpuplatform_nats_seed: str = Field(
        default="",
        description="Seed of the platform's NATS account. Create one with 'manage.py nats_accounts"
        " --new-seed'.",
        json_schema_extra={"secret": True},
    )
    gpuplatform_nats_replicas: int = Field(
        default=1, ge=1, le=5, description="Number of NATS servers that store each message."
    )
    gpuplatform_webhook_networks: str = Field(
        default="",
        description="Networks to which webhooks may be sent in addition to public addresses, such"
        " as '10.0.5.0/24', separated by commas. In development mode, it defaults to loopback.",
    )
    gpuplatform_trusted_proxies: str = Field(
        default="127.0.0.0/8,::1/128",
        description="Networks of the proxies in front of the web process, separated by commas."
        " X-Forwarded-For and X-Forwarded-Proto of other clients are ignored.",
    )
    gpuplatform_audit_retention_days: int = Field(
        default=400,
        ge=30,
        le=36500,
        description="Days for which the entries of the audit log are kept.",
    )
    kubeconfig: str = Field(
        default="", description="Path of the kubeconfig file of a real cluster."
    )
    kube_mode: Literal["auto", "required", "off", "simulated"] | None = Field(
        default=None,
        description="Mode of the cluster connection. Defaults to 'auto', in development mode to"
        " 'simulated'.",
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
        """Give the environment precedence over `init_settings`, the values of the file."""
        return env_settings, init_settings

    @field_validator("kube_mode", mode="before")
    @classmethod
    def _normalized(cls, mode: object) -> object:
        """Ignore case and surrounding whitespace."""
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

    @field_validator("gpuplatform_sidecar_image", "gpuplatform_reservation_image")
    @classmethod
    def _is_image(cls, image: str) -> str:
        return image_reference(image)

    @field_validator("gpuplatform_pull_secrets")
    @classmethod
    def _are_secret_names(cls, names: str) -> str:
        return ",".join(dict.fromkeys(map(dns_subdomain, _parts(names))))

    @property
    def pull_secrets(self) -> tuple[str, ...]:
        """The names of the Secrets with which nodes pull images."""
        return tuple(_parts(self.gpuplatform_pull_secrets))

    @field_validator("gpuplatform_pool_namespaces")
    @classmethod
    def _are_namespaces(cls, names: str) -> str:
        found = tuple(dict.fromkeys(map(dns_label, _parts(names))))
        for error in filter(None, (reserved_error(one, system_namespace="") for one in found)):
            raise ValueError(error)
        return ",".join(found)

    @property
    def pool_namespaces(self) -> tuple[str, ...]:
        """The namespaces in which stock pools can be created, at least one."""
        return tuple(_parts(self.gpuplatform_pool_namespaces))

    @field_validator("gpuplatform_webhook_networks", "gpuplatform_trusted_proxies")
    @classmethod
    def _are_networks(cls, texts: str) -> str:
        return ",".join(str(ip_network(text)) for text in _parts(texts))

    @property
    def webhook_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks to which webhooks may be sent in addition to public addresses."""
        default = "127.0.0.0/8,::1/128" if self.gpuplatform_dev else ""
        return tuple(map(ip_network, _parts(self.gpuplatform_webhook_networks or default)))

    @property
    def trusted_proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of the proxies in front of the web process."""
        return tuple(map(ip_network, _parts(self.gpuplatform_trusted_proxies)))

    @property
    def allowed_hosts(self) -> list[str]:
        """The host names that the web process serves; in development mode, loopback."""
        if self.gpuplatform_dev:
            return ["localhost", "127.0.0.1", "[::1]"]
        return _parts(self.gpuplatform_allowed_hosts)

    @property
    def data_dir(self) -> Path:
        """The absolute data directory. A relative setting is relative to the project."""
        return (PROJECT_ROOT / self.gpuplatform_data.expanduser()).resolve()

    def effective_kube_mode(self) -> str:
        """Return the mode of the cluster connection.

        In development mode, KUBECONFIG alone never selects a real cluster.
        """
        default = "simulated" if self.gpuplatform_dev else "auto"
        return self.kube_mode or self.running_address("KUBE_MODE") or default

    def effective_kubeconfig(self) -> str:
        """Return the path of the kubeconfig file, from the same source as the mode."""
        if self.effective_kube_mode() == "simulated":
            return str(self.data_dir / "kubeconfig")
        running = "" if self.kube_mode else self.running_address("KUBECONFIG")
        return running or self.kubeconfig

    def effective_port(self) -> int:
        """Return the port. It defaults to the port of a running development platform."""
        if "port" in self.model_fields_set:
            return self.port
        return int(self.running_address("PORT") or self.port)

    @property
    def addresses_file(self) -> Path:
        """The file with the addresses of the platform, which the development runner writes."""
        return self.data_dir / "run" / "addresses.json"

    def running_address(self, name: str) -> str:
        """Return an address that the development runner wrote, or an empty string."""
        if not self.gpuplatform_dev:
            return ""
        try:
            addresses = json.loads(self.addresses_file.read_text())
        except (OSError, ValueError):
            return ""
        return str(addresses.get(name, ""))

    def effective_url(self, name: str) -> str:
        """Return the URL setting `name`, which defaults to a server of development mode."""
        return str(getattr(self, name.lower())) or self.running_address(name)

    def effective_nats_seed(self) -> str:
        """Return the seed. In development mode, it defaults to the seed of the embedded server."""
        if self.gpuplatform_nats_seed or not self.gpuplatform_dev:
            return self.gpuplatform_nats_seed
        try:
            return (self.data_dir / "nats" / "account-seed").read_text().strip()
        except OSError:
            return ""

    def effective_metrics_host(self) -> str:
        """Return the listen address. In development mode, it defaults to loopback."""
        everywhere = "0.0.0.0"  # noqa: S104 - other machines scrape metrics
        return self.gpuplatform_metrics_host or (
            "127.0.0.1" if self.gpuplatform_dev else everywhere
        )

    def effective_secret_key(self) -> str:
        """Return the key. In development mode, a random key is stored in the data directory."""
        if self.gpuplatform_secret_key or not self.gpuplatform_dev:
            return self.gpuplatform_secret_key
        path = self.data_dir / "secret-key"
        try:
            return path.read_text()
        except FileNotFoundError:
            return _stored_secret(path)


def _parts(text: str) -> list[str]:
    """Return the values that commas separate."""
    return [part for one in text.split(",") if (part := one.strip())]


def secure_origins(hosts: list[str]) -> list[str]:
    """Return the HTTPS origins of hosts. A proxy terminates TLS in front of the web process."""
    return [f"https://{'*' if host.startswith('.') else ''}{host}" for host in hosts]


def _checked_url(url: str, *schemes: str) -> str:
    """Return the URL if it is valid. The error message omits it, since it contains a password."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if url and not is_valid:
        msg = f"must have the form {schemes[0]}://user:password@host:port/name"
        raise ValueError(msg) from None
    return url


def _stored_secret(path: Path) -> str:
    """Return the key in a file. If the file does not exist, create it with a random key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "x", opener=_owner_only) as file:
            file.write(secrets.token_urlsafe(48))
    except FileExistsError:
        pass
    return path.read_text()


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
