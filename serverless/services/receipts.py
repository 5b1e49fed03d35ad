"""Receipts prove that the platform sent a message and that the sender of a report received it.

A receipt is an HMAC of the id of the invocation's row, the publication and the invocationID. Only
the platform can create a receipt, and only workers that received the message know it.
"""

import logging

from django.utils.crypto import constant_time_compare, salted_hmac

from serverless.queue.messages import (
    InvocationMessage,
    MalformedMessage,
    Report,
    decode_invocation,
)
from serverless.queue.values import StoredMessage

logger = logging.getLogger(__name__)


def receipt_of(key: int, publication: int, invocation_id: str) -> str:
    """Return the receipt of one publication of an invocation."""
    value = f"{key}/{publication}/{invocation_id}"
    return salted_hmac("serverless.receipt", value, algorithm="sha256").hexdigest()


def has_valid_receipt(message: InvocationMessage | Report, invocation_id: str) -> bool:
    """Return whether a message contains the receipt of its invocation."""
    expected = receipt_of(message.key, message.publication, invocation_id)
    return constant_time_compare(message.receipt, expected)


def read_invocation(message: StoredMessage) -> InvocationMessage | None:
    """Return the invocation in a message, or `None` if the platform did not write the message."""
    try:
        invocation = decode_invocation(message.headers, message.body)
    except MalformedMessage as error:
        logger.warning("message %d of the queue is malformed: %s", message.sequence, error)
        return None
    return invocation if has_valid_receipt(invocation, invocation.invocation_id) else None
