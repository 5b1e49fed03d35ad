"""Request bodies of the function and invocation routes. Pure."""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from typing_extensions import override

from gpuplatform.errors import FieldError, TooLarge
from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel, invalid_spec
from gpuplatform.formats.request import OperationBody
from gpuplatform.formats.text import quoted
from gpuplatform.images import ECHO_IMAGE
from gpuplatform.workloads.function_worker import (
    BackoffSeconds,
    Concurrency,
    Framework,
    MaxDeliver,
    TimeoutSeconds,
)
from gpuplatform.workloads.template import EndlessTemplate, Image, SpecName
from serverless.core.spec import (
    FRAMEWORK,
    ON_DONE,
    ExpiresInSeconds,
    FunctionSpec,
    IdleTimeoutSeconds,
    MaxWorkers,
    MinWorkers,
    RequestID,
    check_workers,
)
from serverless.core.webhooks import OnDone
from serverless.queue.messages import MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES

DEFAULT_CONTENT_TYPE: Final = "application/json"
MAX_HEADERS: Final = 64
DEFAULT_OVERLAP_SECONDS: Final = 24 * 3600
MAX_OVERLAP_SECONDS: Final = 7 * 24 * 3600

_NAME: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}"
_VALUE: Final = r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?|"
_MEDIA_TYPE: Final = r"[A-Za-z0-9!#$&^_.+-]{1,60}/[A-Za-z0-9!#$&^_.+-]{1,60}(; ?[ -~]{1,60})?"
_RESERVED: Final = frozenset(
    {
        *("connection", "content-length", "content-type", "expect", "host", "keep-alive"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
_RESERVED_PREFIX: Final = "x-invocation-"


def _content_type(text: str) -> str:
    if len(text) > 127 or not re.fullmatch(_MEDIA_TYPE, text):
        msg = f"{quoted(text)} is not a media type. Use a media type such as 'application/json'."
        raise ValueError(msg)
    return text


def _headers(headers: dict[str, str]) -> dict[str, str]:
    """Reject headers that would not arrive unchanged, and headers that the platform sets."""
    names: set[str] = set()
    for name, text in headers.items():
        # Servers that convert headers to environment variables do not distinguish '-' and '_'.
        lower = name.lower().replace("_", "-")
        if not re.fullmatch(_NAME, name) or not re.fullmatch(_VALUE, text):
            msg = f"The header {quoted(name)} contains invalid characters. Remove them."
            raise ValueError(msg)
        if lower in _RESERVED or lower.startswith(_RESERVED_PREFIX):
            msg = f"The platform sets the header {quoted(name)}. Remove it."
            raise ValueError(msg)
        if lower in names:
            msg = f"The header {quoted(name)} must not be specified more than once."
            raise ValueError(msg)
        names.add(lower)
    if sum(len(name) + len(text) for name, text in headers.items()) > MAX_HEADER_BYTES:
        msg = f"Must not have more than {MAX_HEADER_BYTES} bytes in total."
        raise ValueError(msg)
    return headers


InvocationID = Annotated[
    str,
    AfterValidator(names.operation_id),
    Field(
        json_schema_extra={"pattern": f"^{names.OPERATION_ID}$"},
        description="Idempotency key of the invocation. By default, the platform generates it."
        " Repeating the request returns the stored invocation; using the key with another payload,"
        " mode, header, timeout, expiry or webhook is a conflict.",
        examples=["order-4711"],
    ),
]


class _FunctionBody(OperationBody):
    """The body of a request on a function, whose name is in the body or in the URL."""

    request_id: RequestID | None = Field(default=None, alias="requestID", examples=["greeter"])

    @override
    def payload(self) -> dict[str, Any]:
        """Return the fields that are stored and hashed: not the operationID and the name."""
        payload = super().payload()
        payload.pop("requestID", None)
        return payload


class FunctionCreate(FunctionSpec, _FunctionBody):  # Fields of the last base come first.
    """The request body that creates a function."""

    request_id: RequestID = Field(alias="requestID", examples=["greeter"])

    def spec(self) -> FunctionSpec:
        """Return the spec."""
        return FunctionSpec.parse(self.payload())


class FunctionUpdate(_FunctionBody):
    """The request body that changes a function. Omitted fields are unchanged."""

    model_config = ConfigDict(alias_generator=to_camel)

    spec_name: SpecName | None = Field(default=None, description="GPU spec of the workers.")
    image: Image | None = Field(
        default=None, description="Image of the workers.", examples=[ECHO_IMAGE]
    )
    template: EndlessTemplate | None = Field(
        default=None, examples=[{"envs": [{"name": "MODEL", "value": "llama-3-8b"}]}]
    )
    framework: Annotated[Framework, Field(description=FRAMEWORK)] | None = None
    min_workers: MinWorkers | None = None
    max_workers: MaxWorkers | None = None
    concurrency: Concurrency | None = None
    idle_timeout_seconds: IdleTimeoutSeconds | None = None
    timeout_seconds: TimeoutSeconds | None = None
    expires_in_seconds: ExpiresInSeconds | None = None
    on_done: Annotated[OnDone, Field(description=ON_DONE)] | None = None
    max_deliver: MaxDeliver | None = None
    backoff_seconds: BackoffSeconds | None = None

    @model_validator(mode="after")
    def changes_something(self) -> "FunctionUpdate":
        """Reject a change without any field."""
        if not self.model_fields_set - {"operation_id", "request_id"}:
            msg = "Specify at least one field to change."
            raise ValueError(msg)
        return self

    def check_request_id(self, name: str) -> None:
        """Check that the body and the URL specify the same function.

        Raises:
            InvalidSpec: If the body specifies another function.
        """
        if self.request_id not in {None, name}:
            raise invalid_spec([FieldError("requestID", f"Must be '{name}' or omitted.")])

    def applied_to(self, spec: Mapping[str, Any]) -> FunctionSpec:
        """Return a stored spec with the specified fields replaced.

        The stored spec can violate rules if the change replaces the invalid fields.

        Raises:
            InvalidSpec: If the result violates a rule.
        """
        return FunctionSpec.parse({**spec, **self.payload()})


class FunctionScale(OperationBody):
    """The request body that changes the limits for the number of workers.

    Running workers are not replaced.
    """

    min_workers: MinWorkers = Field(alias="minWorkers")
    max_workers: MaxWorkers = Field(alias="maxWorkers")

    @model_validator(mode="after")
    def check_consistency(self) -> "FunctionScale":
        """Reject values that contradict each other."""
        check_workers(self.min_workers, self.max_workers)
        return self


class InvocationCreate(SpecModel):
    """The request body that invokes a function."""

    invocation_id: InvocationID | None = Field(default=None, alias="invocationID")
    request_id: RequestID = Field(alias="requestID")
    mode: Literal["async", "sync"] = Field(
        default="async", description="Whether the caller waits for the result.", examples=["async"]
    )
    content_type: Annotated[str, AfterValidator(_content_type)] = Field(
        default=DEFAULT_CONTENT_TYPE,
        alias="contentType",
        max_length=127,
        description="Media type of the payload.",
        examples=[DEFAULT_CONTENT_TYPE],
    )
    headers: Annotated[dict[str, str], AfterValidator(_headers)] = Field(
        default_factory=dict,
        max_length=MAX_HEADERS,
        description="Headers that are passed to the function, at most 32 KiB in total.",
        examples=[{"X-Trace": "4711"}],
    )
    payload: str = Field(
        description="Body that is passed to the function, at most 512 KiB.",
        examples=['{"text": "hello"}'],
    )
    payload_encoding: Literal["text", "base64"] = Field(
        default="text",
        alias="payloadEncoding",
        description="Encoding of `payload`. Use `base64` for a payload that is not text.",
        examples=["text"],
    )
    timeout_seconds: TimeoutSeconds | None = Field(default=None, alias="timeoutSeconds")
    expires_in_seconds: ExpiresInSeconds | None = Field(default=None, alias="expiresInSeconds")
    on_done: OnDone | None = Field(
        default=None,
        alias="onDone",
        description="Webhook that is sent when the invocation has ended.",
    )

    def payload_bytes(self) -> bytes:
        """Return the body that is passed to the function.

        Raises:
            InvalidSpec: If the payload cannot be decoded.
            TooLarge: If the payload exceeds the limit.
        """
        try:
            if self.payload_encoding == "base64":
                decoded = base64.b64decode(self.payload, validate=True)
            else:
                decoded = self.payload.encode()
        except (binascii.Error, ValueError) as error:
            invalid = FieldError("payload", f"Must be valid {self.payload_encoding}.")
            raise invalid_spec([invalid]) from error
        if len(decoded) > MAX_PAYLOAD_BYTES:
            msg = "The payload is larger than 512 KiB. Store it elsewhere and send its URL."
            raise TooLarge(msg, details=[FieldError("payload", "Must not exceed 512 KiB.")])
        return decoded

    def hashed(self) -> dict[str, Any]:
        """Return the fields that are hashed. Both encodings of a payload have the same hash."""
        hashed = self.normalised()
        for key in ("invocationID", "requestID", "payloadEncoding"):
            hashed.pop(key, None)
        return {**hashed, "payload": hashlib.sha256(self.payload_bytes()).hexdigest()}


class InvocationAction(OperationBody):
    """The request body that cancels or replays an invocation."""


class WebhookSecretCreate(SpecModel):
    """The request body that creates a webhook secret."""

    previous_expires_in_seconds: int = Field(
        default=DEFAULT_OVERLAP_SECONDS,
        alias="previousExpiresInSeconds",
        ge=0,
        le=MAX_OVERLAP_SECONDS,
        description="Time in seconds for which webhooks are also signed with the earlier secrets.",
        examples=[DEFAULT_OVERLAP_SECONDS],
    )
