"""The bodies of the serverless routes: the declared spec plus what a request adds. Pure."""

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
from gpuplatform.workloads.function_worker import TimeoutSeconds
from serverless.core.spec import (
    FunctionSpec,
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
_RESERVED: Final = frozenset(
    {
        *("connection", "content-length", "content-type", "expect", "host", "keep-alive"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
_RESERVED_PREFIX: Final = "x-invocation-"


def _content_type(text: str) -> str:
    if len(text) > 127 or not re.fullmatch(_MEDIA_TYPE, text):
        msg = f"{quoted(text)} is no media type such as 'application/json'."
        raise ValueError(msg)
    return text


def _headers(headers: dict[str, str]) -> dict[str, str]:
    """Refuse what would not arrive as it was sent, or would change how the message is read."""
    seen: set[str] = set()
    for name, text in headers.items():
        # Servers that hand headers on as variables cannot tell the two apart.
        lower = name.lower().replace("_", "-")
        if not re.fullmatch(_NAME, name) or not re.fullmatch(_VALUE, text):
            msg = f"The header {quoted(name)} has characters that no header has."
            raise ValueError(msg)
        if lower in _RESERVED or lower.startswith(_RESERVED_PREFIX):
            msg = f"The header {quoted(name)} is set by the platform."
            raise ValueError(msg)
        if lower in seen:
            msg = f"The header {quoted(name)} is given twice."
            raise ValueError(msg)
        seen.add(lower)
    if sum(len(name) + len(text) for name, text in headers.items()) > MAX_HEADER_BYTES:
        msg = f"Have together more than {MAX_HEADER_BYTES} bytes."
        raise ValueError(msg)
    return headers


InvocationID = Annotated[
    str,
    AfterValidator(names.operation_id),
    Field(
        json_schema_extra={"pattern": f"^{names.OPERATION_ID}$"},
        description="Identifies the invocation. Sent again with the same request it answers the"
        " first one; with another payload, mode, header or timeout it is a conflict. Generated"
        " when it is left out.",
        examples=["order-4711"],
    ),
]


class FunctionAddress(SpecModel):
    """What a create adds to the spec; before it, since pydantic keeps the last base first."""

    operation_id: OperationID = Field(alias="operationID")
    request_id: RequestID = Field(alias="requestID")


class FunctionCreate(FunctionSpec, FunctionAddress):
    """Asks for a new function."""

    def spec(self) -> FunctionSpec:
        """Return the spec alone."""
        return FunctionSpec.parse(self.payload())

    def payload(self) -> dict[str, Any]:
        """Return what the request hash covers beside the name."""
        payload = self.normalised()
        del payload["operationID"], payload["requestID"]
        return payload


class FunctionUpdateAddress(SpecModel):
    """What a change adds to the spec."""

    operation_id: OperationID = Field(alias="operationID")
    request_id: RequestID | None = Field(default=None, alias="requestID")


class FunctionUpdate(FunctionSpec, FunctionUpdateAddress):
    """Replaces the spec of a function; a field that is left out has its default again."""

    def check_request_id(self, applies: str) -> None:
        """Refuse a name that is not the one of the address.

        Raises:
            InvalidSpec: it is another one.
        """
        if self.request_id not in {None, applies}:
            fault = FieldError("requestID", f"Must be '{applies}', or be left out.")
            raise invalid_spec([fault])

    def spec(self) -> FunctionSpec:
        """Return the spec alone."""
        return FunctionSpec.parse(self.payload())

    def payload(self) -> dict[str, Any]:
        """Return what the request hash covers beside the name."""
        payload = self.normalised()
        del payload["operationID"]
        payload.pop("requestID", None)
        return payload


class FunctionScale(SpecModel):
    """Says how many workers a function may have; workers that run stay as they are."""

    operation_id: OperationID = Field(alias="operationID")
    min_workers: MinWorkers = Field(alias="minWorkers")
    max_workers: MaxWorkers = Field(alias="maxWorkers")

    @model_validator(mode="after")
    def fits_together(self) -> "FunctionScale":
        """Two values may be fine and together none."""
        check_workers(self.min_workers, self.max_workers)
        return self

    def limits(self) -> dict[str, int]:
        """Return what it puts into the spec of a function."""
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
        description="Headers for the function, at most 32 KiB together.",
        examples=[{"X-Trace": "4711"}],
    )
    payload: str = Field(
        description="What the function gets, at most 512 KiB.", examples=['{"text": "hello"}']
    )
    payload_encoding: Literal["text", "base64"] = Field(
        default="text",
        alias="payloadEncoding",
        description="`base64` for bytes that are no text.",
        examples=["text"],
    )
    timeout_seconds: TimeoutSeconds | None = Field(default=None, alias="timeoutSeconds")

    def payload_bytes(self) -> bytes:
        """Return what the function gets.

        Raises:
            InvalidSpec: it is no base64, or no text.
            TooLarge: it passes the limit.
        """
        try:
            if self.payload_encoding == "base64":
                decoded = base64.b64decode(self.payload, validate=True)
            else:
                decoded = self.payload.encode()
        except (binascii.Error, ValueError) as error:
            what = "base64" if self.payload_encoding == "base64" else "text"
            raise invalid_spec([FieldError("payload", f"Is no {what}.")]) from error
        if len(decoded) > MAX_PAYLOAD_BYTES:
            msg = "The payload is larger than 512 KiB. Send where it is instead of what it is."
            raise TooLarge(msg, details=[FieldError("payload", "Is too large.")])
        return decoded

    def hashed(self) -> dict[str, Any]:
        """Return what the request hash covers: two spellings of the same bytes are the same."""
        hashed = self.normalised()
        for key in ("invocationID", "requestID", "payloadEncoding"):
            hashed.pop(key, None)
        return {**hashed, "payload": hashlib.sha256(self.payload_bytes()).hexdigest()}


class InvocationAction(SpecModel):
    """Cancels an invocation, or sends it again."""

    operation_id: OperationID = Field(alias="operationID")
