"""Configurations of streams and consumers. Pure."""

from dataclasses import replace
from typing import Final

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from serverless.queue.messages import MAX_MESSAGE_BYTES
from serverless.queue.names import (
    ACK_WAIT_SECONDS,
    ADVISORIES,
    ADVISORY_CONSUMER,
    ADVISORY_SUBJECTS,
    INVOCATION_SUBJECTS,
    INVOCATIONS,
    RESULT_CONSUMER,
    RESULT_SUBJECTS,
    RESULTS,
    consumer_name,
    invocation_subject,
)

GIB: Final = 1024**3
MAX_MESSAGES_PER_FUNCTION: Final = 20_000
"""Larger than the maximum number of open invocations of one function."""

DUPLICATE_SECONDS: Final = 600.0
"""Time in seconds for which a stream drops a repeated publication.

It is longer than the maximum delay of a relay.
"""

MAX_IN_STORE: Final = 1_000
"""Maximum number of messages that the result store has fetched and not acknowledged."""

STORE_SECONDS: Final = 10.0
"""Time in seconds after which a message that a killed result store fetched is delivered again."""


def streams(replicas: int) -> list[StreamConfig]:
    """Return the streams. A full stream rejects new messages and does not drop stored messages."""
    return [
        _stream(INVOCATIONS, [INVOCATION_SUBJECTS], replicas, 4 * GIB, MAX_MESSAGES_PER_FUNCTION),
        _stream(RESULTS, [RESULT_SUBJECTS], replicas, 2 * GIB),
        _stream(ADVISORIES, list(ADVISORY_SUBJECTS), replicas, GIB // 16),
    ]


def store_consumers() -> list[tuple[str, ConsumerConfig]]:
    """Return the stream and the configuration of each consumer of the result store."""
    return [(RESULTS, _durable(RESULT_CONSUMER)), (ADVISORIES, _durable(ADVISORY_CONSUMER))]


def function_consumer(
    tenant: str, function: int, *, max_deliver: int, max_in_progress: int
) -> ConsumerConfig:
    """Return the consumer that all workers of a function share.

    The consumer has no `backoff`, because `backoff` replaces `ack_wait`: an invocation that takes
    longer than the first delay would be delivered to another worker.

    Args:
        tenant: Name of the function's tenant.
        function: Id of the function.
        max_deliver: Maximum number of deliveries of a message.
        max_in_progress: Maximum number of delivered messages that are not acknowledged.
    """
    return replace(
        _durable(consumer_name(function), ACK_WAIT_SECONDS, max_in_progress),
        filter_subject=invocation_subject(tenant, function),
        max_deliver=max_deliver,
    )


def _stream(
    name: str, subjects: list[str], replicas: int, max_bytes: int, per_subject: int = -1
) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=subjects,
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        discard=DiscardPolicy.NEW,
        discard_new_per_subject=per_subject > 0,
        max_msgs_per_subject=per_subject,
        max_bytes=max_bytes,
        max_msg_size=MAX_MESSAGE_BYTES,
        duplicate_window=DUPLICATE_SECONDS,
        num_replicas=replicas,
        deny_delete=False,
    )


def _durable(
    name: str, ack_wait: float = STORE_SECONDS, max_in_progress: int = MAX_IN_STORE
) -> ConsumerConfig:
    return ConsumerConfig(
        durable_name=name,
        ack_policy=AckPolicy.EXPLICIT,
        deliver_policy=DeliverPolicy.ALL,
        ack_wait=ack_wait,
        max_ack_pending=max_in_progress,
    )
