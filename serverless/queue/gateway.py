"""The client of the queue for platform processes: its streams, consumers and messages.

Every call has a timeout. `get_queue()` returns the queue of this process; a forked process opens
its own connection. The sidecar uses `sidecar.queue_client` instead, because it runs an event loop.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

import nats.js.errors
from django.conf import settings
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerInfo, RawStreamMsg
from nats.js.client import JetStreamContext

from gpuplatform.nats.keys import BadKey, KeyKind, KeyPair
from gpuplatform.process_local import ProcessLocal
from serverless.queue.blocking import BlockingConnection
from serverless.queue.connection import CALL_ERRORS, CALL_SECONDS, connect, describe
from serverless.queue.credentials import platform_credentials
from serverless.queue.errors import QueueError, QueueUnavailable
from serverless.queue.names import (
    INVOCATION_SUBJECTS,
    INVOCATIONS,
    consumer_name,
    function_of_subject,
    invocation_subject,
)
from serverless.queue.pulling import TERMINATE, Puller
from serverless.queue.streams import function_consumer, store_consumers, streams
from serverless.queue.values import (
    Backlog,
    OutgoingInvocation,
    PublishResult,
    PublishStatus,
    StoredMessage,
)

logger = logging.getLogger(__name__)

_NO_STREAM: Final = 10059
_NOT_STORED: Final = 10077
_NO_MESSAGE: Final = frozenset({10037, 10043, 10057})
"""JetStream error codes: no stream; a limit is reached; the message does not exist."""

ArgumentsT = ParamSpec("ArgumentsT")
ResultT = TypeVar("ResultT")
_Method = Callable[Concatenate["Queue", JetStreamContext, ArgumentsT], Awaitable[ResultT]]


def _blocking(
    seconds: float = CALL_SECONDS,
) -> Callable[[_Method[ArgumentsT, ResultT]], Callable[Concatenate["Queue", ArgumentsT], ResultT]]:
    """Convert a coroutine method to a blocking method with a timeout.

    The blocking method does not have the second parameter, the JetStream context. It raises a
    `QueueError` if the queue does not respond or rejects the request.
    """

    def decorate(
        method: _Method[ArgumentsT, ResultT],
    ) -> Callable[Concatenate["Queue", ArgumentsT], ResultT]:
        @wraps(method)
        def blocking(
            self: "Queue", /, *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs
        ) -> ResultT:
            return self.call(lambda js: method(self, js, *args, **kwargs), seconds)

        return blocking

    return decorate


class Queue(BlockingConnection):
    """The queue of one server, for all threads of a process."""

    def __init__(self, url: str, account: KeyPair, *, replicas: int = 1) -> None:
        """Start the thread; `replicas` is the number of replicas of each stream."""
        self._url = url
        self._account = account
        self._replicas = replicas
        self._pullers: dict[tuple[str, str], Puller] = {}
        super().__init__(self._open)

    # Streams and consumers.

    @_blocking(2 * CALL_SECONDS)
    async def ensure(self, js: JetStreamContext) -> None:
        """Create the streams and the consumers of the result store, or update them."""
        for config in streams(self._replicas):
            try:
                await js.update_stream(config)
            except nats.js.errors.NotFoundError:
                await js.add_stream(config)
        for stream, consumer in store_consumers():
            await js.add_consumer(stream, consumer)

    @_blocking()
    async def ensure_consumer(
        self,
        js: JetStreamContext,
        tenant: str,
        function: int,
        *,
        max_deliver: int,
        max_in_progress: int,
    ) -> None:
        """Create the consumer of a function, or update it."""
        config = function_consumer(
            tenant, function, max_deliver=max_deliver, max_in_progress=max_in_progress
        )
        await js.add_consumer(INVOCATIONS, config)

    @_blocking()
    async def remove_function(self, js: JetStreamContext, tenant: str, function: int) -> None:
        """Delete the messages and the consumer of a function; idempotent."""
        await js.purge_stream(INVOCATIONS, subject=invocation_subject(tenant, function))
        try:
            await js.delete_consumer(INVOCATIONS, consumer_name(function))
        except nats.js.errors.NotFoundError:
            return

    @_blocking()
    async def backlog(self, js: JetStreamContext, tenant: str, function: int) -> Backlog | None:
        """Return the number of messages of a function, by state.

        Returns `None` if the stream or the consumer does not exist.
        """
        subject = invocation_subject(tenant, function)
        try:
            before = await _count(js, subject)
            info = await js.consumer_info(INVOCATIONS, consumer_name(function))
            return _backlog(info, min(before, await _count(js, subject)))
        except nats.js.errors.NotFoundError:
            return None

    @_blocking(2 * CALL_SECONDS)
    async def functions(self, js: JetStreamContext, *, known: int) -> set[tuple[str, int]]:
        """Return the tenant and the id of each function that has messages or a consumer.

        Functions that have only a consumer are included only if the stream has more than `known`
        consumers.
        """
        info = await js.stream_info(INVOCATIONS, subjects_filter=INVOCATION_SUBJECTS)
        subjects = list(info.state.subjects or {})
        if info.state.consumer_count > known:
            offset = 0
            while page := await js.consumers_info(INVOCATIONS, offset=offset):
                offset += len(page)
                subjects += [one.config.filter_subject or "" for one in page]
        return {found for one in subjects if (found := function_of_subject(one))}

    @_blocking()
    async def last_sequence(self, js: JetStreamContext, stream: str) -> int:
        """Return the sequence of the newest message that was stored in the stream."""
        return (await js.stream_info(stream)).state.last_seq

    @_blocking()
    async def settled_sequence(self, js: JetStreamContext, stream: str, consumer: str) -> int:
        """Return the sequence up to which every message of the consumer is acknowledged."""
        last = (await js.stream_info(stream)).state.last_seq
        info = await js.consumer_info(stream, consumer)
        if not info.num_pending and not info.num_ack_pending:
            return last
        return (info.ack_floor and info.ack_floor.stream_seq) or 0

    # Messages of the stream of invocations.

    def publish(self, outgoing: Sequence[OutgoingInvocation]) -> list[PublishResult]:
        """Publish invocations concurrently and return their results in the same order."""
        try:
            return self._publish(outgoing)
        except QueueError as error:
            return [PublishResult(PublishStatus.UNKNOWN, error=str(error)) for _ in outgoing]

    @_blocking(CALL_SECONDS + 1)
    async def _publish(
        self, js: JetStreamContext, outgoing: Sequence[OutgoingInvocation]
    ) -> list[PublishResult]:
        return list(await asyncio.gather(*(_publish_one(js, one) for one in outgoing)))

    @_blocking()
    async def message(self, js: JetStreamContext, sequence: int) -> StoredMessage | None:
        """Return the message with this sequence, or `None` if it does not exist."""
        found = await _get(js, seq=sequence)
        return _stored(found) if found else None

    @_blocking(2 * CALL_SECONDS)
    async def messages(
        self, js: JetStreamContext, tenant: str, function: int, up_to: int, limit: int
    ) -> list[StoredMessage]:
        """Return at most `limit` messages of a function up to a sequence, sorted by sequence."""
        subject = invocation_subject(tenant, function)
        messages: list[StoredMessage] = []
        while len(messages) < limit:
            after = messages[-1].sequence + 1 if messages else 1
            found = await _get(js, seq=after, subject=subject, next=True)
            if found is None or (found.seq or 0) > up_to:
                break
            messages.append(_stored(found))
        return messages

    @_blocking()
    async def delete(self, js: JetStreamContext, sequence: int) -> None:
        """Delete one message; idempotent."""
        await _delete(js, sequence)

    @_blocking(2 * CALL_SECONDS)
    async def delete_of(
        self, js: JetStreamContext, tenant: str, function: int, sequences: Sequence[int]
    ) -> None:
        """Delete those messages with the sequences that belong to the function; idempotent."""
        subject = invocation_subject(tenant, function)

        async def delete_one(sequence: int) -> None:
            found = await _get(js, seq=sequence)
            if found is not None and found.subject == subject:
                await _delete(js, sequence)

        await asyncio.gather(*map(delete_one, sequences))

    # Deliveries to this process.

    def fetch(self, stream: str, consumer: str, batch: int, seconds: float) -> list[Msg]:
        """Return up to `batch` available messages, or wait up to `seconds` for the first message.

        Raises:
            QueueError: If the queue is unavailable or the consumer does not exist.
        """

        async def pull(_: JetStreamContext) -> list[Msg]:
            puller = self._pullers.get((stream, consumer))
            if puller is None or puller.client is not self.client:
                puller = Puller(self.client, stream, consumer)
                self._pullers[stream, consumer] = puller
            return await puller.fetch(batch, seconds)

        return self.call(pull, seconds + CALL_SECONDS)

    def acknowledge(self, messages: Sequence[Msg]) -> None:
        """Acknowledge messages. If an acknowledgement is lost, the message is delivered again."""
        self._reply(messages, b"+ACK")

    def terminate(self, messages: Sequence[Msg], reason: str) -> None:
        """Reject messages permanently, so that they are not delivered again."""
        self._reply(messages, TERMINATE + b" " + reason.encode())

    def postpone(self, messages: Sequence[Msg], seconds: float) -> None:
        """Postpone the redelivery of messages."""
        self._reply(messages, b'-NAK {"delay": %d}' % int(seconds * 1e9))

    def _reply(self, messages: Sequence[Msg], body: bytes) -> None:
        try:
            self._send([message.reply for message in messages], body)
        except QueueError as error:
            logger.info("an acknowledgement is lost, its messages are delivered again: %s", error)

    @_blocking()
    async def _send(self, _: JetStreamContext, subjects: Sequence[str], body: bytes) -> None:
        for subject in subjects:
            await self.client.publish(subject, body)
        await self.client.flush(2)

    async def _open(self) -> Client:
        credentials = platform_credentials(self._account)
        return await connect(self._url, credentials, name=f"gpu-platform {os.getpid()}")


async def _publish_one(js: JetStreamContext, one: OutgoingInvocation) -> PublishResult:
    try:
        acknowledgement = await js.publish(
            invocation_subject(one.tenant, one.function),
            one.message.payload,
            timeout=CALL_SECONDS,
            stream=INVOCATIONS,
            headers=one.message.encoded_headers(),
        )
    except nats.js.errors.APIError as error:
        is_full = error.err_code == _NOT_STORED
        status = PublishStatus.REJECTED if is_full else PublishStatus.UNKNOWN
        return PublishResult(status, error=error.description or "no reason given")
    except CALL_ERRORS as error:
        return PublishResult(PublishStatus.UNKNOWN, error=describe(error))
    return PublishResult(PublishStatus.STORED, acknowledgement.seq)


async def _get(
    js: JetStreamContext,
    *,
    seq: int,
    subject: str | None = None,
    next: bool = False,  # noqa: A002 - the client's name
) -> RawStreamMsg | None:
    """Return a message of the stream of invocations, or `None` if it does not exist."""
    try:
        return await js.get_msg(INVOCATIONS, seq=seq, subject=subject, next=next)
    except nats.js.errors.NotFoundError as error:
        if error.err_code == _NO_STREAM:
            raise
        return None


async def _delete(js: JetStreamContext, sequence: int) -> None:
    try:
        await js.delete_msg(INVOCATIONS, sequence)
    except nats.js.errors.APIError as error:
        if error.err_code not in _NO_MESSAGE:
            raise


async def _count(js: JetStreamContext, subject: str) -> int:
    info = await js.stream_info(INVOCATIONS, subjects_filter=subject)
    return (info.state.subjects or {}).get(subject, 0)


def _backlog(info: ConsumerInfo, messages: int) -> Backlog:
    pending, in_progress = info.num_pending or 0, info.num_ack_pending or 0
    return Backlog(
        pending=pending,
        in_progress=in_progress,
        exhausted=max(messages - pending - in_progress, 0),
        delivered_sequence=(info.delivered and info.delivered.stream_seq) or 0,
    )


def _stored(raw: RawStreamMsg) -> StoredMessage:
    return StoredMessage(raw.seq or 0, raw.subject or "", dict(raw.headers or {}), raw.data or b"")


_QUEUE: Final = ProcessLocal(
    lambda: Queue(settings.NATS_URL, queue_account(), replicas=settings.NATS_REPLICAS)
)


def get_queue() -> Queue:
    """Return the queue of this process.

    Raises:
        QueueUnavailable: If no queue is configured.
    """
    return _QUEUE.get()


def queue_account() -> KeyPair:
    """Return the NATS account of this platform.

    Raises:
        QueueUnavailable: If no queue is configured, or the seed is not valid.
    """
    if not settings.NATS_URL:
        raise QueueUnavailable("No queue is configured: NATS_URL is not set.")
    try:
        return KeyPair.from_seed(settings.NATS_SEED, KeyKind.ACCOUNT)
    except BadKey as error:
        raise QueueUnavailable(f"GPUPLATFORM_NATS_SEED {error}.") from error
