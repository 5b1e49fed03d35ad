"""What is written to the queue and read from it. Pure, except for the client's message."""

from dataclasses import dataclass
from enum import Enum

from nats.aio.msg import Msg

from serverless.queue.messages import InvocationMessage


@dataclass(frozen=True, slots=True)
class OutgoingInvocation:
    """An invocation to be published."""

    tenant: str
    function: int
    """Id of the function."""
    message: InvocationMessage


class PublishStatus(Enum):
    """Whether the stream has an invocation."""

    STORED = "stored"
    """It has it, perhaps since an earlier attempt to publish it."""
    REJECTED = "rejected"
    """It does not accept it, because a limit is reached."""
    UNKNOWN = "unknown"
    """The server did not answer."""


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The outcome of publishing one invocation."""

    status: PublishStatus
    sequence: int = 0
    """Its sequence in the stream, if it is stored."""
    error: str = ""
    """Why it is not known to be stored."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in a stream."""

    sequence: int
    subject: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that was delivered to this process and is to be acknowledged."""

    subject: str
    body: bytes
    sequence: int
    deliveries: int
    """How often it has been delivered, including this time."""
    raw: Msg


@dataclass(frozen=True, slots=True)
class Backlog:
    """The messages of one function in the queue."""

    pending: int = 0
    """Not delivered yet."""
    in_work: int = 0
    """Delivered and not acknowledged."""
    exhausted: int = 0
    """Delivered as often as allowed, and not dead-lettered yet."""
    delivered_sequence: int = 0
    """The highest sequence that was delivered."""

    @property
    def total(self) -> int:
        """All messages: one stays in the stream until its invocation has ended."""
        return self.pending + self.in_work + self.exhausted
