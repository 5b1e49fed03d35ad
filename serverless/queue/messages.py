"""The messages of both streams: how they are written and read. Pure; the sidecar uses it too.

An invocation is headers and the payload's bytes. What a worker says of it is one JSON object. Both
carry the receipt, which only the platform can make and only whoever got the invocation knows: a
worker cannot speak for an invocation that it was not given.
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
"""What is kept of an answer; beyond it only its size is."""

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""What the server has to take in one message (`max_payload`): a result in base64 and its head."""

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
    """A message that is not what the platform or a sidecar writes; trying again cannot help."""


@dataclass(frozen=True, slots=True)
class InvocationMessage:
    """One invocation as a worker gets it."""

    key: int
    """The number of its row."""
    publication: int
    """How often it was put in the queue on purpose."""
    invocation_id: str
    receipt: str
    content_type: str
    timeout_seconds: int
    payload: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def message_id(self) -> str:
        """The same for each try to publish it, so that the stream takes it once."""
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
    """Read a message of the stream of invocations.

    Raises:
        MalformedMessage: it is none of the platform's.
    """
    found = headers or {}
    try:
        asked = json.loads(found[_HEADERS])
        if not isinstance(asked, dict) or not all(isinstance(v, str) for v in asked.values()):
            raise MalformedMessage("its headers are no object of texts")
        return InvocationMessage(
            key=_number(found[_KEY]),
            publication=_number(found[_PUBLICATION]),
            invocation_id=found[_ID],
            receipt=found[_RECEIPT],
            content_type=found[_CONTENT_TYPE],
            timeout_seconds=_number(found[_TIMEOUT]),
            payload=body,
            headers=asked,
        )
    except KeyError as error:
        raise MalformedMessage(f"it has no {error.args[0]}") from error
    except ValueError as error:
        raise MalformedMessage("one of its headers cannot be read") from error


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) > 0):
        raise ValueError(text)
    return int(text)


def _no_nul(text: str) -> str:
    """PostgreSQL has no NUL, and no UTF-8 has half of a pair."""
    text.encode()
    if "\0" in text:
        msg = "has a NUL"
        raise ValueError(msg)
    return text


def _small(headers: dict[str, str]) -> dict[str, str]:
    if sum(len(_no_nul(name)) + len(_no_nul(text)) for name, text in headers.items()) > (
        MAX_HEADER_BYTES
    ):
        msg = "are too large"
        raise ValueError(msg)
    return headers


def _one_line(text: str) -> str:
    """What is written into a header must not end it."""
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        msg = "has a control character"
        raise ValueError(msg)
    return _no_nul(text)


_Text = Annotated[str, AfterValidator(_no_nul)]
_Line = Annotated[str, AfterValidator(_one_line)]


class _Report(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",  # What a later sidecar adds is no fault.
        alias_generator=to_camel,
        populate_by_name=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )

    type: str
    key: int = Field(gt=0, lt=2**63)
    """These three are copied from the invocation's message."""
    publication: int = Field(gt=0, lt=2**15)
    receipt: str = Field(max_length=128)
    attempt: int = Field(gt=0, lt=2**15)
    """The number of the delivery, from 1."""
    sequence: int = Field(gt=0, lt=2**63)
    """The invocation's number in its stream."""
    worker: _Text = Field(default="", max_length=63)
    started_at: AwareDatetime

    @property
    def message_id(self) -> str:
        """The same for each try to publish it, and known to nobody else.

        The stream takes each id once, whoever sends it: one that could be guessed could be used
        up before, and the report would be dropped as a repetition.
        """
        return f"{self.receipt}-{self.attempt}-{self.type}"

    def encode(self) -> bytes:
        """Return the body of the message."""
        return self.model_dump_json(by_alias=True).encode()


class Started(_Report):
    """A worker began with an invocation."""

    type: Literal["started"] = "started"


class Finished(_Report):
    """A worker ended an invocation: nobody gets it again."""

    type: Literal["finished"] = "finished"
    state: State
    failure_class: _Text = Field(default="", max_length=32)
    status_code: int | None = Field(default=None, ge=100, le=599)
    content_type: _Line = Field(default="", max_length=127)
    headers: Annotated[dict[str, str], AfterValidator(_small)] = Field(default_factory=dict)
    body: bytes = Field(default=b"", max_length=MAX_RESULT_BYTES)
    """What is kept of the answer: its first `MAX_RESULT_BYTES`."""
    size: int = Field(default=0, ge=0, lt=2**63, alias="bytes")
    """The size of the whole answer."""
    truncated: bool = False
    error: _Text = Field(default="", max_length=MAX_ERROR_LENGTH)
    completed_at: AwareDatetime

    @model_validator(mode="after")
    def says_why(self) -> "Finished":
        """A failure has a class, a success has none."""
        if (self.state == "Succeeded") != (self.failure_class == ""):
            msg = "state and failureClass do not fit together"
            raise ValueError(msg)
        return self


Report: TypeAlias = Started | Finished

_REPORT: Final[TypeAdapter[Report]] = TypeAdapter(Annotated[Report, Field(discriminator="type")])


def decode_report(body: bytes) -> Report:
    """Read a message of the stream of results.

    Raises:
        MalformedMessage: it is none of a sidecar's.
    """
    try:
        return _REPORT.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise MalformedMessage(f"{where or 'it'}: {first['msg']}"[:300]) from error


@dataclass(frozen=True, slots=True)
class Advisory:
    """What the server says of a message that nobody will get any more."""

    function: int
    stream_sequence: int
    deliveries: int
    was_terminated: bool
    """Whether a worker refused it, as against deliveries that ran out."""
    reason: str
    """With which a worker refused it."""


def decode_advisory(body: bytes) -> Advisory:
    """Read a message of the stream of advisories.

    Raises:
        MalformedMessage: it is no advisory about a function's consumer.
    """
    try:
        said: Any = json.loads(body)
        consumer = str(said["consumer"])
        is_terminated = str(said["type"]).endswith(".terminated")
        if said["stream"] != INVOCATIONS or not consumer.startswith("fn-"):
            raise MalformedMessage("it is about something else")
        return Advisory(
            function=_number(consumer.removeprefix("fn-")),
            stream_sequence=_number(str(said["stream_seq"])),
            deliveries=_number(str(said["deliveries"])),
            reason=str(said.get("reason", ""))[:MAX_ERROR_LENGTH] if is_terminated else "",
            was_terminated=is_terminated,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedMessage("it cannot be read") from error
