"""The one way of a Django process to the queue: streams, consumers and what lies in them.

Every call has a deadline. `get_queue()` is per process: a forked worker makes a connection of its
own. The sidecar does not come here; it has a loop itself.
"""

import asyncio
import os
import threading
from collections.abc import Sequence
from typing import Final

import nats.errors
import nats.js.errors
from django.conf import settings
from nats.js.api import ConsumerInfo, RawStreamMsg
from nats.js.client import JetStreamContext

from gpuplatform.nats.keys import BadKey, KeyKind, KeyPair
from serverless.queue.connection import CALL_SECONDS
from serverless.queue.deliveries import Deliveries
from serverless.queue.errors import QueueError, QueueMissing, QueueUnavailable
from serverless.queue.names import (
    INVOCATION_SUBJECTS,
    INVOCATIONS,
    consumer_name,
    function_of_subject,
    invocation_subject,
)
from serverless.queue.streams import function_consumer, store_consumers, streams
from serverless.queue.values import (
    Backlog,
    Outgoing,
    Published,
    PublishOutcome,
    Received,
    Refused,
    StoredMessage,
    Unanswered,
)

__all__ = [
    "Backlog",
    "Outgoing",
    "PublishOutcome",
    "Published",
    "Queue",
    "Received",
    "Refused",
    "StoredMessage",
    "Unanswered",
    "get_queue",
    "queue_account",
]

_NO_STREAM: Final = 10059
_NOT_STORED: Final = 10077
_NO_MESSAGE: Final = frozenset({10037, 10043, 10057})
"""Codes of JetStream: no stream, a limit is reached, no message or not any more."""


class Queue(Deliveries):
    """Calls to one server from threads of one process."""

    def __init__(self, url: str, account: KeyPair, *, replicas: int = 1) -> None:
        """Nothing is connected before the first call."""
        super().__init__(url, account)
        self._replicas = replicas

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

    def functions(self, *, known: int) -> set[tuple[str, int]]:
        """Return tenant and number of every function of which something is in the queue.

        Those of which it is a consumer alone are found only if there are more than `known`.

        Raises:
            QueueError: nobody knows, or there is no stream.
        """

        async def look(js: JetStreamContext) -> set[tuple[str, int]]:
            info = await js.stream_info(INVOCATIONS, subjects_filter=INVOCATION_SUBJECTS)
            subjects = list(info.state.subjects or {})
            if info.state.consumer_count > known:
                seen = 0
                while page := await js.consumers_info(INVOCATIONS, offset=seen):
                    seen += len(page)
                    subjects += [one.config.filter_subject or "" for one in page]
            return {found for one in subjects if (found := function_of_subject(one))}

        return self._call(look, CALL_SECONDS * 2)

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
        self._call(lambda js: _delete(js, sequence))

    def delete_of(self, tenant: str, function: int, sequences: Sequence[int]) -> None:
        """Delete these if they are invocations of that function; all at once.

        Raises:
            QueueError: it is not known of all whether they are gone.
        """
        subject = invocation_subject(tenant, function)

        async def remove(js: JetStreamContext) -> None:
            await asyncio.gather(*(_delete_of(js, one, subject) for one in sequences))

        self._call(remove, CALL_SECONDS * 2)

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


async def _delete(js: JetStreamContext, sequence: int) -> None:
    try:
        await js.delete_msg(INVOCATIONS, sequence)
    except nats.js.errors.APIError as error:
        if error.err_code not in _NO_MESSAGE:
            raise


async def _delete_of(js: JetStreamContext, sequence: int, subject: str) -> None:
    try:
        found = await js.get_msg(INVOCATIONS, seq=sequence)
    except nats.js.errors.NotFoundError as error:
        if error.err_code == _NO_STREAM:
            raise
        return
    if found.subject == subject:
        await _delete(js, sequence)


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
