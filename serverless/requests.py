"""The request bodies of functions and invocations. Pure."""

import base64
import binascii
import hashlib
import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from gpuplatform.errors import FieldError, TooLarge
from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel, invalid_spec
from gpuplatform.formats.operation_id import OperationID
from gpuplatform.formats.text import quoted
from gpuplatform.workloads.function_worker import (
    BackoffSeconds,
    Concurrency,
    Framework,
    MaxDeliver,
    TimeoutSeconds,
)
from gpuplatform.workloads.images import ECHO_FUNCTION_IMAGE
from gpuplatform.workloads.template import Image, SpecName, Template
from serverless.core.spec import (
    FunctionSpec,
    IdleTimeoutSeconds,
    MaxWorkers,
    MinWorkers,
    RequestID,
    check_workers,
)
from serverless.queue.messages import MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES

DEFAULT_CONTENT_TYPE: Final = "application/json"
MAX_HEADERS: Final = 64

_NAME: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}"
_VALUE: Final = r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?|"
_MEDIA_TYPE: Final = r"[A-Za-z0-9!#$&^_.+-]{1,60}/[A-Za-z0-9!#$&^_.+-]{1,60}(; ?[ -~]{1,60})?"
_ADDRESS: Final = frozenset({"operationID", "requestID"})
_RESERVED: Final = frozenset(
    {
        *("connection", "content-length", "content-type", "expect", "host", "keep-alive"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
_RESERVED_PREFIX: Final = "x-invocation-"


def _content_type(text: str) -> str:
    if len(text) > 127 or not re.fullmatch(_MEDIA_TYPE, text):
        msg = f"{quoted(text)} is not a media type such as 'application/json'."
        raise ValueError(msg)
    return text


def _headers(headers: dict[str, str]) -> dict[str, str]:
    """Refuse headers that would not arrive unchanged, or that the platform sets."""
    names: set[str] = set()
    for name, text in headers.items():
        # Servers that pass headers on as environment variables do not distinguish the two.
        lower = name.lower().replace("_", "-")
        if not re.fullmatch(_NAME, name) or not re.fullmatch(_VALUE, text):
            msg = f"The header {quoted(name)} contains invalid characters."
            raise ValueError(msg)
        if lower in _RESERVED or lower.startswith(_RESERVED_PREFIX):
            msg = f"The header {quoted(name)} is set by the platform."
            raise ValueError(msg)
        if lower in names:
            msg = f"The header {quoted(name)} may be given only once."
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
        description="Idempotency key of the invocation. A repeated request returns the first"
        " invocation; another payload, mode, header or timeout with the same key is a conflict."
        " Generated if omitted.",
        examples=["order-4711"],
    ),
]


def _without_address(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a body without the fields that address the request."""
    return {key: value for key, value in payload.items() if key not in _ADDRESS}


class _CreateFields(SpecModel):
    operation_id: OperationID = Field(alias="operationID")
    request_id: RequestID = Field(alias="requestID", examples=["greeter"])


class FunctionCreate(FunctionSpec, _CreateFields):  # Fields of the last base come first.
    """Creates a function."""

    def spec(self) -> FunctionSpec:
        """Return the spec."""
        return FunctionSpec.parse(self.payload())

    def payload(self) -> dict[str, Any]:
        """Return the fields that the request hash covers in addition to the name."""
        return _without_address(self.normalised())


class FunctionUpdate(SpecModel):
    """Changes a function: a given field replaces, an omitted one stays."""

    operation_id: OperationID = Field(alias="operationID")
    request_id: RequestID | None = Field(default=None, alias="requestID", examples=["greeter"])
    spec_name: SpecName | None = Field(
        default=None, alias="specName", description="GPU spec of the workers."
    )
    image: Image | None = Field(
        default=None, description="Image of the workers.", examples=[ECHO_FUNCTION_IMAGE]
    )
    template: Template | None = Field(
        default=None, examples=[{"envs": [{"name": "MODEL", "value": "llama-3-8b"}]}]
    )
    framework: Annotated[Framework, Field(description="Where the function listens.")] | None = None
    min_workers: MinWorkers | None = Field(default=None, alias="minWorkers")
    max_workers: MaxWorkers | None = Field(default=None, alias="maxWorkers")
    concurrency: Concurrency | None = None
    idle_timeout_seconds: IdleTimeoutSeconds | None = Field(
        default=None, alias="idleTimeoutSeconds"
    )
    timeout_seconds: TimeoutSeconds | None = Field(default=None, alias="timeoutSeconds")
    max_deliver: MaxDeliver | None = Field(default=None, alias="maxDeliver")
    backoff_seconds: BackoffSeconds | None = Field(default=None, alias="backoffSeconds")

    @model_validator(mode="after")
    def changes_something(self) -> "FunctionUpdate":
        """Refuse an operation that changes nothing."""
        if not self.model_fields_set - {"operation_id", "request_id"}:
            msg = "Give at least one field to change."
            raise ValueError(msg)
        return self

    def check_request_id(self, name: str) -> None:
        """Refuse a body that names another function than the URL.

        Raises:
            InvalidSpec: it does.
        """
        if self.request_id not in {None, name}:
            fault = FieldError("requestID", f"Must be '{name}', or omitted.")
            raise invalid_spec([fault])

    def payload(self) -> dict[str, Any]:
        """Return the given fields, which the request hash covers; an empty block replaces."""
        return _without_address(self.normalised())

    def applied_to(self, spec: FunctionSpec) -> FunctionSpec:
        """Return `spec` with the given fields replaced.

        Raises:
            InvalidSpec: the result breaks a rule.
        """
        return FunctionSpec.parse({**spec.normalised(), **self.payload()})


class FunctionScale(SpecModel):
    """Changes the limits of the number of workers; running workers are not replaced."""

    operation_id: OperationID = Field(alias="operationID")
    min_workers: MinWorkers = Field(alias="minWorkers")
    max_workers: MaxWorkers = Field(alias="maxWorkers")

    @model_validator(mode="after")
    def check_consistency(self) -> "FunctionScale":
        """Refuse values that contradict each other."""
        check_workers(self.min_workers, self.max_workers)
        return self

    def limits(self) -> dict[str, int]:
        """Return the fields of the function's spec that it changes."""
        return {"minWorkers": self.min_workers, "maxWorkers": self.max_workers}


class InvocationCreate(SpecModel):
    """Invokes a function."""

    invocation_id: InvocationID | None = Field(default=None, alias="invocationID")
    request_id: RequestID = Field(alias="requestID")
    mode: Literal["async", "sync"] = Field(
        default="async", description="Whether the caller waits for the result.", examples=["async"]
    )
    content_type: Annotated[str, AfterValidator(_content_type)] = Field(
        default=DEFAULT_CONTENT_TYPE,
        alias="contentType",
        max_length=127,
        description="The media type of the payload.",
        examples=[DEFAULT_CONTENT_TYPE],
    )
    headers: Annotated[dict[str, str], AfterValidator(_headers)] = Field(
        default_factory=dict,
        max_length=MAX_HEADERS,
        description="Headers passed to the function. Maximum size: 32 KiB in total.",
        examples=[{"X-Trace": "4711"}],
    )
    payload: str = Field(
        description="Body passed to the function. Maximum size: 512 KiB.",
        examples=['{"text": "hello"}'],
    )
    payload_encoding: Literal["text", "base64"] = Field(
        default="text",
        alias="payloadEncoding",
        description="`base64` for a payload that is not text.",
        examples=["text"],
    )
    timeout_seconds: TimeoutSeconds | None = Field(default=None, alias="timeoutSeconds")

    def payload_bytes(self) -> bytes:
        """Return the body passed to the function.

        Raises:
            InvalidSpec: the payload cannot be decoded.
            TooLarge: it exceeds the limit.
        """
        try:
            if self.payload_encoding == "base64":
                decoded = base64.b64decode(self.payload, validate=True)
            else:
                decoded = self.payload.encode()
        except (binascii.Error, ValueError) as error:
            fault = FieldError("payload", f"Must be valid {self.payload_encoding}.")
            raise invalid_spec([fault]) from error
        if len(decoded) > MAX_PAYLOAD_BYTES:
            msg = "The payload is larger than 512 KiB. Store it elsewhere and send its address."
            raise TooLarge(msg, details=[FieldError("payload", "Must not exceed 512 KiB.")])
        return decoded

    def hashed(self) -> dict[str, Any]:
        """Return the fields that the request hash covers; both encodings give the same hash."""
        hashed = self.normalised()
        for key in ("invocationID", "requestID", "payloadEncoding"):
            hashed.pop(key, None)
        return {**hashed, "payload": hashlib.sha256(self.payload_bytes()).hexdigest()}


class InvocationAction(SpecModel):
    """Cancels or replays an invocation."""

    operation_id: OperationID = Field(alias="operationID")
