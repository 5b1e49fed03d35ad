"""The options of `make run`, which are read from environment variables and validated."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from gpuplatform.dev.embedded.data_directory import DataDirectory
from gpuplatform.dev.embedded.errors import StartError
from gpuplatform.dev.embedded.ports import free_port

DEFAULT_PORT = 8080
DEFAULT_PORTS = {"DATABASE_URL": 5432, "REDIS_URL": 6379, "NATS_URL": 4222}
KUBE_MODES = ("simulated", "required", "off")


SCHEMES = {
    "DATABASE_URL": ("postgres", "postgresql"),
    "REDIS_URL": ("redis", "rediss"),
    "NATS_URL": ("nats", "tls"),
}
CONNECT_SECONDS = 3.0


def check_address(name: str, address: str, schemes: tuple[str, ...]) -> None:
    """Check that an external server accepts connections at `url`. An empty `url` is ignored.

    Raises:
        StartError: If the address is invalid or no server accepts the connection.
    """
    if not address:
        return
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[name]
    except ValueError:
        parts, host, port = urlsplit(""), "", 0
    if parts.scheme not in schemes or not host:
        example = f"{schemes[0]}://user:password@host:{DEFAULT_PORTS[name]}/name"
        raise StartError(f"{name} is not a valid address. Use the form {example}.")
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        reason = error.strerror or "timeout"
        raise StartError(
            f"Cannot connect to {host}:{port}, the address in {name} ({reason})."
            " Start the server, or unset the variable to use an embedded one."
        ) from error


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one run. An empty value selects the default."""

    data: DataDirectory
    requested_port: str
    database_url: str
    redis_url: str
    kube_mode: str
    kubeconfig: str
    wants_demo: bool
    metrics_port: str = ""
    """Metrics port of the first process; the other processes use the following ports.

    `0` disables metrics. An empty value selects free ports."""
    nats_url: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Options":
        """Read the options from environment variables.

        A real cluster must be selected explicitly with KUBE_MODE=required; KUBECONFIG alone has no
        effect. The demo is sent to a real cluster only with DEMO=1.

        Raises:
            StartError: If a value is invalid or a required value is missing.
        """
        kube_mode = environment.get("KUBE_MODE", "").strip().lower() or "simulated"
        if kube_mode not in KUBE_MODES:
            raise StartError(
                f"KUBE_MODE={kube_mode} is not supported here; use one of:"
                f" {', '.join(KUBE_MODES)}."
            )
        kubeconfig = environment.get("KUBECONFIG", "")
        if kube_mode == "required" and not kubeconfig:
            raise StartError("KUBE_MODE=required requires KUBECONFIG, the path of a kubeconfig.")
        if environment.get("NATS_URL") and not environment.get("GPUPLATFORM_NATS_SEED"):
            raise StartError(
                "NATS_URL requires GPUPLATFORM_NATS_SEED, the seed of your account on that server."
            )
        for name, schemes in SCHEMES.items():
            check_address(name, environment.get(name, ""), schemes)
        demo = environment.get("DEMO", "")
        return cls(
            data=DataDirectory.from_setting(environment.get("GPUPLATFORM_DATA", "")),
            requested_port=environment.get("PORT", ""),
            database_url=environment.get("DATABASE_URL", ""),
            redis_url=environment.get("REDIS_URL", ""),
            kube_mode=kube_mode,
            kubeconfig=kubeconfig if kube_mode == "required" else "",
            wants_demo=demo != "0" and (kube_mode == "simulated" or demo == "1"),
            metrics_port=_number(environment, "GPUPLATFORM_METRICS_PORT"),
            nats_url=environment.get("NATS_URL", ""),
        )

    def metrics_ports(self, parts: Sequence[str]) -> dict[str, int]:
        """Return a dict from process to metrics port, which is empty if metrics are disabled."""
        if not self.metrics_port:
            return {part: free_port() for part in parts}
        first = int(self.metrics_port)
        return {part: first + at for at, part in enumerate(parts)} if first else {}


def _number(environment: Mapping[str, str], name: str) -> str:
    """Return the value of a port variable, or an empty string if the variable is not set.

    Raises:
        StartError: If the value is not a valid port number.
    """
    text = environment.get(name, "")
    if text and not (text.isascii() and text.isdigit() and int(text) <= 65000):
        raise StartError(f"{name}={text} is not a port. Set a number up to 65000, or unset it.")
    return text
