"""Values that the queue accepts and returns. Pure."""

from dataclasses import dataclass
from enum import Enum

from serverless.queue.messages import InvocationMessage


@dataclass(frozen=True, slots=True)
class OutgoingInvocation:
    """An invocation to publish."""

    tenant: str
    function: int
    """Id of the function."""
    message: InvocationMessage


class PublishStatus(Enum):
    """The result of publishing an invocation: whether the stream stores it."""

    STORED = "stored"
    """The stream stores it, possibly since an earlier publication."""
    REJECTED = "rejected"
    """The stream rejects it because a limit is reached."""
    UNKNOWN = "unknown"
    """The server did not respond."""


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The outcome of publishing one invocation."""

    status: PublishStatus
    sequence: int = 0
    """Sequence in the stream, if the stream stores the invocation."""
    error: str = ""
    """Reason why the invocation is not known to be stored."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in a stream."""

    sequence: int
    subject: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Backlog:
    """Number of messages of one function in the queue, by state."""

    pending: int = 0
    """Number of messages that are not delivered yet."""
    in_progress: int = 0
    """Number of messages that are delivered and not acknowledged."""
    exhausted: int = 0
    """Number of messages that used all deliveries and are not dead-lettered yet."""
    delivered_sequence: int = 0
    """The highest sequence that was delivered."""

    @property
    def total(self) -> int:
        """Number of all messages. A message is stored until its invocation has ended."""
        return self.pending + self.in_progress + self.exhausted
