"""Encodes and decodes the messages of the streams. Pure; also used by the sidecar.

The message of an invocation has headers, and the payload as its body. The report of a worker is
one JSON object. Both contain the receipt, which only the platform can create and which only the
workers that received the invocation know. A worker cannot report on the invocations of others.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from serverless.queue.names import INVOCATIONS

MAX_PAYLOAD_BYTES: Final = 512 * 1024
MAX_RESULT_BYTES: Final = 1024 * 1024
"""Maximum stored size of a response body in bytes. With a longer body, an invocation fails."""

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The server's `max_payload` in bytes: enough for a result in base64 and its other fields."""

MAX_ERROR_LENGTH: Final = 2000
MAX_HEADER_BYTES: Final = 32 * 1024

MSG_ID: Final = "Nats-Msg-Id"
_HEADERS: Final = "X-Headers"

State: TypeAlias = Literal["Succeeded", "Failed", "Expired"]


class MalformedMessage(Exception):
    """A message that neither the platform nor a sidecar wrote. A retry fails again."""


Positive = Annotated[int, Field(gt=0, lt=2**63)]


class InvocationMessage(BaseModel):
    """One invocation in the form in which it is delivered to a worker.

    The payload is the body of the message. The aliases are the names of the message's headers.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    key: Positive = Field(alias="X-Invocation-Key")
    """Id of the invocation's row."""
    publication: Positive = Field(alias="X-Invocation-Publication")
    """Ordinal number of the publication, starting at 1."""
    invocation_id: str = Field(alias="X-Invocation-ID")
    receipt: str = Field(alias="X-Invocation-Receipt")
    content_type: str = Field(alias="X-Content-Type")
    timeout_seconds: Positive = Field(alias="X-Timeout-Seconds")
    expires_at: AwareDatetime | None = Field(default=None, alias="X-Expires-At")
    """Time from which no worker starts the invocation, or `None`."""
    payload: bytes
    headers: dict[str, str] = Field(default_factory=dict)

    @property
    def message_id(self) -> str:
        """The id by which the stream recognizes and drops a repeated publication."""
        return f"{self.key}-{self.publication}"

    def encoded_headers(self) -> dict[str, str]:
        """Return the headers of the message. The body of the message is the payload."""
        fields = self.model_dump(by_alias=True, exclude={"payload", "headers"}, exclude_none=True)
        return {
            MSG_ID: self.message_id,
            **{name: str(value) for name, value in fields.items()},
            _HEADERS: json.dumps(self.headers, separators=(",", ":")),
        }


def decode_invocation(headers: Mapping[str, str] | None, body: bytes) -> InvocationMessage:
    """Decode a message of the stream of invocations.

    Raises:
        MalformedMessage: If a header is missing or invalid.
    """
    found = headers or {}
    try:
        passed = json.loads(found.get(_HEADERS, ""))
        return InvocationMessage.model_validate({**found, "headers": passed, "payload": body})
    except ValidationError as error:
        raise _malformed(error, "message") from error
    except ValueError as error:
        raise MalformedMessage(f"{_HEADERS}: not a JSON object") from error


def _malformed(error: ValidationError, noun: str) -> MalformedMessage:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return MalformedMessage(f"{where or noun}: {first['msg']}"[:300])


def _function_of_consumer(consumer: object) -> str:
    """Return the function id in the name of a consumer, as text."""
    return str(consumer).removeprefix("fn-")


def _shortened(text: str) -> str:
    return text.replace("\0", "")[:MAX_ERROR_LENGTH]


def _no_nul(text: str) -> str:
    """Reject text that PostgreSQL cannot store: NUL characters and lone surrogates."""
    text.encode()
    if "\0" in text:
        msg = "contains a NUL character"
        raise ValueError(msg)
    return text


def _within_limit(headers: dict[str, str]) -> dict[str, str]:
    if sum(len(_no_nul(name)) + len(_no_nul(text)) for name, text in headers.items()) > (
        MAX_HEADER_BYTES
    ):
        msg = f"exceed {MAX_HEADER_BYTES} bytes"
        raise ValueError(msg)
    return headers


def _one_line(text: str) -> str:
    """Reject control characters, which would end a header line."""
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        msg = "contains a control character"
        raise ValueError(msg)
    return _no_nul(text)


_Text = Annotated[str, AfterValidator(_no_nul)]
_Line = Annotated[str, AfterValidator(_one_line)]


class _Report(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",  # A later release of the sidecar may add fields.
        alias_generator=to_camel,
        populate_by_name=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )

    type: str
    key: Positive
    """Copied from the message of the invocation, like `publication` and `receipt`."""
    publication: int = Field(gt=0, lt=2**15)
    receipt: str = Field(max_length=128)
    attempt: int = Field(gt=0, lt=2**15)
    """Ordinal number of the delivery, starting at 1."""
    sequence: Positive
    """Sequence of the invocation's message in its stream."""
    worker: _Text = Field(default="", max_length=63)
    started_at: AwareDatetime

    @property
    def message_id(self) -> str:
        """The id by which the stream recognizes and drops a repeated publication.

        The id contains the receipt so that other workers cannot guess it. If another worker
        published a message with the same id first, the stream would drop this report.
        """
        return f"{self.receipt}-{self.attempt}-{self.type}"

    def encode(self) -> bytes:
        """Return the body of the message."""
        return self.model_dump_json(by_alias=True).encode()


class StartReport(_Report):
    """The report that a worker started an invocation."""

    type: Literal["started"] = "started"


class EndReport(_Report):
    """The report of the final outcome of an invocation, which is not delivered again."""

    type: Literal["finished"] = "finished"
    state: State
    failure_class: _Text = Field(default="", max_length=32)
    status_code: int | None = Field(default=None, ge=100, le=599)
    content_type: _Line = Field(default="", max_length=127)
    headers: Annotated[dict[str, str], AfterValidator(_within_limit)] = Field(default_factory=dict)
    body: bytes = Field(default=b"", max_length=MAX_RESULT_BYTES)
    """The first `MAX_RESULT_BYTES` of the response body."""
    size: int = Field(default=0, ge=0, lt=2**63, alias="bytes")
    """Size of the complete response body in bytes."""
    truncated: bool = False
    error: _Text = Field(default="", max_length=MAX_ERROR_LENGTH)
    completed_at: AwareDatetime

    @model_validator(mode="after")
    def check_failure_class(self) -> "EndReport":
        """Reject a failure without a failure class, and a success with one."""
        if (self.state == "Succeeded") != (self.failure_class == ""):
            msg = "state and failureClass contradict each other"
            raise ValueError(msg)
        return self

    @property
    def is_cut(self) -> bool:
        """Whether `body` is shorter than the complete response body."""
        return self.truncated or self.size > len(self.body)

    def without_cut_success(self) -> "EndReport":
        """Return the report, as a failure if it is a success with an incomplete body."""
        if self.state != "Succeeded" or not self.is_cut:
            return self
        error = (
            f"The response of {self.size} bytes exceeds the maximum size of a result. Store large"
            " results elsewhere, and return their URL."
        )
        failure = {"state": "Failed", "failure_class": "result_too_large", "error": error}
        return self.model_copy(update=failure)


Report: TypeAlias = StartReport | EndReport

_REPORT: Final[TypeAdapter[Report]] = TypeAdapter(Annotated[Report, Field(discriminator="type")])


def decode_report(body: bytes) -> Report:
    """Decode a message of the stream of results.

    Raises:
        MalformedMessage: If it is not a valid report.
    """
    try:
        return _REPORT.validate_json(body)
    except ValidationError as error:
        raise _malformed(error, "report") from error


class Advisory(BaseModel):
    """An advisory of the server that it no longer delivers a message."""

    type: str
    stream: str = Field(pattern=f"^{INVOCATIONS}$")
    function: Annotated[Positive, BeforeValidator(_function_of_consumer)] = Field(alias="consumer")
    stream_sequence: Positive = Field(alias="stream_seq")
    deliveries: Positive
    reason: Annotated[str, AfterValidator(_shortened)] = ""
    """The reason that a worker gave for rejecting the message."""

    @property
    def was_terminated(self) -> bool:
        """Whether a worker rejected the message. Otherwise the message used all deliveries."""
        return self.type.endswith(".terminated")


def decode_advisory(body: bytes) -> Advisory:
    """Decode a message of the stream of advisories.

    Raises:
        MalformedMessage: If it is not an advisory about the consumer of a function.
    """
    try:
        return Advisory.model_validate_json(body)
    except ValidationError as error:
        raise _malformed(error, "advisory") from error
