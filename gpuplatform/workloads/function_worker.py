"""The block of a GPU unit that is a worker of a function. Pure.

Only the platform's own services set it; no route takes it. The sidecar in the unit's pod is told
everything by it: it asks neither the database nor the cluster.
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
        msg = f"{quoted(text)} is no path. Start with '/', use letters, digits and '._~/-'."
        raise ValueError(msg)
    return text


def _socket_path(text: str) -> str:
    if not re.fullmatch(_SOCKET, text) or text.endswith(("/.", "/..")):
        msg = f"{quoted(text)} is not possible. The socket lies directly in '/run/serverless/'."
        raise ValueError(msg)
    return text


def _queue_url(text: str) -> str:
    if not re.fullmatch(_QUEUE_URL, text):
        # Not repeated: a password may be in it.
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
        description="How long the function may take for one invocation.",
        examples=[30],
    ),
]
Concurrency = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_CONCURRENCY,
        description="Invocations that one worker takes at the same time.",
        examples=[1],
    ),
]
MaxDeliver = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_DELIVERIES,
        description="An invocation is given to workers so many times before it is dead-lettered.",
        examples=[5],
    ),
]
BackoffSeconds = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MAX_TIMEOUT_SECONDS)], ...],
    Field(
        strict=False,
        min_length=1,
        max_length=MAX_DELIVERIES,
        description="The pauses before an invocation that failed is given to a worker again; the"
        " last one repeats.",
        examples=[[2, 10, 30]],
    ),
]


class Framework(SpecModel):
    """Where the function listens inside its worker."""

    invoke_path: HttpPath = Field(
        default="/invoke",
        alias="invokePath",
        description="The path that an invocation is posted to.",
        examples=["/invoke"],
    )
    health_path: HttpPath = Field(
        default="/healthz",
        alias="healthPath",
        description="The path that answers 200 once the function can be invoked.",
        examples=["/healthz"],
    )
    socket_path: Annotated[str, AfterValidator(_socket_path)] = Field(
        default=f"{SOCKET_DIRECTORY}/framework.sock",
        alias="socketPath",
        json_schema_extra={"pattern": f"^{_SOCKET}$"},
        description="The unix socket that it listens on.",
        examples=[f"{SOCKET_DIRECTORY}/framework.sock"],
    )


class Serverless(SpecModel):
    """What makes a unit a worker of a function."""

    function_id: int = Field(
        alias="functionID", ge=1, le=2**53 - 1, description="The function's number.", examples=[1]
    )
    tenant: Annotated[str, AfterValidator(names.dns_label)] = Field(
        json_schema_extra={"pattern": f"^{names.DNS_LABEL}$", "maxLength": names.LABEL_MAX},
        description="Whose function it is.",
        examples=["default"],
    )
    queue_url: Annotated[str, AfterValidator(_queue_url)] = Field(
        alias="queueURL",
        max_length=300,
        description="Where the queue is, as pods reach it.",
        examples=["nats://nats.gpu-platform-system:4222"],
    )
    credentials_secret: Annotated[str, AfterValidator(names.dns_subdomain)] = Field(
        alias="credentialsSecret",
        max_length=names.SUBDOMAIN_MAX,
        description="The Secret with the credentials for the queue; only the sidecar gets it.",
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
        default=SIDECAR_IMAGE, alias="sidecarImage", description="The image of the sidecar."
    )
