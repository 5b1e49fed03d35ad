"""Names of this app's objects, tasks, operations and notifications."""

from enum import StrEnum
from typing import Final

FUNCTION_KIND: Final = "Function"
INVOCATION_KIND: Final = "Invocation"
"""The kinds of object in this app's operations."""

OUTBOX_CHANNEL: Final = "serverless_outbox"
"""PostgreSQL's NOTIFY channel: the outbox has a new invocation."""


class ServerlessTask(StrEnum):
    """Names of this app's tasks."""

    PRUNE = "serverless.prune_invocations"


class ServerlessOperation(StrEnum):
    """The kinds of operation on functions and invocations."""

    CREATE = "function.create"
    UPDATE = "function.update"
    SCALE = "function.scale"
    DELETE = "function.delete"
    CANCEL = "invocation.cancel"
    REPLAY = "invocation.replay"
