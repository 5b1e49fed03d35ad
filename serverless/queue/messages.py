"""Encodes and decodes the messages of the streams. Pure; used by the sidecar too.

An invocation is a message with headers, and the payload as its body. A worker's report is one JSON
object. Both carry the receipt, which only the platform can create and only a worker that was given
the invocation knows: a worker cannot report on invocations of others.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
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
"""Maximum stored size of an answer; the rest is cut off, and only counted."""

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The server's `max_payload`: it has to accept a result in base64 with its other fields."""

MAX_ERROR_LENGTH: Final = 2000
MAX_HEADER_BYTES: Final = 32 * 1024

MSG_ID: Final = "Nats-Msg-Id"
_KEY: Final = "X-Invocation-Key"
_ID: Final = "X-Invocation-ID"
_PUBLICATION: Final = "X-Invocation-Publication"
_RECEIPT: Final = "X-Invocation-Receipt"
_CONTENT_TYPE: Final = "X-Content-Type"
_TIMEOUT: Final = "X-Timeout-Seconds"
_HEADERS: Final = "X-Headers"

State: TypeAlias = Literal["Succeeded", "Failed", "Expired"]


class MalformedMessage(Exception):
    """A message that neither the platform nor a sidecar wrote; a retry cannot help."""


@dataclass(frozen=True, slots=True)
class InvocationMessage:
    """One invocation as it is delivered to a worker."""

    key: int
    """The id of its row."""
    publication: int
    """Ordinal number of its publication, from 1."""
    invocation_id: str
    receipt: str
    content_type: str
    timeout_seconds: int
    payload: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def message_id(self) -> str:
        """The id by which the stream stores it once, however often it is published."""
        return f"{self.key}-{self.publication}"

    def encoded_headers(self) -> dict[str, str]:
        """Return the headers of the message; its body is the payload."""
        return {
            MSG_ID: self.message_id,
            _KEY: str(self.key),
            _PUBLICATION: str(self.publication),
            _ID: self.invocation_id,
            _RECEIPT: self.receipt,
            _CONTENT_TYPE: self.content_type,
            _TIMEOUT: str(self.timeout_seconds),
            _HEADERS: json.dumps(dict(self.headers), separators=(",", ":")),
        }


def decode_invocation(headers: Mapping[str, str] | None, body: bytes) -> InvocationMessage:
    """Decode a message of the stream of invocations.

    Raises:
        MalformedMessage: the platform did not write it.
    """
    found = headers or {}
    try:
        passed = json.loads(found[_HEADERS])
        if not isinstance(passed, dict) or not all(isinstance(v, str) for v in passed.values()):
            raise MalformedMessage("the passed headers are not an object of strings")
        return InvocationMessage(
            key=_positive(found[_KEY]),
            publication=_positive(found[_PUBLICATION]),
            invocation_id=found[_ID],
            receipt=found[_RECEIPT],
            content_type=found[_CONTENT_TYPE],
            timeout_seconds=_positive(found[_TIMEOUT]),
            payload=body,
            headers=passed,
        )
    except KeyError as error:
        raise MalformedMessage(f"the header {error.args[0]} is missing") from error
    except ValueError as error:
        raise MalformedMessage("a header has an invalid value") from error


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) > 0):
        raise ValueError(text)
    return int(text)


def _no_nul(text: str) -> str:
    """Refuse what PostgreSQL cannot store: NUL characters and lone surrogates."""
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
    """Refuse what would end a header line."""
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
    key: int = Field(gt=0, lt=2**63)
    """Copied from the invocation's message, as are `publication` and `receipt`."""
    publication: int = Field(gt=0, lt=2**15)
    receipt: str = Field(max_length=128)
    attempt: int = Field(gt=0, lt=2**15)
    """Ordinal number of the delivery, from 1."""
    sequence: int = Field(gt=0, lt=2**63)
    """The sequence of the invocation's message in its stream."""
    worker: _Text = Field(default="", max_length=63)
    started_at: AwareDatetime

    @property
    def message_id(self) -> str:
        """The id by which the stream stores it once, however often it is published.

        It contains the receipt: the stream accepts each id once from any worker, so an id that
        others can guess could be used by them, and the report would be dropped as a repetition.
        """
        return f"{self.receipt}-{self.attempt}-{self.type}"

    def encode(self) -> bytes:
        """Return the body of the message."""
        return self.model_dump_json(by_alias=True).encode()


class StartReport(_Report):
    """Reports that a worker started an invocation."""

    type: Literal["started"] = "started"


class EndReport(_Report):
    """Reports the final outcome of an invocation: it is not delivered again."""

    type: Literal["finished"] = "finished"
    state: State
    failure_class: _Text = Field(default="", max_length=32)
    status_code: int | None = Field(default=None, ge=100, le=599)
    content_type: _Line = Field(default="", max_length=127)
    headers: Annotated[dict[str, str], AfterValidator(_within_limit)] = Field(default_factory=dict)
    body: bytes = Field(default=b"", max_length=MAX_RESULT_BYTES)
    """The first `MAX_RESULT_BYTES` of the answer."""
    size: int = Field(default=0, ge=0, lt=2**63, alias="bytes")
    """Size of the whole answer."""
    truncated: bool = False
    error: _Text = Field(default="", max_length=MAX_ERROR_LENGTH)
    completed_at: AwareDatetime

    @model_validator(mode="after")
    def check_failure_class(self) -> "EndReport":
        """Refuse a failure without a class, and a success with one."""
        if (self.state == "Succeeded") != (self.failure_class == ""):
            msg = "state and failureClass contradict each other"
            raise ValueError(msg)
        return self


Report: TypeAlias = StartReport | EndReport

_REPORT: Final[TypeAdapter[Report]] = TypeAdapter(Annotated[Report, Field(discriminator="type")])


def decode_report(body: bytes) -> Report:
    """Decode a message of the stream of results.

    Raises:
        MalformedMessage: a sidecar did not write it.
    """
    try:
        return _REPORT.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise MalformedMessage(f"{where or 'report'}: {first['msg']}"[:300]) from error


@dataclass(frozen=True, slots=True)
class Advisory:
    """The server's notice that it does not deliver a message any more."""

    function: int
    stream_sequence: int
    deliveries: int
    was_terminated: bool
    """Whether a worker refused the message; otherwise its deliveries are used up."""
    reason: str
    """The worker's reason for refusing it."""


def decode_advisory(body: bytes) -> Advisory:
    """Decode a message of the stream of advisories.

    Raises:
        MalformedMessage: it is not an advisory about a function's consumer.
    """
    try:
        fields: Any = json.loads(body)
        consumer = str(fields["consumer"])
        is_terminated = str(fields["type"]).endswith(".terminated")
        if fields["stream"] != INVOCATIONS or not consumer.startswith("fn-"):
            raise MalformedMessage("the advisory is not about a function's consumer")
        return Advisory(
            function=_positive(consumer.removeprefix("fn-")),
            stream_sequence=_positive(str(fields["stream_seq"])),
            deliveries=_positive(str(fields["deliveries"])),
            reason=str(fields.get("reason", ""))[:MAX_ERROR_LENGTH] if is_terminated else "",
            was_terminated=is_terminated,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedMessage("the advisory cannot be decoded") from error
