"""Configuration of the streams and consumers. Pure."""

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
"""More than the maximum number of open invocations of one function."""

DUPLICATE_SECONDS: Final = 600.0
"""How long the stream drops a repeated publication: longer than a relay may be delayed."""

MAX_IN_STORE: Final = 1_000

STORE_SECONDS: Final = 10.0
"""A message that a killed result store had is delivered again after this time."""


def streams(replicas: int) -> list[StreamConfig]:
    """Return the streams; a full one refuses new messages and never drops stored ones."""
    return [
        _stream(INVOCATIONS, [INVOCATION_SUBJECTS], replicas, 4 * GIB, MAX_MESSAGES_PER_FUNCTION),
        _stream(RESULTS, [RESULT_SUBJECTS], replicas, 2 * GIB),
        _stream(ADVISORIES, list(ADVISORY_SUBJECTS), replicas, GIB // 16),
    ]


def store_consumers() -> list[tuple[str, ConsumerConfig]]:
    """Return the consumers of the result store, with their streams."""
    return [(RESULTS, _durable(RESULT_CONSUMER)), (ADVISORIES, _durable(ADVISORY_CONSUMER))]


def function_consumer(
    tenant: str, function: int, *, max_deliver: int, max_in_work: int
) -> ConsumerConfig:
    """Return the consumer that all workers of a function share.

    It has no `backoff`: that would replace `ack_wait`, so that a call that takes longer than the
    first pause would be delivered to another worker.

    Args:
        tenant: the function's tenant.
        function: the function's id.
        max_deliver: maximum number of deliveries of a message.
        max_in_work: maximum number of delivered messages without an acknowledgement.
    """
    return ConsumerConfig(
        durable_name=consumer_name(function),
        filter_subject=invocation_subject(tenant, function),
        ack_policy=AckPolicy.EXPLICIT,
        deliver_policy=DeliverPolicy.ALL,
        ack_wait=ACK_WAIT_SECONDS,
        max_deliver=max_deliver,
        max_ack_pending=max_in_work,
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
        max_ack_pending=MAX_IN_STORE,
    )
