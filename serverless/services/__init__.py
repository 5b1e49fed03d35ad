"""Writes that people ask for, and the rows of their outcomes, one module a concern.

The only writers of this app's rows. Each call is one transaction without a
network call; API, admin, commands, tasks, relay and store all come here.
"""

from serverless.services.activation import (
    Observed,
    function_observed,
    worker_start,
    worker_stop,
)
from serverless.services.functions import (
    function_create,
    function_deleted,
    function_request_deletion,
    function_scale,
    function_spec,
    function_unmade,
    function_update,
)
from serverless.services.invocations import (
    MOST_OPEN,
    AcceptedInvocation,
    invocation_accept,
    invocation_cancel,
    invocation_replay,
    notify_relay,
)
from serverless.services.names import (
    FUNCTION_KIND,
    INVOCATION_KIND,
    OUTBOX_CHANNEL,
    ServerlessOperation,
    ServerlessTask,
)
from serverless.services.outcomes import (
    RETENTION_DAYS,
    Stored,
    invocation_dead_letter,
    invocation_fail,
    invocation_republish,
    invocations_abandon,
    invocations_prune,
    outbox_claim,
    outbox_message,
    outbox_published,
    outbox_refused,
    outbox_release,
    receipt_of,
    reports_store,
)

__all__ = [
    "FUNCTION_KIND",
    "INVOCATION_KIND",
    "MOST_OPEN",
    "OUTBOX_CHANNEL",
    "RETENTION_DAYS",
    "AcceptedInvocation",
    "Observed",
    "ServerlessOperation",
    "ServerlessTask",
    "Stored",
    "function_create",
    "function_deleted",
    "function_observed",
    "function_request_deletion",
    "function_scale",
    "function_spec",
    "function_unmade",
    "function_update",
    "invocation_accept",
    "invocation_cancel",
    "invocation_dead_letter",
    "invocation_fail",
    "invocation_replay",
    "invocation_republish",
    "invocations_abandon",
    "invocations_prune",
    "notify_relay",
    "outbox_claim",
    "outbox_message",
    "outbox_published",
    "outbox_refused",
    "outbox_release",
    "receipt_of",
    "reports_store",
    "worker_start",
    "worker_stop",
]
