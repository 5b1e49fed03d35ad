"""The process settings: one table, read from the environment, every error at once.

`gpuplatform.settings` turns it into Django's settings. Nobody else reads `os.environ`.
"""

import json
import os
import secrets
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent


class Environment(BaseSettings):
    """What a process is told from outside. Names are those of the environment variables."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True)

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
        default="", description="Signs sessions; required outside development mode."
    )
    gpuplatform_allowed_hosts: str = Field(
        default="", description="Host names the web process answers to, separated by commas."
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
    gpuplatform_log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severe level that is logged."
    )
    database_url: str = Field(default="", description="PostgreSQL, as a URL.")
    redis_url: str = Field(
        default="", description="The broker, a Redis or Valkey server, as a URL."
    )
    kubeconfig: str = Field(default="", description="Path of the kubeconfig of a real cluster.")
    kube_mode: Literal["auto", "required", "off", "simulated"] | None = Field(
        default=None, description="How the cluster is found; 'simulated' in development mode."
    )
    port: int = Field(default=8080, ge=0, le=65535, description="Port of the web process.")

    @property
    def data_dir(self) -> Path:
        """The data directory as an absolute path; a relative one belongs to the project."""
        return (PROJECT_ROOT / self.gpuplatform_data.expanduser()).resolve()

    def effective_kube_mode(self) -> str:
        """Return the mode; an exported KUBECONFIG alone never chooses a real cluster."""
        return self.kube_mode or ("simulated" if self.gpuplatform_dev else "auto")

    def effective_kubeconfig(self) -> str:
        """Return the kubeconfig's path; the simulated cluster has its own."""
        if self.effective_kube_mode() == "simulated":
            return str(self.data_dir / "kubeconfig")
        return self.kubeconfig

    def running_address(self, name: str) -> str:
        """Return the address of an embedded server, written by the runner, or an empty string."""
        if not self.gpuplatform_dev:
            return ""
        try:
            addresses = json.loads((self.data_dir / "run" / "addresses.json").read_text())
        except (OSError, ValueError):
            return ""
        return str(addresses.get(name, ""))

    def effective_secret_key(self) -> str:
        """Return the key; development mode keeps a random one in the data directory."""
        if self.gpuplatform_secret_key or not self.gpuplatform_dev:
            return self.gpuplatform_secret_key
        path = self.data_dir / "secret-key"
        try:
            return path.read_text()
        except FileNotFoundError:
            return _keep_new_secret(path)


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


def load_environment() -> Environment:
    """Read the environment.

    Raises:
        SystemExit: something is wrong; every fault is named in one message.
    """
    try:
        environment = Environment()
    except ValidationError as error:
        faults = [f"  {'.'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors()]
        raise SystemExit("The settings are wrong:\n" + "\n".join(faults)) from error
    missing = []
    if not environment.gpuplatform_dev:
        required = (
            "gpuplatform_secret_key",
            "gpuplatform_allowed_hosts",
            "database_url",
            "redis_url",
        )
        missing = [name.upper() for name in required if not getattr(environment, name)]
    if environment.effective_kube_mode() == "simulated" and not environment.gpuplatform_dev:
        missing.append("KUBE_MODE other than 'simulated' (or GPUPLATFORM_DEV=1)")
    if missing:
        raise SystemExit("The settings are incomplete; set: " + ", ".join(missing))
    return environment
