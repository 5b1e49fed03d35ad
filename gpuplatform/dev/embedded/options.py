"""The options of `make run` from the environment, checked before anything starts."""

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
ANSWER_SECONDS = 3.0


def check_address(name: str, address: str, schemes: tuple[str, ...]) -> None:
    """Check the address of an external server, if one is set.

    Raises:
        StartError: The address is invalid, or no server answers there.
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
        raise StartError(f"{name} is not a valid address; use the form {example}.")
    try:
        socket.create_connection((host, port), ANSWER_SECONDS).close()
    except OSError as error:
        why = error.strerror or "timeout"
        raise StartError(
            f"No server answers at {host}:{port}, the address in {name} ({why})."
            " Start the server, or unset the variable to use an embedded one."
        ) from error


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a start; an empty value means the default."""

    data: DataDirectory
    requested_port: str
    database_url: str
    redis_url: str
    kube_mode: str
    kubeconfig: str
    wants_demo: bool
    metrics_port: str = ""
    """Port of the first process, the others use the following; `0`: none; empty: free ports."""
    nats_url: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Options":
        """Read the environment variables.

        A real cluster must be selected explicitly: an exported KUBECONFIG alone has no effect, and
        the demo is sent to a real cluster only with DEMO=1.

        Raises:
            StartError: A value is invalid, or another one requires a missing value.
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
        """Return a port of loopback for each process; empty if metrics are off."""
        if not self.metrics_port:
            return {part: free_port() for part in parts}
        first = int(self.metrics_port)
        return {part: first + at for at, part in enumerate(parts)} if first else {}


def _number(environment: Mapping[str, str], name: str) -> str:
    """Return the digits of the variable, or an empty string.

    Raises:
        StartError: The value is not a port.
    """
    text = environment.get(name, "")
    if text and not (text.isascii() and text.isdigit() and int(text) <= 65000):
        raise StartError(f"{name}={text} is not a port. Set a number up to 65000, or unset it.")
    return text
