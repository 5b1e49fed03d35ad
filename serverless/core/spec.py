"""The declared spec of a function: image, framework, limits, retries. Pure."""

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import override

from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.text import quoted
from gpuplatform.workloads.function_worker import (
    DEFAULT_BACKOFF_SECONDS,
    BackoffSeconds,
    Concurrency,
    Framework,
    MaxDeliver,
    TimeoutSeconds,
)
from gpuplatform.workloads.images import ECHO_FUNCTION_IMAGE
from gpuplatform.workloads.template import Image, SpecName, Template

MAX_WORKERS: Final = 100
MAX_IDLE_SECONDS: Final = 24 * 3600

REQUEST_ID: Final = "[a-z0-9_-]{1,48}"


def _request_id(text: str) -> str:
    if not re.fullmatch(REQUEST_ID, text):
        msg = (
            f"{quoted(text)} is not a valid name. Use 1 to 48 lower-case letters, digits, '_' and"
            " '-'."
        )
        raise ValueError(msg)
    return text


RequestID = Annotated[
    str,
    AfterValidator(_request_id),
    Field(
        json_schema_extra={"pattern": f"^{REQUEST_ID}$"},
        description="Name of the function, unique within the tenant: 1 to 48 lower-case letters,"
        " digits, '_' and '-'.",
        examples=["echo"],
    ),
]


MinWorkers = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_WORKERS,
        description="Minimum number of workers, kept even when idle.",
        examples=[0],
    ),
]

MaxWorkers = Annotated[
    int, Field(ge=1, le=MAX_WORKERS, description="Maximum number of workers.", examples=[2])
]


IdleTimeoutSeconds = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_IDLE_SECONDS,
        description="Idle time in seconds after which workers are stopped, down to minWorkers.",
        examples=[300],
    ),
]


def check_workers(min_workers: int, max_workers: int) -> None:
    """Refuse limits that contradict each other.

    Raises:
        ValidationError: the minimum is larger than the maximum.
    """
    if min_workers > max_workers:
        raise _fault("minWorkers", "Must not be larger than maxWorkers.")


class FunctionSpec(SpecModel):
    """The spec of a function: its image, the limits of its workers, and its retries."""

    spec_name: SpecName = Field(alias="specName", description="GPU spec of the workers.")
    image: Image = Field(description="Image of the workers.", examples=[ECHO_FUNCTION_IMAGE])
    template: Template | None = Field(
        default=None, examples=[{"envs": [{"name": "MODEL", "value": "llama-3-8b"}]}]
    )
    framework: Annotated[Framework, Field(description="Where the function listens.")] = Framework()
    min_workers: MinWorkers = Field(default=0, alias="minWorkers")
    max_workers: MaxWorkers = Field(default=1, alias="maxWorkers")
    concurrency: Concurrency = 1
    idle_timeout_seconds: IdleTimeoutSeconds = Field(default=300, alias="idleTimeoutSeconds")
    timeout_seconds: TimeoutSeconds = Field(default=30, alias="timeoutSeconds")
    max_deliver: MaxDeliver = Field(default=5, alias="maxDeliver")
    backoff_seconds: BackoffSeconds = Field(
        default=DEFAULT_BACKOFF_SECONDS, alias="backoffSeconds"
    )

    @model_validator(mode="after")
    def check_consistency(self) -> "FunctionSpec":
        """Refuse values that contradict each other."""
        check_workers(self.min_workers, self.max_workers)
        is_given = "backoff_seconds" in self.model_fields_set
        if is_given and len(self.backoff_seconds) > self.max_deliver:
            raise _fault(
                "backoffSeconds", "Must not have more delays than maxDeliver has deliveries."
            )
        return self

    @override
    def normalised(self) -> dict[str, Any]:
        """Return the JSON object for hash and row, without empty blocks."""
        payload = super().normalised()
        return {
            key: value
            for key, value in payload.items()
            if value != {} or key not in {"template", "framework"}
        }

    @property
    def max_in_work(self) -> int:
        """Maximum number of invocations in progress, for all workers together."""
        return self.max_workers * self.concurrency


def _fault(field: str, why: str) -> ValidationError:
    fault = PydanticCustomError("fits", "{why}", {"why": why})
    return ValidationError.from_exception_data(
        "FunctionSpec", [InitErrorDetails(type=fault, loc=(field,), input=None)]
    )
