"""Names of the object kinds, tasks, operations and notifications of this app."""

from enum import StrEnum
from typing import Final

FUNCTION_KIND: Final = "Function"
INVOCATION_KIND: Final = "Invocation"
"""Kinds of the objects of this app's operations."""

OUTBOX_CHANNEL: Final = "serverless_outbox"
"""PostgreSQL NOTIFY channel for new invocations in the outbox."""


class ServerlessTask(StrEnum):
    """Names of this app's tasks."""

    PRUNE = "serverless.prune_invocations"
    RECORD_USAGE = "serverless.record_usage"


class ServerlessOperation(StrEnum):
    """The kinds of operation on functions and invocations."""

    CREATE = "function.create"
    UPDATE = "function.update"
    SCALE = "function.scale"
    DELETE = "function.delete"
    CANCEL = "invocation.cancel"
    REPLAY = "invocation.replay"
