"""The probes of a container: when it has started, is ready, and must be restarted. Pure."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.text import escaped, quoted
from gpuplatform.formats.validations import cel, validated
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.variables import ContainerText

MAX_SECONDS: Final = 24 * 3600
MAX_WORDS: Final = 1_000
TIMEOUT_SECONDS: Final = 5

_PATH: Final = r"/[!-~]*"

_KINDS: Final = {
    "readiness": ("readinessProbe", 1, 6),
    "startup": ("startupProbe", 5, 600),
    "liveness": ("livenessProbe", 10, 30),
}
"""By field of the template: the field of the container, its period, and the default `seconds`."""


def _path(path: str) -> str:
    if not re.fullmatch(_PATH, path):
        msg = f"{quoted(path)} is not a path. Start with '/', and use ASCII without spaces."
        raise ValueError(msg)
    return path


ProbePort = Annotated[
    int,
    Field(
        ge=1,
        le=65535,
        description="Number of the port. Defaults to the primary port of the unit if its protocol"
        " is TCP, and otherwise to the first TCP port of the template.",
        examples=[8000],
    ),
]


class HttpGet(SpecModel):
    """A probe that succeeds if a GET request returns a status from 200 to 399."""

    path: Annotated[str, AfterValidator(_path)] = Field(
        default="/",
        json_schema_extra={"pattern": f"^{_PATH}$"},
        max_length=1024,
        description="Path and query of the request. Defaults to /.",
        examples=["/health"],
    )
    port: ProbePort | None = None
    scheme: Literal["HTTP", "HTTPS"] = Field(
        default="HTTP",
        description="Scheme of the request. The certificate is not verified. Defaults to HTTP.",
        examples=["HTTP"],
    )


class TcpSocket(SpecModel):
    """A probe that succeeds if the port accepts a connection."""

    port: ProbePort | None = None


class Exec(SpecModel):
    """A probe that succeeds if a command in the container exits with code 0."""

    command: Annotated[tuple[ContainerText, ...], Field(strict=False)] = Field(
        max_length=MAX_WORDS,
        json_schema_extra={"minItems": 1},
        description="Command and its arguments. A shell is not used.",
        examples=[["nvidia-smi"]],
    )

    @field_validator("command")
    @classmethod
    def first_word_is_a_program(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        """Reject an empty command, and an empty program name."""
        if not command or not command[0].strip():
            msg = "The first entry must be the name of a program."
            raise ValueError(msg)
        return command


class Probe(SpecModel):
    """A probe of the container. It has exactly one of httpGet, tcpSocket, exec and none."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            cel(
                "[has(self.httpGet), has(self.tcpSocket), has(self.exec), has(self.none)]"
                ".exists_one(one, one)",
                "Must have exactly one of httpGet, tcpSocket, exec and none.",
            )
        )
    )

    http_get: Annotated[HttpGet, Field(description="Sends a GET request.")] | None = Field(
        default=None, alias="httpGet", examples=[{"path": "/health"}]
    )
    tcp_socket: Annotated[TcpSocket, Field(description="Opens a connection.")] | None = Field(
        default=None, alias="tcpSocket", examples=[{"port": 8000}]
    )
    exec: Annotated[Exec, Field(description="Runs a command.")] | None = Field(
        default=None, examples=[{"command": ["nvidia-smi"]}]
    )
    none: Annotated[Literal[True], Field(description="Disables the probe.")] | None = Field(
        default=None, examples=[True]
    )
    seconds: (
        Annotated[
            int,
            Field(
                ge=1,
                le=MAX_SECONDS,
                description="Time in seconds for which the probe may fail. readiness: until the"
                " pod is not ready (default 6). startup: until the container is restarted because"
                " it has not started (default 600). liveness: until the container is restarted"
                " (default 30).",
                examples=[7200],
            ),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def has_one_handler(self) -> "Probe":
        """Require exactly one handler."""
        found = (self.http_get, self.tcp_socket, self.exec, self.none)
        if sum(one is not None for one in found) != 1:
            msg = "Must have exactly one of httpGet, tcpSocket, exec and none."
            raise ValueError(msg)
        return self

    @property
    def without_port(self) -> str | None:
        """The handler that has no port and needs the port of the template, or `None`."""
        if self.http_get and self.http_get.port is None:
            return "httpGet"
        if self.tcp_socket and self.tcp_socket.port is None:
            return "tcpSocket"
        return None

    def handler(self, port: int | None) -> Manifest:
        """Return the handler with the default `port`, or an empty dict if it is disabled."""
        if self.http_get:
            fields = self.http_get
            request = {"path": fields.path, "port": fields.port or port, "scheme": fields.scheme}
            return {"httpGet": request}
        if self.tcp_socket:
            return {"tcpSocket": {"port": self.tcp_socket.port or port}}
        if self.exec:
            return {"exec": {"command": [escaped(word) for word in self.exec.command]}}
        return {}


def container_probes(
    readiness: Probe | None, startup: Probe | None, liveness: Probe | None, port: int | None
) -> Manifest:
    """Return the probes of the container.

    Without a readiness probe in the template, the pod is ready when its program listens on `port`.
    """
    found: dict[str, Any] = {}
    if readiness is None and port is not None:
        times = {"periodSeconds": 1, "failureThreshold": 6}
        found["readinessProbe"] = {"tcpSocket": {"port": port}, **times}
    given = {"readiness": readiness, "startup": startup, "liveness": liveness}
    for field, probe in given.items():
        if probe and (handler := probe.handler(port)):
            name, period, default = _KINDS[field]
            found[name] = {**handler, **_times(period, probe.seconds or default)}
    return found


def _times(period: int, seconds: int) -> dict[str, int]:
    period = min(period, seconds)
    return {
        "periodSeconds": period,
        "timeoutSeconds": TIMEOUT_SECONDS,
        "failureThreshold": -(-seconds // period),
    }
