"""The one way of a Django process to the queue: calls that return, over a loop in the background.

Every call has a deadline. `get_queue()` is per process: a forked worker makes a connection of its
own. The sidecar does not come here; it has a loop itself.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import nats.errors
import nats.js.errors
from django.conf import settings
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerInfo, RawStreamMsg
from nats.js.client import JetStreamContext

from gpuplatform.nats.keys import BadKey, KeyKind, KeyPair
from serverless.queue.credentials import platform_credentials
from serverless.queue.errors import QueueError, QueueMissing, QueueRefused, QueueUnavailable
from serverless.queue.messages import InvocationMessage
from serverless.queue.names import INVOCATIONS, consumer_name, invocation_subject
from serverless.queue.pulling import TERMINATE, Puller
from serverless.queue.streams import function_consumer, store_consumers, streams

logger = logging.getLogger(__name__)

CALL_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 2.0
AnswerT = TypeVar("AnswerT")


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


class Queue:
    """Calls to one server from threads of one process."""

    def __init__(self, url: str, account: KeyPair, *, replicas: int = 1) -> None:
        """Nothing is connected before the first call."""
        self._url = url
        self._account = account
        self._replicas = replicas
        self._client: Client | None = None
        self._pullers: dict[tuple[str, str], Puller] = {}
        self._loop = asyncio.new_event_loop()
        self._connecting = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="queue", daemon=True)
        self._thread.start()

    def ensure(self) -> None:
        """Make the streams and the store's consumers, or put them right.

        Raises:
            QueueError: it could not be done.
        """

        async def make(js: JetStreamContext) -> None:
            for config in streams(self._replicas):
                try:
                    await js.update_stream(config)
                except nats.js.errors.NotFoundError:
                    await js.add_stream(config)
            for stream, consumer in store_consumers():
                await js.add_consumer(stream, consumer)

        self._call(make, CALL_SECONDS * 2)

    def publish(self, outgoing: Sequence[Outgoing]) -> list[PublishOutcome]:
        """Put invocations into the stream, all at once; one outcome for each, in their order."""

        async def send(js: JetStreamContext) -> list[PublishOutcome]:
            return list(await asyncio.gather(*(_publish(js, one) for one in outgoing)))

        try:
            return self._call(send, CALL_SECONDS + 1)
        except QueueError as error:
            return [Unanswered(str(error)) for _ in outgoing]

    def ensure_consumer(self, tenant: str, function: int, *, max_deliver: int, most: int) -> None:
        """Make the consumer of a function, or change it.

        Raises:
            QueueError: it could not be done.
        """
        config = function_consumer(tenant, function, max_deliver=max_deliver, most=most)
        self._call(lambda js: js.add_consumer(INVOCATIONS, config))

    def remove_function(self, tenant: str, function: int) -> None:
        """Remove everything of a function from the queue; what is gone is removed.

        Raises:
            QueueError: it could not be done.
        """

        async def remove(js: JetStreamContext) -> None:
            subject = invocation_subject(tenant, function)
            await js.purge_stream(INVOCATIONS, subject=subject)
            try:
                await js.delete_consumer(INVOCATIONS, consumer_name(function))
            except nats.js.errors.NotFoundError:
                return

        self._call(remove)

    def backlog(self, tenant: str, function: int) -> Backlog | None:
        """Return what of a function is in the queue; None if it has no consumer.

        Raises:
            QueueError: nobody knows.
        """
        subject = invocation_subject(tenant, function)

        async def look(js: JetStreamContext) -> Backlog:
            before = await _count(js, subject)
            info = await js.consumer_info(INVOCATIONS, consumer_name(function))
            return _backlog(info, min(before, await _count(js, subject)))

        try:
            return self._call(look)
        except QueueMissing:
            return None

    def message(self, sequence: int) -> StoredMessage | None:
        """Return the message of that number in the stream of invocations, if it is there.

        Raises:
            QueueError: nobody knows, or there is no stream.
        """

        async def read(js: JetStreamContext) -> StoredMessage | None:
            try:
                found = await js.get_msg(INVOCATIONS, seq=sequence)
            except nats.js.errors.NotFoundError as error:
                if error.err_code == _NO_STREAM:
                    raise
                return None
            return _stored(found)

        return self._call(read)

    def messages(self, tenant: str, function: int, up_to: int, limit: int) -> list[StoredMessage]:
        """Return the oldest messages of a function up to that number.

        Raises:
            QueueError: nobody knows.
        """
        subject = invocation_subject(tenant, function)

        async def read(js: JetStreamContext) -> list[StoredMessage]:
            found: list[StoredMessage] = []
            while len(found) < limit:
                after = found[-1].sequence + 1 if found else 1
                try:
                    raw = await js.get_msg(INVOCATIONS, seq=after, subject=subject, next=True)
                except nats.js.errors.NotFoundError as error:
                    if error.err_code == _NO_STREAM:
                        raise
                    break
                if (raw.seq or 0) > up_to:
                    break
                found.append(_stored(raw))
            return found

        return self._call(read, CALL_SECONDS * 2)

    def delete(self, sequence: int) -> None:
        """Delete one invocation from the stream; what is gone is deleted.

        Raises:
            QueueError: it could not be done.
        """

        async def remove(js: JetStreamContext) -> None:
            try:
                await js.delete_msg(INVOCATIONS, sequence)
            except nats.js.errors.APIError as error:
                if error.err_code not in _NO_MESSAGE:
                    raise

        self._call(remove)

    def last_sequence(self, stream: str) -> int:
        """Return the number of the newest message that the stream ever had.

        Raises:
            QueueError: nobody knows.
        """
        return self._call(lambda js: js.stream_info(stream)).state.last_seq

    def settled_sequence(self, stream: str, consumer: str) -> int:
        """Return the number up to which everything was acknowledged.

        Raises:
            QueueError: nobody knows.
        """

        async def look(js: JetStreamContext) -> int:
            last = (await js.stream_info(stream)).state.last_seq
            info = await js.consumer_info(stream, consumer)
            if not info.num_pending and not info.num_ack_pending:
                return last
            return (info.ack_floor and info.ack_floor.stream_seq) or 0

        return self._call(look)

    def fetch(self, stream: str, consumer: str, batch: int, seconds: float) -> list[Received]:
        """Return messages for this process: what is there, or the first that comes in time.

        Raises:
            QueueError: the server is away, or there is no such consumer.
        """

        async def pull(_: JetStreamContext) -> list[Received]:
            puller = self._pullers.get((stream, consumer))
            if puller is None:
                puller = Puller(self._connected(), stream, consumer)
                self._pullers[(stream, consumer)] = puller
            return [_received(message) for message in await puller.fetch(batch, seconds)]

        return self._call(pull, seconds + CALL_SECONDS)

    def acknowledge(self, received: Sequence[Received]) -> None:
        """Tell the server that these are done. One that it does not hear of comes again."""
        self._answer(received, b"+ACK")

    def terminate(self, received: Sequence[Received], why: str) -> None:
        """Tell the server that nobody shall get these again."""
        self._answer(received, TERMINATE + b" " + why.encode())

    def postpone(self, received: Sequence[Received], seconds: float) -> None:
        """Have these again later."""
        self._answer(received, b'-NAK {"delay": %d}' % int(seconds * 1e9))

    def close(self) -> None:
        """Close the connection and end the thread."""

        async def disconnect() -> None:
            try:
                if self._client is not None:
                    await asyncio.wait_for(self._client.close(), CONNECT_SECONDS / 2)
            except (nats.errors.Error, OSError) as error:
                logger.debug("the connection to the queue did not close: %s", error)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(disconnect(), self._loop).result(CALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONNECT_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def _answer(self, received: Sequence[Received], body: bytes) -> None:
        async def answer(_: JetStreamContext) -> None:
            for one in received:
                await self._connected().publish(one.raw.reply, body)
            await self._connected().flush(2)

        try:
            self._call(answer)
        except QueueError as error:
            logger.info(
                "the queue does not hear an acknowledgement, it will come again: %s", error
            )

    def _connected(self) -> Client:
        if self._client is None or not self._client.is_connected:
            raise QueueUnavailable("The queue server is not connected.")
        return self._client

    def _call(
        self,
        call: Callable[[JetStreamContext], Awaitable[AnswerT]],
        seconds: float = CALL_SECONDS,
    ) -> AnswerT:
        """Make the call on the loop and wait for it."""

        async def run() -> AnswerT:
            js = await self._context()
            return await asyncio.wait_for(call(js), seconds)

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result(seconds + CONNECT_SECONDS + 1)
        except QueueError:
            raise
        except (nats.js.errors.NotFoundError, nats.js.errors.NoStreamResponseError) as error:
            raise QueueMissing(f"The queue does not have it: {error}") from error
        except nats.js.errors.ServiceUnavailableError as error:
            raise QueueUnavailable(f"The queue is not ready: {error}") from error
        except nats.js.errors.APIError as error:
            raise QueueRefused(f"The queue refuses: {error.description}") from error
        except (nats.errors.Error, OSError) as error:
            future.cancel()
            why = str(error) or "no answer in time"
            raise QueueUnavailable(f"The queue server does not answer: {why}.") from error

    async def _context(self) -> JetStreamContext:
        """Return the connection's context, connecting if there is none."""
        async with self._connecting:
            if self._client is None or self._client.is_closed:
                self._client = await self._connect()
                self._pullers = {}
        return self._connected().jetstream(timeout=CALL_SECONDS)

    async def _connect(self) -> Client:
        client = Client()
        options: dict[str, Any] = {
            **platform_credentials(self._account).callbacks(),
            "name": f"gpu-platform {os.getpid()}",
            "connect_timeout": CONNECT_SECONDS,
            "reconnect_time_wait": 0.2,
            "ping_interval": 10,
            "pending_size": 64 * 1024 * 1024,
            "error_cb": _log,
        }
        try:
            # The first attempt decides; a connection that was there comes back by itself.
            await asyncio.wait_for(
                client.connect(self._url, **options, max_reconnect_attempts=-1), CONNECT_SECONDS
            )
        except (nats.errors.Error, OSError) as error:
            await client.close()
            why = str(error) or "no answer in time"
            raise QueueUnavailable(f"The queue server cannot be reached: {why}.") from error
        return client


_NO_STREAM: Final = 10059
_NOT_STORED: Final = 10077
_NO_MESSAGE: Final = frozenset({10037, 10043, 10057})
"""Codes of JetStream: no stream, a limit is reached, no message or not any more."""


async def _publish(js: JetStreamContext, one: Outgoing) -> PublishOutcome:
    subject = invocation_subject(one.tenant, one.function)
    try:
        made = await js.publish(
            subject,
            one.message.payload,
            timeout=CALL_SECONDS,
            stream=INVOCATIONS,
            headers=one.message.encoded_headers(),
        )
    except nats.js.errors.APIError as error:
        why = error.description or "no reason given"
        return Refused(why) if error.err_code == _NOT_STORED else Unanswered(why)
    except (nats.errors.Error, OSError) as error:
        return Unanswered(str(error) or "no answer in time")
    return Published(made.seq)


async def _count(js: JetStreamContext, subject: str) -> int:
    info = await js.stream_info(INVOCATIONS, subjects_filter=subject)
    return (info.state.subjects or {}).get(subject, 0)


def _backlog(info: ConsumerInfo, messages: int) -> Backlog:
    pending, in_work = info.num_pending or 0, info.num_ack_pending or 0
    return Backlog(
        pending=pending,
        in_work=in_work,
        exhausted=max(messages - pending - in_work, 0),
        waiting_pulls=info.num_waiting or 0,
        delivered_sequence=(info.delivered and info.delivered.stream_seq) or 0,
    )


def _stored(raw: RawStreamMsg) -> StoredMessage:
    return StoredMessage(raw.seq or 0, raw.subject or "", dict(raw.headers or {}), raw.data or b"")


def _received(message: Msg) -> Received:
    metadata = message.metadata
    return Received(
        subject=message.subject,
        body=message.data,
        sequence=metadata.sequence.stream,
        deliveries=metadata.num_delivered,
        raw=message,
    )


async def _log(error: Exception) -> None:
    logger.info("the connection to the queue: %s", str(error) or type(error).__name__)


class _Process:
    """The queue of this process."""

    lock = threading.Lock()
    key: tuple[int, str] = (0, "")
    queue: Queue | None = None


def get_queue() -> Queue:
    """Return the queue of this process.

    Raises:
        QueueUnavailable: none is configured.
    """
    with _Process.lock:
        key = (os.getpid(), settings.NATS_URL)
        if _Process.queue is None or _Process.key != key:
            _Process.queue = Queue(
                settings.NATS_URL, queue_account(), replicas=settings.NATS_REPLICAS
            )
            _Process.key = key
        return _Process.queue


def queue_account() -> KeyPair:
    """Return the account that this platform signs for.

    Raises:
        QueueUnavailable: none is configured.
    """
    if not settings.NATS_URL:
        raise QueueUnavailable("No queue is configured: NATS_URL is not set.")
    try:
        return KeyPair.from_seed(settings.NATS_SEED, KeyKind.ACCOUNT)
    except BadKey as error:
        raise QueueUnavailable(f"GPUPLATFORM_NATS_SEED {error}.") from error
