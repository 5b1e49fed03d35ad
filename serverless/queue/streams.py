"""How the streams and consumers are made. Repeatable; a difference is put right."""

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
MOST_A_FUNCTION: Final = 20_000
"""Messages of one function; above what is accepted of one at a time."""

DUPLICATE_SECONDS: Final = 600.0
"""How long the stream knows what it has taken: longer than a relay may be held up."""

FETCHED_AT_ONCE: Final = 1_000

STORE_SECONDS: Final = 10.0
"""A store that was killed keeps its messages for so long; a batch takes a fraction of it."""


def streams(replicas: int) -> list[StreamConfig]:
    """Return the streams, each with limits that refuse what is new, never drop what waits."""
    return [
        _stream(INVOCATIONS, [INVOCATION_SUBJECTS], replicas, 4 * GIB, MOST_A_FUNCTION),
        _stream(RESULTS, [RESULT_SUBJECTS], replicas, 2 * GIB),
        _stream(ADVISORIES, list(ADVISORY_SUBJECTS), replicas, GIB // 16),
    ]


def store_consumers() -> list[tuple[str, ConsumerConfig]]:
    """Return the consumers of the result store, with their streams."""
    return [(RESULTS, _durable(RESULT_CONSUMER)), (ADVISORIES, _durable(ADVISORY_CONSUMER))]


def function_consumer(
    tenant: str, function: int, *, max_deliver: int, most: int
) -> ConsumerConfig:
    """Return the consumer that all workers of a function share.

    `most` is how many invocations they take together. It has no `backoff`: that would replace
    `ack_wait`, and a call that takes longer than the first pause would be given to another worker.
    """
    return ConsumerConfig(
        durable_name=consumer_name(function),
        filter_subject=invocation_subject(tenant, function),
        ack_policy=AckPolicy.EXPLICIT,
        deliver_policy=DeliverPolicy.ALL,
        ack_wait=ACK_WAIT_SECONDS,
        max_deliver=max_deliver,
        max_ack_pending=most,
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


def _durable(name: str) -> ConsumerConfig:
    return ConsumerConfig(
        durable_name=name,
        ack_policy=AckPolicy.EXPLICIT,
        deliver_policy=DeliverPolicy.ALL,
        ack_wait=STORE_SECONDS,
        max_ack_pending=FETCHED_AT_ONCE,
    )
