"""The declaration of a function: what runs when it is invoked, and within which limits. Pure."""

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
from gpuplatform.workloads.template import Image, SpecName, Template

MAX_WORKERS: Final = 100
MAX_IDLE_SECONDS: Final = 24 * 3600

REQUEST_ID: Final = "[a-z0-9_-]{1,48}"


def _request_id(text: str) -> str:
    if not re.fullmatch(REQUEST_ID, text):
        msg = (
            f"{quoted(text)} is not possible. Use 1 to 48 lower-case letters, digits, '_' and '-'."
        )
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


MinWorkers = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_WORKERS,
        description="So many workers are kept without work.",
        examples=[0],
    ),
]

MaxWorkers = Annotated[
    int,
    Field(ge=1, le=MAX_WORKERS, description="There are never more workers.", examples=[2]),
]


def check_workers(fewest: int, most: int) -> None:
    """Refuse limits that contradict each other.

    Raises:
        ValidationError: there would have to be more workers than there may be.
    """
    if fewest > most:
        raise _fault("minWorkers", "Must not be more than maxWorkers.")


class FunctionSpec(SpecModel):
    """What runs when the function is invoked, on how many workers, and how it is retried."""

    spec_name: SpecName = Field(alias="specName", description="The GPU spec of its workers.")
    image: Image = Field(description="The image of its workers.")
    template: Template | None = None
    framework: Annotated[Framework, Field(description="Where it listens.")] = Framework()
    min_workers: MinWorkers = Field(default=0, alias="minWorkers")
    max_workers: MaxWorkers = Field(default=1, alias="maxWorkers")
    concurrency: Concurrency = 1
    idle_timeout_seconds: int = Field(
        default=300,
        alias="idleTimeoutSeconds",
        ge=1,
        le=MAX_IDLE_SECONDS,
        description="Without work for so long, workers are stopped.",
        examples=[300],
    )
    timeout_seconds: TimeoutSeconds = Field(default=30, alias="timeoutSeconds")
    max_deliver: MaxDeliver = Field(default=5, alias="maxDeliver")
    backoff_seconds: BackoffSeconds = Field(
        default=DEFAULT_BACKOFF_SECONDS, alias="backoffSeconds"
    )

    @model_validator(mode="after")
    def fits_together(self) -> "FunctionSpec":
        """Two values may be fine and together none."""
        check_workers(self.min_workers, self.max_workers)
        is_given = "backoff_seconds" in self.model_fields_set
        if is_given and len(self.backoff_seconds) > self.max_deliver:
            raise _fault("backoffSeconds", "Has more pauses than maxDeliver has deliveries.")
        return self

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


def _fault(field: str, why: str) -> ValidationError:
    fault = PydanticCustomError("fits", "{why}", {"why": why})
    return ValidationError.from_exception_data(
        "FunctionSpec", [InitErrorDetails(type=fault, loc=(field,), input=None)]
    )
