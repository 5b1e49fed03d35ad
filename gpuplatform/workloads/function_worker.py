"""The block `serverless` of a GPU unit that is a worker of a function. Pure.

Only the platform sets it; no request body has it. It contains everything that the sidecar needs:
the sidecar reads neither database nor cluster.
"""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.text import quoted
from gpuplatform.workloads.images import SIDECAR_IMAGE
from gpuplatform.workloads.template import Image

MAX_CONCURRENCY: Final = 64
MAX_TIMEOUT_SECONDS: Final = 3600
MAX_DELIVERIES: Final = 20
DEFAULT_BACKOFF_SECONDS: Final = (2, 10, 30)

SOCKET_DIRECTORY: Final = "/run/serverless"
_PATH: Final = r"/[A-Za-z0-9._~/-]{0,199}"
_SOCKET: Final = rf"{SOCKET_DIRECTORY}/[A-Za-z0-9._-]{{1,60}}"
_QUEUE_URL: Final = r"(nats|tls)://[A-Za-z0-9.:\[\]_-]{1,253}"


def _http_path(text: str) -> str:
    if not re.fullmatch(_PATH, text):
        msg = f"{quoted(text)} is not a path. Start with '/', and use letters, digits and '._~/-'."
        raise ValueError(msg)
    return text


def _socket_path(text: str) -> str:
    if not re.fullmatch(_SOCKET, text) or text.endswith(("/.", "/..")):
        msg = f"{quoted(text)} is not a socket path. Use a file directly in '/run/serverless/'."
        raise ValueError(msg)
    return text


def _queue_url(text: str) -> str:
    if not re.fullmatch(_QUEUE_URL, text):
        # The text is not repeated: it may contain a password.
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
        description="Maximum time in seconds that the function may take for one invocation.",
        examples=[30],
    ),
]
Concurrency = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_CONCURRENCY,
        description="Maximum number of invocations that one worker runs at the same time.",
        examples=[1],
    ),
]
MaxDeliver = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_DELIVERIES,
        description="Maximum number of deliveries of an invocation before it is dead-lettered.",
        examples=[5],
    ),
]
BackoffSeconds = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MAX_TIMEOUT_SECONDS)], ...],
    Field(
        strict=False,
        min_length=1,
        max_length=MAX_DELIVERIES,
        description="Delays in seconds before a failed invocation is delivered again; the last one"
        " repeats.",
        examples=[[2, 10, 30]],
    ),
]


class Framework(SpecModel):
    """Where the function listens inside its worker."""

    invoke_path: HttpPath = Field(
        default="/invoke",
        alias="invokePath",
        description="Path to which invocations are posted.",
        examples=["/invoke"],
    )
    health_path: HttpPath = Field(
        default="/healthz",
        alias="healthPath",
        description="Path that answers 200 when the function is ready for invocations.",
        examples=["/healthz"],
    )
    socket_path: Annotated[str, AfterValidator(_socket_path)] = Field(
        default=f"{SOCKET_DIRECTORY}/framework.sock",
        alias="socketPath",
        json_schema_extra={"pattern": f"^{_SOCKET}$"},
        description="Unix socket on which the function listens.",
        examples=[f"{SOCKET_DIRECTORY}/framework.sock"],
    )


class Serverless(SpecModel):
    """Makes a GPU unit a worker of a function."""

    function_id: int = Field(
        alias="functionID", ge=1, le=2**53 - 1, description="Id of the function.", examples=[1]
    )
    tenant: Annotated[str, AfterValidator(names.dns_label)] = Field(
        json_schema_extra={"pattern": f"^{names.DNS_LABEL}$", "maxLength": names.LABEL_MAX},
        description="Tenant of the function.",
        examples=["default"],
    )
    queue_url: Annotated[str, AfterValidator(_queue_url)] = Field(
        alias="queueURL",
        max_length=300,
        description="Address of the queue server, as pods reach it.",
        examples=["nats://nats.gpu-platform-system:4222"],
    )
    credentials_secret: Annotated[str, AfterValidator(names.dns_subdomain)] = Field(
        alias="credentialsSecret",
        max_length=names.SUBDOMAIN_MAX,
        description="Secret with the credentials for the queue; only the sidecar mounts it.",
        examples=["fn-1-queue"],
    )
    framework: Annotated[Framework, Field(description="Where the function listens.")] = Framework()
    concurrency: Concurrency = 1
    timeout_seconds: TimeoutSeconds = Field(default=30, alias="timeoutSeconds")
    max_deliver: MaxDeliver = Field(default=5, alias="maxDeliver")
    backoff_seconds: BackoffSeconds = Field(
        default=DEFAULT_BACKOFF_SECONDS, alias="backoffSeconds"
    )
    sidecar_image: Image = Field(
        default=SIDECAR_IMAGE, alias="sidecarImage", description="Image of the sidecar."
    )
