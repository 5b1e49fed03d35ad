"""The phases of a function, the states of an invocation, and the words that explain them."""

from enum import StrEnum
from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.transition import PhaseTable


class FunctionPhase(TextChoices):
    """How a function is doing.

    ::

        Pending ──> Ready <──> Progressing        Ready: idle or serving
                      │  ^          │
                      └──> Failed <─┘             any ──> Terminating

    The API makes the first one, the activator the others; Terminating comes with a deletion.
    """

    PENDING = "Pending", "Pending"
    PROGRESSING = "Progressing", "Progressing"
    READY = "Ready", "Ready"
    FAILED = "Failed", "Failed"
    TERMINATING = "Terminating", "Terminating"


_OBSERVED = frozenset({FunctionPhase.PROGRESSING, FunctionPhase.READY, FunctionPhase.FAILED})

FUNCTION_TRANSITIONS: PhaseTable = MappingProxyType(
    {
        FunctionPhase.PENDING: _OBSERVED | {FunctionPhase.TERMINATING},
        FunctionPhase.PROGRESSING: _OBSERVED | {FunctionPhase.TERMINATING},
        FunctionPhase.READY: _OBSERVED | {FunctionPhase.TERMINATING},
        FunctionPhase.FAILED: _OBSERVED | {FunctionPhase.TERMINATING},
        FunctionPhase.TERMINATING: frozenset(),
    }
)


class FunctionReason(StrEnum):
    """Why the phase of a function is what it is."""

    IDLE = "Idle"
    SERVING = "Serving"
    ACTIVATING = "Activating"
    NO_CAPACITY = "NoCapacity"
    WORKER_FAILED = "WorkerFailed"
    QUEUE_UNAVAILABLE = "QueueUnavailable"


FUNCTION_NEXT_STEPS: MappingProxyType[FunctionReason, str] = MappingProxyType(
    {
        FunctionReason.IDLE: "Nothing to do; the next invocation starts a worker.",
        FunctionReason.SERVING: "Nothing to do.",
        FunctionReason.ACTIVATING: "Wait; a worker is starting.",
        FunctionReason.NO_CAPACITY: "Seed stock of the function's GPU spec, or raise its target.",
        FunctionReason.WORKER_FAILED: "Correct the image or the command of the function.",
        FunctionReason.QUEUE_UNAVAILABLE: "Check the queue server; nothing accepted is lost.",
    }
)
"""What a person does next, by reason."""


class InvocationMode(TextChoices):
    """Whether the caller waits for the result."""

    ASYNC = "async", "Async"
    SYNC = "sync", "Sync"


class InvocationState(TextChoices):
    """What has become of an invocation.

    ::

        Queued ──> Running ──> Succeeded | Failed | Expired
          │  ^        └──────> DeadLettered ──replay (operator)──> Queued
          │  └── never by itself
          └──> Cancelled
    """

    QUEUED = "Queued", "Queued"
    RUNNING = "Running", "Running"
    SUCCEEDED = "Succeeded", "Succeeded"
    FAILED = "Failed", "Failed"
    EXPIRED = "Expired", "Expired"
    CANCELLED = "Cancelled", "Cancelled"
    DEAD_LETTERED = "DeadLettered", "Dead-lettered"


_ENDS = frozenset(
    {
        InvocationState.SUCCEEDED,
        InvocationState.FAILED,
        InvocationState.EXPIRED,
        InvocationState.DEAD_LETTERED,
    }
)

INVOCATION_TRANSITIONS: PhaseTable = MappingProxyType(
    {
        InvocationState.QUEUED: _ENDS | {InvocationState.RUNNING, InvocationState.CANCELLED},
        InvocationState.RUNNING: _ENDS,
        InvocationState.SUCCEEDED: frozenset(),
        InvocationState.FAILED: frozenset(),
        InvocationState.EXPIRED: frozenset(),
        InvocationState.CANCELLED: frozenset(),
        InvocationState.DEAD_LETTERED: frozenset({InvocationState.QUEUED}),
    }
)


class FailureClass(StrEnum):
    """Why an invocation did not succeed; stable words for programs."""

    MALFORMED_MESSAGE = "malformed_message"
    NO_WORKER_TEMPLATE = "no_worker_template"
    ACTIVATION_TIMEOUT = "activation_timeout"
    BACKPRESSURE = "backpressure"
    DISPATCH_ERROR = "dispatch_error"
    FRAMEWORK_ERROR = "framework_error"
    FRAMEWORK_TIMEOUT = "framework_timeout"
    RESULT_STORE_ERROR = "result_store_error"
    RETRY_EXHAUSTED = "retry_exhausted"
