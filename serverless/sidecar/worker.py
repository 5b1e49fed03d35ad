"""Takes invocations, has the function answer them, and says how they ended."""

import asyncio
import logging
import random
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypedDict, TypeVar

from nats.aio.msg import Msg

from serverless.queue.errors import QueueError
from serverless.queue.messages import (
    MAX_ERROR_LENGTH,
    Finished,
    InvocationMessage,
    MalformedMessage,
    Started,
    State,
    decode_invocation,
)
from serverless.queue.pulling import Puller
from serverless.sidecar.connection import Connection
from serverless.sidecar.function import Answer, Function, FunctionBroken, FunctionTimeout
from serverless.sidecar.settings import Settings

logger = logging.getLogger(__name__)

PULL_SECONDS: Final = 2.0
"""How long one pull waits for a message, and so the longest that a drain waits for a pull."""

ANNOUNCE_SECONDS: Final = 0.05
"""What ends sooner is not said to have begun."""

QUEUE_PAUSE_SECONDS: Final = 1.0
ABANDON_SECONDS: Final = 2.0
_TOO_MANY_REQUESTS: Final = 429


AnyT = TypeVar("AnyT")


class _About(TypedDict):
    """What both reports say of a delivery."""

    key: int
    publication: int
    receipt: str
    attempt: int
    sequence: int
    worker: str
    started_at: datetime


class Rejected(Exception):
    """The queue does not let this worker in any more; only a new start may help."""


@dataclass(frozen=True, slots=True)
class _Delivery:
    """One invocation in the hands of this worker."""

    message: Msg
    invocation: InvocationMessage
    attempt: int
    sequence: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class _Ending:
    """How it ended, for good or for this time."""

    state: State
    failure_class: str = ""
    error: str = ""
    answer: Answer | None = None
    may_be_tried_again: bool = False


class Worker:
    """One worker of one function."""

    def __init__(self, settings: Settings, connection: Connection, function: Function) -> None:
        """Nothing happens before `run`."""
        self._settings = settings
        self._connection = connection
        self._function = function
        self._calls: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()
        self.drained = asyncio.Event()
        """Nothing is in work, and nothing will be."""

    @property
    def is_ready(self) -> bool:
        """Whether an invocation that came now would be answered."""
        return (
            self._connection.is_connected
            and self._function.healthy.is_set()
            and not self._draining.is_set()
        )

    def drain(self) -> None:
        """Take nothing more; `drained` is set once all that is in work has ended."""
        self._draining.set()

    async def run(self) -> None:
        """Work until it is drained.

        Raises:
            Rejected: the queue does not let this worker in any more.
        """
        watching = asyncio.create_task(self._function.watch())
        try:
            await self._take()
            await self._end()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _take(self) -> None:
        """Pull as many as may be in work, until the drain."""
        puller = await self._first(self._connection.open())
        while puller is not None and not self._draining.is_set():
            await self._first(self._function.healthy.wait())
            await self._first(self._wait_for_room())
            if self._draining.is_set():
                return
            for message in await self._pull(puller, self._room):
                call = asyncio.create_task(self._handle(message))
                self._calls.add(call)
                call.add_done_callback(self._ended)

    async def _first(self, waited: Coroutine[Any, Any, AnyT]) -> AnyT | None:
        """Return what is waited for; None when the drain comes first."""
        task = asyncio.create_task(waited)
        draining = asyncio.create_task(self._draining.wait())
        await asyncio.wait({task, draining}, return_when=asyncio.FIRST_COMPLETED)
        draining.cancel()
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None

    @property
    def _room(self) -> int:
        """How many more may be in work."""
        return self._settings.concurrency - len(self._calls)

    async def _wait_for_room(self) -> None:
        while self._room < 1:
            await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)

    async def _pull(self, puller: Puller, batch: int) -> list[Msg]:
        try:
            return await puller.fetch(batch, PULL_SECONDS)
        except QueueError as error:
            if self._connection.is_lost:
                raise Rejected(str(error)) from error
            logger.warning("nothing can be pulled: %s", error)
            await self._first(asyncio.sleep(QUEUE_PAUSE_SECONDS))
            return []

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled() and call.exception() is not None:
            # A fault of the sidecar itself: the queue gives the invocation to a worker again.
            logger.error("a call ended by a fault", exc_info=call.exception())

    async def _end(self) -> None:
        """Wait for what is in work; give back what does not end in time."""
        calls = set(self._calls)
        if calls:
            logger.info("%d invocations are still in work", len(calls))
            _, late = await asyncio.wait(calls, timeout=self._settings.drain_seconds)
            for call in late:
                call.cancel()
            if late:
                await asyncio.wait(late, timeout=ABANDON_SECONDS)
        self.drained.set()

    # One invocation.

    async def _handle(self, message: Msg) -> None:
        metadata = message.metadata
        try:
            invocation = decode_invocation(message.headers, message.data)
        except MalformedMessage as error:
            logger.warning("message %d is refused: %s", metadata.sequence.stream, error)
            await self._connection.refuse(message, str(error))
            return
        delivery = _Delivery(
            message=message,
            invocation=invocation,
            attempt=metadata.num_delivered,
            sequence=metadata.sequence.stream,
            started_at=datetime.now(UTC),
        )
        extending = asyncio.create_task(self._extend(message))
        try:
            await self._work(delivery)
        except asyncio.CancelledError:
            await self._connection.postpone(message, 0)
            raise
        finally:
            extending.cancel()

    async def _extend(self, message: Msg) -> None:
        """Keep the message this worker's; nothing that the function does holds it up."""
        while True:
            await asyncio.sleep(self._settings.progress_seconds)
            await self._connection.progress(message)

    async def _work(self, delivery: _Delivery) -> None:
        announcing = asyncio.create_task(self._announce(delivery))
        try:
            ending = await self._call(delivery)
        finally:
            is_announced = announcing.done()
            announcing.cancel()
        retries, attempt = self._settings.retries, delivery.attempt
        if ending.may_be_tried_again and not retries.is_last(attempt):
            spread = random.uniform(0.9, 1.1)  # noqa: S311 - only spreads load
            logger.info("invocation %s again: %s", delivery.invocation.invocation_id, ending.error)
            if not is_announced:
                await self._connection.announce(Started(**self._about(delivery)))
            await self._connection.postpone(delivery.message, retries.pause(attempt) * spread)
            return
        await self._connection.conclude(delivery.message, self._finished(delivery, ending))

    async def _announce(self, delivery: _Delivery) -> None:
        """Say that it began, unless it ends at once: the end says the same, and is needed anyway.

        What was begun before, or cannot be begun again, is said at once: it may be what kills
        workers, and then nobody comes to say its end.
        """
        attempt = delivery.attempt
        if attempt == 1 and not self._settings.retries.is_last(attempt):
            await asyncio.sleep(ANNOUNCE_SECONDS)
        await self._connection.announce(Started(**self._about(delivery)))

    async def _call(self, delivery: _Delivery) -> _Ending:
        invocation = delivery.invocation
        try:
            answer = await self._function.invoke(invocation, delivery.attempt)
        except FunctionTimeout:
            seconds = invocation.timeout_seconds
            within = f"{seconds} second{'' if seconds == 1 else 's'}"
            error = f"The function did not answer within {within}."
            return _Ending("Expired", "framework_timeout", error)
        except FunctionBroken as broken:
            return _Ending("Failed", "framework_error", str(broken), may_be_tried_again=True)
        if answer.status < 400:
            return _Ending("Succeeded", answer=answer)
        return _Ending(
            "Failed",
            "framework_error",
            f"The function answered with status {answer.status}.",
            answer,
            may_be_tried_again=answer.status >= 500 or answer.status == _TOO_MANY_REQUESTS,
        )

    def _finished(self, delivery: _Delivery, ending: _Ending) -> Finished:
        answer = ending.answer or Answer(0, "", b"", 0)
        return Finished(
            **self._about(delivery),
            state=ending.state,
            failure_class=ending.failure_class,
            status_code=answer.status or None,
            content_type=answer.content_type,
            headers=dict(answer.headers),
            body=answer.body,
            size=answer.size,
            truncated=answer.is_truncated,
            error=ending.error[:MAX_ERROR_LENGTH],
            completed_at=datetime.now(UTC),
        )

    def _about(self, delivery: _Delivery) -> _About:
        return {
            "key": delivery.invocation.key,
            "publication": delivery.invocation.publication,
            "receipt": delivery.invocation.receipt,
            "attempt": delivery.attempt,
            "sequence": delivery.sequence,
            "worker": self._settings.worker,
            "started_at": delivery.started_at,
        }
