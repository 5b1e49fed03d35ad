"""Phases and reasons of functions, and states and failure classes of invocations."""

from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import Explanation
from gpuplatform.lifecycle.transition import PhaseTable
from gpuplatform.workloads.causes import FAILURE_CAUSES, StartupCause


class FunctionPhase(TextChoices):
    """The phases of a function.

    ::

        Pending ──> Ready <──> Progressing        Ready: idle or serving
                      │  ^          │
                      └──> Failed <─┘             any ──> Terminating

    The API sets Pending and Terminating. The activator sets the other phases.
    """

    PENDING = "Pending", "Pending"
    PROGRESSING = "Progressing", "Progressing"
    READY = "Ready", "Ready"
    FAILED = "Failed", "Failed"
    TERMINATING = "Terminating", "Terminating"


FUNCTION_PHASES: MappingProxyType[FunctionPhase, str] = MappingProxyType(
    {
        FunctionPhase.PENDING: "The function is accepted and not created yet.",
        FunctionPhase.PROGRESSING: "A worker is starting.",
        FunctionPhase.READY: "The function is idle or serves invocations.",
        FunctionPhase.FAILED: "No worker can start. See the reason.",
        FunctionPhase.TERMINATING: "The function is being deleted.",
    }
)
"""Meanings of the phases."""

_OBSERVED = {FunctionPhase.PROGRESSING, FunctionPhase.READY, FunctionPhase.FAILED}

FUNCTION_TRANSITIONS: PhaseTable = MappingProxyType(
    {
        **dict.fromkeys(
            {FunctionPhase.PENDING, *_OBSERVED}, frozenset({*_OBSERVED, FunctionPhase.TERMINATING})
        ),
        FunctionPhase.TERMINATING: frozenset(),
    }
)


class FunctionReason(StrEnum):
    """The reasons for the phase of a function."""

    IDLE = "Idle"
    SERVING = "Serving"
    ACTIVATING = "Activating"
    NO_CAPACITY = "NoCapacity"
    QUOTA_REACHED = "QuotaReached"
    SPEC_UNAVAILABLE = "SpecUnavailable"
    WORKER_FAILED = "WorkerFailed"
    QUEUE_UNAVAILABLE = "QueueUnavailable"
    TENANT_SUSPENDED = "TenantSuspended"


_WORKER_STEPS = {
    StartupCause.IMAGE_PULL_FAILED: "Correct the image of the function, or push it, and check that"
    " the node can access the registry. The platform retries automatically.",
    StartupCause.OUT_OF_MEMORY: "Reduce the memory usage of the program, or select a GPU spec with"
    " more memory for the function.",
    StartupCause.CONTAINER_CREATE_FAILED: "Correct the command of the function, or create the"
    " Secret that it references.",
    StartupCause.CONTAINER_EXITED: "Correct the command, the arguments or the image of the"
    " function.",
}
"""Next steps that are different for functions, because failed workers are replaced."""

WORKER_CAUSES: MappingProxyType[str, Explanation] = MappingProxyType(
    {
        cause: replace(one, next_step=_WORKER_STEPS.get(StartupCause(cause), one.next_step))
        for cause, one in FAILURE_CAUSES.items()
    }
)
"""Meanings and next steps of the causes of a failed worker."""

FUNCTION_REASONS: MappingProxyType[FunctionReason, Explanation] = MappingProxyType(
    {
        FunctionReason.IDLE: Explanation(
            "No invocation is waiting or running.",
            "No action is necessary. The next invocation starts a worker.",
            is_well=True,
        ),
        FunctionReason.SERVING: Explanation(
            "Workers are ready.", "No action is necessary.", is_well=True
        ),
        FunctionReason.ACTIVATING: Explanation(
            "Invocations are queued, and a worker is starting.", "Wait until a worker is ready."
        ),
        FunctionReason.NO_CAPACITY: Explanation(
            "No stock of the GPU spec is ready. The workers wait in the capacity queue.",
            "Seed stock of the GPU spec, or increase the warm target of the GPU spec.",
        ),
        FunctionReason.QUOTA_REACHED: Explanation(
            "The tenant has reached the limit in the message. The platform retries.",
            "Stop units that are not needed, or ask an operator for a higher limit.",
        ),
        FunctionReason.SPEC_UNAVAILABLE: Explanation(
            "The function's GPU spec is disabled or not in the catalogue. The platform retries.",
            "Select another GPU spec for the function, or ask an operator to enable the GPU spec.",
        ),
        FunctionReason.WORKER_FAILED: Explanation(
            "A worker failed to start. See the cause and the message. The platform retries with"
            " increasing delays.",
            "Correct the image or the command, or create the Secret that the function references.",
            causes=WORKER_CAUSES,
        ),
        FunctionReason.QUEUE_UNAVAILABLE: Explanation(
            "The queue is unavailable. Workers are neither started nor stopped.",
            "Check the queue server. Accepted invocations are not lost.",
        ),
        FunctionReason.TENANT_SUSPENDED: Explanation(
            "The tenant is suspended.", "Ask an operator to resume the tenant."
        ),
    }
)
"""Meanings and next steps of the reasons."""


class FunctionWait(StrEnum):
    """The reasons for which operations on functions wait, in addition to the general reasons."""

    QUEUE_UNAVAILABLE = "QueueUnavailable"
    WORKERS_STOPPING = "WorkersStopping"


FUNCTION_WAITS: MappingProxyType[FunctionWait, Explanation] = MappingProxyType(
    {
        FunctionWait.QUEUE_UNAVAILABLE: Explanation(
            "The queue is unavailable.",
            "Check the queue server. The operation continues when the queue is available.",
        ),
        FunctionWait.WORKERS_STOPPING: Explanation(
            "A deletion waits until the workers of the function have finished their invocations.",
            "Wait. If the deletion takes too long, check the GPU units of the workers.",
        ),
    }
)
"""Meanings and next steps of the reasons for waiting."""


class InvocationMode(TextChoices):
    """The modes of an invocation: whether the caller waits for the result."""

    ASYNC = "async", "Async"
    SYNC = "sync", "Sync"


class InvocationState(TextChoices):
    """The states of an invocation.

    ::

        Queued ──> Running ──> Succeeded | Failed | Expired
          │           └──────> DeadLettered
          └──> Cancelled | Expired

        Failed | Expired | DeadLettered ──replay (operator)──> Queued

    The result of a newer attempt replaces an older result, and a success replaces a failure. An
    invocation that ended before a worker started it (`NEVER_STARTED`) keeps its end: whether the
    row is still Queued decides between the expiry and the report of a worker, as for a
    cancellation.
    """

    QUEUED = "Queued", "Queued"
    RUNNING = "Running", "Running"
    SUCCEEDED = "Succeeded", "Succeeded"
    FAILED = "Failed", "Failed"
    EXPIRED = "Expired", "Expired"
    CANCELLED = "Cancelled", "Cancelled"
    DEAD_LETTERED = "DeadLettered", "Dead-lettered"


INVOCATION_STATES: MappingProxyType[InvocationState, str] = MappingProxyType(
    {
        InvocationState.QUEUED: "The invocation is accepted and waits for a worker.",
        InvocationState.RUNNING: "A worker has started the invocation.",
        InvocationState.SUCCEEDED: "The function responded. The result is stored for seven days.",
        InvocationState.FAILED: "The invocation failed. See the failure class.",
        InvocationState.EXPIRED: (
            "No worker started the invocation in time, or the function exceeded the timeout. See"
            " the failure class."
        ),
        InvocationState.CANCELLED: "The invocation was cancelled while it was queued.",
        InvocationState.DEAD_LETTERED: ("The invocation used all attempts without a response."),
    }
)
"""Meanings of the states."""

FAILED_STATES = (InvocationState.FAILED, InvocationState.EXPIRED, InvocationState.DEAD_LETTERED)
"""The states of invocations that ended without success and were not cancelled.

Operators can replay them.
"""

_ENDS = frozenset({InvocationState.SUCCEEDED, *FAILED_STATES})

INVOCATION_TRANSITIONS: PhaseTable = MappingProxyType(
    {
        InvocationState.QUEUED: _ENDS | {InvocationState.RUNNING, InvocationState.CANCELLED},
        InvocationState.RUNNING: _ENDS,
        **dict.fromkeys({*_ENDS, InvocationState.CANCELLED}, frozenset()),
        **dict.fromkeys(FAILED_STATES, frozenset({InvocationState.QUEUED})),
    }
)


class FailureClass(StrEnum):
    """Codes that explain why an invocation did not succeed."""

    MALFORMED_MESSAGE = "malformed_message"
    NO_WORKER_TEMPLATE = "no_worker_template"
    ACTIVATION_TIMEOUT = "activation_timeout"
    BACKPRESSURE = "backpressure"
    DISPATCH_ERROR = "dispatch_error"
    FRAMEWORK_ERROR = "framework_error"
    FRAMEWORK_TIMEOUT = "framework_timeout"
    QUEUE_TIMEOUT = "queue_timeout"
    CALLER_DISCONNECTED = "caller_disconnected"
    RESULT_STORE_ERROR = "result_store_error"
    RESULT_TOO_LARGE = "result_too_large"
    RETRY_EXHAUSTED = "retry_exhausted"


NEVER_STARTED = frozenset({FailureClass.QUEUE_TIMEOUT, FailureClass.CALLER_DISCONNECTED})
"""The failure classes of expired invocations that no worker started. A late result is ignored."""

BLOCKING_REASONS = frozenset(
    {
        FunctionReason.NO_CAPACITY,
        FunctionReason.QUOTA_REACHED,
        FunctionReason.SPEC_UNAVAILABLE,
        FunctionReason.WORKER_FAILED,
        FunctionReason.QUEUE_UNAVAILABLE,
    }
)
"""The reasons for which a function cannot serve invocations."""

FAILURE_CLASSES: MappingProxyType[str, Explanation] = MappingProxyType(
    {
        FailureClass.MALFORMED_MESSAGE: Explanation(
            "A worker cannot decode the message of the invocation in the queue.",
            "Check whether other programs write to the queue, then replay the invocation.",
            title="The message cannot be decoded",
        ),
        FailureClass.NO_WORKER_TEMPLATE: Explanation(
            "Reserved. This release does not use it.", "Create the function again."
        ),
        FailureClass.ACTIVATION_TIMEOUT: Explanation(
            "Reserved. In this release, invocations remain queued.",
            "Find out why the workers of the function do not start.",
        ),
        FailureClass.BACKPRESSURE: Explanation(
            "Reserved. In this release, accepted invocations remain queued.",
            "Increase maxWorkers of the function, or send fewer invocations.",
        ),
        FailureClass.DISPATCH_ERROR: Explanation(
            "The function was deleted while the invocation was running, or the queue lost the"
            " invocation ten times.",
            "Invoke the function again with a new invocationID.",
            title="The invocation was lost",
        ),
        FailureClass.FRAMEWORK_ERROR: Explanation(
            "The function responded with an error, or closed the connection.",
            "Correct the function, then replay the invocation, or invoke the function again with a"
            " new invocationID.",
            title="The function failed",
        ),
        FailureClass.FRAMEWORK_TIMEOUT: Explanation(
            "The function exceeded the timeout.",
            "Make the function faster, then replay the invocation, or increase timeoutSeconds and"
            " invoke the function again with a new invocationID.",
            title="The function exceeded the timeout",
        ),
        FailureClass.QUEUE_TIMEOUT: Explanation(
            "No worker started the invocation within its `expiresInSeconds`. The message contains"
            " the reason for which the function could not start it.",
            "Resolve the reason, then replay the invocation, or invoke the function again with a"
            " new invocationID.",
            title="No worker started in time",
        ),
        FailureClass.CALLER_DISCONNECTED: Explanation(
            "The caller closed the connection of a synchronous call before a worker started the"
            " invocation.",
            "Repeat the request to queue the invocation again, or use the mode `async`.",
            title="The caller left",
        ),
        FailureClass.RESULT_STORE_ERROR: Explanation(
            "The database rejected the result that the worker sent.",
            "Invoke the function again with a new invocationID.",
            title="The result could not be stored",
        ),
        FailureClass.RESULT_TOO_LARGE: Explanation(
            "The function responded, but its response is larger than 1 MiB. Only the first part"
            " is stored.",
            "Change the function so that it stores large results elsewhere and returns their URL,"
            " then replay the invocation.",
            title="The result is too large",
        ),
        FailureClass.RETRY_EXHAUSTED: Explanation(
            "The invocation used all attempts, and no worker completed it.",
            "Check the logs of the workers, then replay the invocation.",
            title="No worker completed the invocation",
        ),
    }
)
"""Meanings and next steps of the failure classes."""
