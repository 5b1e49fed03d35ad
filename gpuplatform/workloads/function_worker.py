"""The field `serverless` of a GPU unit that is a worker of a function. Pure.

Only the platform sets the field; no request contains it. It contains all settings of the sidecar,
because the sidecar reads neither the database nor the cluster.
"""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.text import quoted
from gpuplatform.formats.validations import cel, validated
from gpuplatform.workloads.template import Image

MAX_CONCURRENCY: Final = 64
MAX_TIMEOUT_SECONDS: Final = 3600
MAX_DELIVERIES: Final = 20
DEFAULT_BACKOFF_SECONDS: Final = (2, 10, 30)

SOCKET_DIRECTORY: Final = "/run/serverless"
DEFAULT_SOCKET_PATH: Final = f"{SOCKET_DIRECTORY}/framework.sock"
SIDECAR_PORT: Final = 8091
"""Port of the sidecar's health server. The containers of a pod share their ports."""

_PATH: Final = r"/[A-Za-z0-9._~/-]{0,199}"
_PATH_AND_QUERY: Final = (
    rf"{_PATH}(\?([A-Za-z0-9._~/?:@!$&'()*+,;=-]|%[0-9A-Fa-f]{{2}}){{0,199}})?"
)
_SOCKET: Final = rf"{SOCKET_DIRECTORY}/[A-Za-z0-9._-]{{1,60}}"
_QUEUE_URL: Final = r"(nats|tls)://[A-Za-z0-9.:\[\]_-]{1,253}"


def _http_path(text: str) -> str:
    if not re.fullmatch(_PATH, text):
        msg = f"{quoted(text)} is not a path. Start with '/', and use letters, digits and '._~/-'."
        raise ValueError(msg)
    return text


def _path_and_query(text: str) -> str:
    if not re.fullmatch(_PATH_AND_QUERY, text):
        msg = (
            f"{quoted(text)} is not a path. Start with '/', and use letters, digits and '._~/-'."
            " A query can follow after '?', with special characters percent-encoded."
        )
        raise ValueError(msg)
    return text


def _framework_port(port: int) -> int:
    if port == SIDECAR_PORT:
        msg = f"The sidecar uses the port {SIDECAR_PORT}. Use another port."
        raise ValueError(msg)
    return port


def _socket_path(text: str) -> str:
    if not re.fullmatch(_SOCKET, text) or text.endswith(("/.", "/..")):
        msg = f"{quoted(text)} is not a socket path. Use a file directly in '/run/serverless/'."
        raise ValueError(msg)
    return text


def _queue_url(text: str) -> str:
    if not re.fullmatch(_QUEUE_URL, text):
        # The message does not repeat the text, which can contain a password.
        msg = "Must be 'nats://HOST:PORT' or 'tls://HOST:PORT', without a user."
        raise ValueError(msg)
    return text


HttpPath = Annotated[
    str,
    AfterValidator(_http_path),
    Field(json_schema_extra={"pattern": f"^{_PATH}$"}),
]
TimeoutSeconds = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Maximum duration of an invocation in seconds.",
        examples=[30],
    ),
]
Concurrency = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_CONCURRENCY,
        description="Maximum number of concurrent invocations of a worker.",
        examples=[1],
    ),
]
MaxDeliver = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_DELIVERIES,
        description="Maximum number of deliveries of an invocation. After the last one it becomes"
        " a dead letter.",
        examples=[5],
    ),
]
BackoffSeconds = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MAX_TIMEOUT_SECONDS)], ...],
    Field(
        strict=False,
        min_length=1,
        max_length=MAX_DELIVERIES,
        description="Delays in seconds before a failed invocation is delivered again, in order."
        " The last delay is repeated.",
        examples=[[2, 10, 30]],
    ),
]


class Framework(SpecModel):
    """The address at which the framework serves the function in the worker."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            cel(
                "!has(self.port) || self.port == 0 || !has(self.socketPath)"
                f" || self.socketPath == '{DEFAULT_SOCKET_PATH}'",
                "Must be omitted if port is specified.",
                field_path=".socketPath",
            )
        )
    )

    port: Annotated[int, AfterValidator(_framework_port)] = Field(
        default=0,
        ge=0,
        le=65535,
        json_schema_extra=validated(
            cel(f"self != {SIDECAR_PORT}", f"The sidecar uses the port {SIDECAR_PORT}.")
        ),
        description="TCP port on which the function listens; 0 if it listens on the Unix socket."
        f" The port {SIDECAR_PORT} is reserved for the sidecar.",
        examples=[0],
    )
    invoke_path: Annotated[str, AfterValidator(_path_and_query)] = Field(
        default="/invoke",
        alias="invokePath",
        json_schema_extra={"pattern": f"^{_PATH_AND_QUERY}$"},
        description="HTTP path to which the sidecar sends invocations. It can contain a query.",
        examples=["/invoke"],
    )
    method: Literal["POST", "PUT", "PATCH", "GET"] = Field(
        default="POST",
        description="HTTP method with which the sidecar sends invocations.",
        examples=["POST"],
    )
    health_path: HttpPath = Field(
        default="/healthz",
        alias="healthPath",
        description="HTTP path that returns 200 if the function is ready for invocations.",
        examples=["/healthz"],
    )
    socket_path: Annotated[str, AfterValidator(_socket_path)] = Field(
        default=DEFAULT_SOCKET_PATH,
        alias="socketPath",
        json_schema_extra={"pattern": f"^{_SOCKET}$"},
        description="Path of the Unix socket on which the function listens. It must be a file in"
        " /run/serverless.",
        examples=[DEFAULT_SOCKET_PATH],
    )

    @field_validator("socket_path")
    @classmethod
    def check_one_address(cls, socket_path: str, info: ValidationInfo) -> str:
        """Reject a socket in addition to a port."""
        if info.data.get("port") and socket_path != DEFAULT_SOCKET_PATH:
            msg = "Must be omitted if port is specified."
            raise ValueError(msg)
        return socket_path


class Serverless(SpecModel):
    """The settings of a GPU unit that is a worker of a function."""

    function_id: int = Field(
        alias="functionID", ge=1, le=10**18 - 1, description="ID of the function.", examples=[1]
    )
    tenant: Annotated[str, AfterValidator(names.dns_label)] = Field(
        json_schema_extra={"pattern": f"^{names.DNS_LABEL}$", "maxLength": names.LABEL_MAX},
        description="Name of the tenant that owns the function.",
        examples=["default"],
    )
    queue_url: Annotated[str, AfterValidator(_queue_url)] = Field(
        alias="queueURL",
        max_length=300,
        description="URL of the NATS server that pods connect to. It must not contain a user.",
        examples=["nats://nats.gpu-platform-system:4222"],
    )
    credentials_secret: Annotated[str, AfterValidator(names.dns_subdomain)] = Field(
        alias="credentialsSecret",
        max_length=names.SUBDOMAIN_MAX,
        description="Name of the Secret with the NATS credentials. Only the sidecar mounts it.",
        examples=["fn-1-queue"],
    )
    framework: Annotated[
        Framework, Field(description="Address at which the function listens in the worker.")
    ] = Framework()
    concurrency: Concurrency = 1
    timeout_seconds: TimeoutSeconds = Field(default=30, alias="timeoutSeconds")
    max_deliver: MaxDeliver = Field(default=5, alias="maxDeliver")
    backoff_seconds: BackoffSeconds = Field(
        default=DEFAULT_BACKOFF_SECONDS, alias="backoffSeconds"
    )
    sidecar_image: Image | None = Field(
        default=None,
        alias="sidecarImage",
        description="Container image of the sidecar. Defaults to the setting of the platform.",
    )
