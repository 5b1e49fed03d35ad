"""The declaration of a function: what runs when it is invoked, and within which limits. Pure."""

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import override

from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.text import quoted
from inventory.core.spec import Image, SpecName, Template

MAX_WORKERS: Final = 100
MAX_CONCURRENCY: Final = 64
MAX_TIMEOUT_SECONDS: Final = 3600
MAX_IDLE_SECONDS: Final = 24 * 3600
MAX_DELIVERIES: Final = 20

DEFAULT_BACKOFF_SECONDS: Final = (2, 10, 30)
REQUEST_ID: Final = "[a-z0-9_-]{1,48}"
_PATH: Final = r"/[A-Za-z0-9._~/-]{0,199}"
_SOCKET: Final = r"/run/serverless/[A-Za-z0-9._-]{1,60}"


def _request_id(text: str) -> str:
    if not re.fullmatch(REQUEST_ID, text):
        msg = (
            f"{quoted(text)} is not possible. Use 1 to 48 lower-case letters, digits, '_' and '-'."
        )
        raise ValueError(msg)
    return text


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


RequestID = Annotated[
    str,
    AfterValidator(_request_id),
    Field(
        json_schema_extra={"pattern": f"^{REQUEST_ID}$"},
        description="The function's name, unique in the tenant: 1 to 48 lower-case letters,"
        " digits, '_' and '-'.",
        examples=["echo"],
    ),
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
HttpPath = Annotated[
    str,
    AfterValidator(_http_path),
    Field(json_schema_extra={"pattern": f"^{_PATH}$"}),
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
        default="/run/serverless/framework.sock",
        alias="socketPath",
        json_schema_extra={"pattern": f"^{_SOCKET}$"},
        description="The unix socket that it listens on.",
        examples=["/run/serverless/framework.sock"],
    )


class FunctionSpec(SpecModel):
    """What runs when the function is invoked, on how many workers, and how it is retried."""

    spec_name: SpecName = Field(alias="specName", description="The GPU spec of its workers.")
    image: Image = Field(description="The image of its workers.")
    template: Template | None = None
    framework: Annotated[Framework, Field(description="Where it listens.")] = Framework()
    min_workers: int = Field(
        default=0,
        alias="minWorkers",
        ge=0,
        le=MAX_WORKERS,
        description="So many workers are kept without work.",
        examples=[0],
    )
    max_workers: int = Field(
        default=1,
        alias="maxWorkers",
        ge=1,
        le=MAX_WORKERS,
        description="There are never more workers.",
        examples=[2],
    )
    concurrency: int = Field(
        default=1,
        ge=1,
        le=MAX_CONCURRENCY,
        description="Invocations that one worker takes at the same time.",
        examples=[1],
    )
    idle_timeout_seconds: int = Field(
        default=300,
        alias="idleTimeoutSeconds",
        ge=1,
        le=MAX_IDLE_SECONDS,
        description="Without work for so long, workers are stopped.",
        examples=[300],
    )
    timeout_seconds: TimeoutSeconds = Field(default=30, alias="timeoutSeconds")
    max_deliver: int = Field(
        default=5,
        alias="maxDeliver",
        ge=1,
        le=MAX_DELIVERIES,
        description="An invocation is given to workers so many times before it is dead-lettered.",
        examples=[5],
    )
    backoff_seconds: Annotated[
        tuple[Annotated[int, Field(ge=1, le=MAX_TIMEOUT_SECONDS)], ...], Field(strict=False)
    ] = Field(
        default=DEFAULT_BACKOFF_SECONDS,
        alias="backoffSeconds",
        min_length=1,
        max_length=MAX_DELIVERIES,
        description="The pauses before an invocation that failed is given to a worker again; the"
        " last one repeats.",
        examples=[[2, 10, 30]],
    )

    @model_validator(mode="after")
    def fits_together(self) -> "FunctionSpec":
        """Two values may be fine and together none."""
        if self.min_workers > self.max_workers:
            raise self._fault("minWorkers", "Must not be more than maxWorkers.")
        is_given = "backoff_seconds" in self.model_fields_set
        if is_given and len(self.backoff_seconds) > self.max_deliver:
            raise self._fault("backoffSeconds", "Has more pauses than maxDeliver has deliveries.")
        return self

    @staticmethod
    def _fault(field: str, why: str) -> ValidationError:
        fault = PydanticCustomError("fits", "{why}", {"why": why})
        return ValidationError.from_exception_data(
            "FunctionSpec", [InitErrorDetails(type=fault, loc=(field,), input=None)]
        )

    @override
    def normalised(self) -> dict[str, Any]:
        """Return the JSON object for hash and row; blocks that say nothing are left out."""
        payload = super().normalised()
        return {
            key: value
            for key, value in payload.items()
            if value != {} or key not in {"template", "framework"}
        }

    @property
    def most_in_work(self) -> int:
        """Invocations that all workers together take at the same time."""
        return self.max_workers * self.concurrency


def parse_function_spec(raw: object) -> FunctionSpec:
    """Read the spec of a function's row.

    Raises:
        InvalidSpec: it breaks a rule.
    """
    return FunctionSpec.parse(raw)
