"""The spec of a function: its image, its framework, its limits and its retries. Pure."""

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import override

from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.text import quoted
from gpuplatform.images import ECHO_IMAGE
from gpuplatform.workloads.function_worker import (
    DEFAULT_BACKOFF_SECONDS,
    BackoffSeconds,
    Concurrency,
    Framework,
    MaxDeliver,
    TimeoutSeconds,
)
from gpuplatform.workloads.template import EndlessTemplate, Image, SpecName
from serverless.core.webhooks import OnDone

MAX_WORKERS: Final = 100
MAX_IDLE_SECONDS: Final = 24 * 3600
MAX_EXPIRY_SECONDS: Final = 7 * 24 * 3600

REQUEST_ID: Final = "[a-z0-9_-]{1,48}"
FRAMEWORK: Final = "Paths, and port or socket, on which the function listens."
ON_DONE: Final = "Webhook of each invocation that does not specify its own."


def _request_id(text: str) -> str:
    if not re.fullmatch(REQUEST_ID, text):
        msg = (
            f"{quoted(text)} is not a valid name. Use 1 to 48 lowercase letters, digits, '_' or"
            " '-'."
        )
        raise ValueError(msg)
    return text


RequestID = Annotated[
    str,
    AfterValidator(_request_id),
    Field(
        json_schema_extra={"pattern": f"^{REQUEST_ID}$"},
        description="Name of the function, unique within the tenant: 1 to 48 lowercase letters,"
        " digits, '_' or '-'.",
        examples=["echo"],
    ),
]


MinWorkers = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_WORKERS,
        description="Minimum number of workers. The platform keeps them even if they are idle.",
        examples=[0],
    ),
]

MaxWorkers = Annotated[
    int, Field(ge=1, le=MAX_WORKERS, description="Maximum number of workers.", examples=[2])
]


ExpiresInSeconds = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_EXPIRY_SECONDS,
        description="Maximum time in seconds until a worker starts an accepted invocation, which"
        " is `Expired` afterwards. 0 means no limit.",
        examples=[3600],
    ),
]

IdleTimeoutSeconds = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_IDLE_SECONDS,
        description="Time in seconds after which idle workers are stopped, down to `minWorkers`.",
        examples=[300],
    ),
]


def check_workers(min_workers: int, max_workers: int) -> None:
    """Check that the limits do not contradict each other.

    Raises:
        ValidationError: If the minimum is larger than the maximum.
    """
    if min_workers > max_workers:
        raise _invalid("minWorkers", "Must not be larger than maxWorkers.")


class FunctionSpec(SpecModel):
    """The spec of a function: its image, the limits of its workers, and its retries."""

    model_config = ConfigDict(alias_generator=to_camel)

    spec_name: SpecName = Field(description="GPU spec of the workers.")
    image: Image = Field(description="Image of the workers.", examples=[ECHO_IMAGE])
    template: EndlessTemplate | None = Field(
        default=None, examples=[{"envs": [{"name": "MODEL", "value": "llama-3-8b"}]}]
    )
    framework: Annotated[Framework, Field(description=FRAMEWORK)] = Framework()
    min_workers: MinWorkers = 0
    max_workers: MaxWorkers = 1
    concurrency: Concurrency = 1
    idle_timeout_seconds: IdleTimeoutSeconds = 300
    timeout_seconds: TimeoutSeconds = 30
    expires_in_seconds: ExpiresInSeconds = 0
    on_done: Annotated[OnDone, Field(description=ON_DONE, json_schema_extra={"default": {}})] = (
        OnDone()
    )
    max_deliver: MaxDeliver = 5
    backoff_seconds: BackoffSeconds = DEFAULT_BACKOFF_SECONDS

    @model_validator(mode="after")
    def check_consistency(self) -> "FunctionSpec":
        """Reject values that contradict each other."""
        check_workers(self.min_workers, self.max_workers)
        is_given = "backoff_seconds" in self.model_fields_set
        if is_given and len(self.backoff_seconds) > self.max_deliver:
            raise _invalid("backoffSeconds", "Must not have more entries than maxDeliver.")
        return self

    @override
    def normalised(self) -> dict[str, Any]:
        """Return the canonical JSON object of the spec, without defaults and empty blocks."""
        payload = super().normalised()
        return {
            key: value
            for key, value in payload.items()
            if value != {} or key not in {"template", "framework", "onDone"}
        }

    @property
    def max_in_progress(self) -> int:
        """Maximum number of invocations in progress on all workers together."""
        return self.max_workers * self.concurrency


def _invalid(field: str, message: str) -> ValidationError:
    error = PydanticCustomError("fits", "{message}", {"message": message})
    return ValidationError.from_exception_data(
        "FunctionSpec", [InitErrorDetails(type=error, loc=(field,), input=None)]
    )
