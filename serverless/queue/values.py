"""What goes into the queue and what is read from it. Pure but for the client's message."""

from dataclasses import dataclass
from typing import TypeAlias

from nats.aio.msg import Msg

from serverless.queue.messages import InvocationMessage


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An invocation on its way into the stream."""

    tenant: str
    function: int
    message: InvocationMessage


@dataclass(frozen=True, slots=True)
class Published:
    """It is in the stream, under this number, perhaps since an earlier try."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The stream does not take it: it is full."""

    why: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Nobody knows whether it is in the stream."""

    why: str


PublishOutcome: TypeAlias = Published | Refused | Unanswered


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it lies in a stream."""

    sequence: int
    subject: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """A message that this process was given, to be acknowledged."""

    subject: str
    body: bytes
    sequence: int
    deliveries: int
    raw: Msg


@dataclass(frozen=True, slots=True)
class Backlog:
    """What of a function is in the queue. Counts are messages."""

    pending: int
    """Given to nobody yet."""
    in_work: int
    """Given to a worker and not acknowledged."""
    exhausted: int
    """Given as often as allowed, and not decided yet."""
    waiting_pulls: int
    """Requests of workers that wait for a message."""
    delivered_sequence: int
    """The highest number that was given to a worker."""

    @property
    def total(self) -> int:
        """What scaling counts: a message is there until its invocation has ended."""
        return self.pending + self.in_work + self.exhausted
