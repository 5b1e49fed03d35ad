"""The phases of a function, the states of an invocation, and the words that explain them."""

from enum import StrEnum
from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import Explanation, next_steps
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


FUNCTION_PHASES: MappingProxyType[FunctionPhase, str] = MappingProxyType(
    {
        FunctionPhase.PENDING: "It was asked for and is not made yet.",
        FunctionPhase.PROGRESSING: "A worker is starting.",
        FunctionPhase.READY: "It is idle or serving.",
        FunctionPhase.FAILED: "No worker can be had, and the reason says why.",
        FunctionPhase.TERMINATING: "It is being deleted.",
    }
)
"""What each of them means."""

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


FUNCTION_REASONS: MappingProxyType[FunctionReason, Explanation] = MappingProxyType(
    {
        FunctionReason.IDLE: Explanation(
            "Nothing waits, and no worker runs.",
            "Nothing to do; the next invocation starts a worker.",
        ),
        FunctionReason.SERVING: Explanation(
            "Workers are ready.",
            "Nothing to do.",
        ),
        FunctionReason.ACTIVATING: Explanation(
            "Something waits, and a worker is starting.",
            "Wait; a worker is starting.",
        ),
        FunctionReason.NO_CAPACITY: Explanation(
            "No ready stock of its GPU spec is left; it is asked for again every ten seconds.",
            "Seed stock of the function's GPU spec, or raise its warm target.",
        ),
        FunctionReason.WORKER_FAILED: Explanation(
            "A worker did not start; the message says why. It is tried again, ever more seldom.",
            "Correct the image or the command of the function, or make the Secret that it names.",
        ),
        FunctionReason.QUEUE_UNAVAILABLE: Explanation(
            "The queue does not answer; workers are left as they are.",
            "Check the queue server; nothing accepted is lost.",
        ),
    }
)
"""What each of them means, and what a person does."""


class FunctionWait(StrEnum):
    """Why an operation on functions waits, beside what makes every operation wait."""

    QUEUE_UNAVAILABLE = "QueueUnavailable"
    WORKERS_STOPPING = "WorkersStopping"


FUNCTION_WAITS: MappingProxyType[FunctionWait, Explanation] = MappingProxyType(
    {
        FunctionWait.QUEUE_UNAVAILABLE: Explanation(
            "The queue does not answer.",
            "Check the queue server; the job goes on by itself.",
        ),
        FunctionWait.WORKERS_STOPPING: Explanation(
            "A deletion waits until the function's workers have ended what they are at.",
            "Wait; if it lasts, look at the workers' units.",
        ),
    }
)
"""What each of them means, and what a person does."""


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

    The end of a newer delivery may take the place of an older one's, an answer that of a failure.
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
        InvocationState.QUEUED: "It is accepted and waits for a worker.",
        InvocationState.RUNNING: "A worker has begun with it.",
        InvocationState.SUCCEEDED: "The function answered; the result is kept for seven days.",
        InvocationState.FAILED: "It did not succeed; the failure class says why.",
        InvocationState.EXPIRED: "The function took longer than it may.",
        InvocationState.CANCELLED: "Somebody took it back while it waited.",
        InvocationState.DEAD_LETTERED: "It was given up; an operator can replay it.",
    }
)
"""What each of them means."""

FAILED_STATES = (
    InvocationState.FAILED,
    InvocationState.EXPIRED,
    InvocationState.DEAD_LETTERED,
)
"""Ended by themselves, and not with an answer."""

_ENDS = frozenset({InvocationState.SUCCEEDED, *FAILED_STATES})

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


FAILURE_CLASSES: MappingProxyType[str, Explanation] = MappingProxyType(
    {
        FailureClass.MALFORMED_MESSAGE: Explanation(
            "A worker cannot read its message in the queue.",
            "Look for what else writes into the queue; then replay.",
        ),
        FailureClass.NO_WORKER_TEMPLATE: Explanation(
            "Reserved: this release gives it to no invocation.",
            "Create the function again.",
        ),
        FailureClass.ACTIVATION_TIMEOUT: Explanation(
            "Reserved: this release gives it to no invocation; what waits goes on waiting.",
            "See why the workers of the function do not start.",
        ),
        FailureClass.BACKPRESSURE: Explanation(
            "Reserved: this release gives it to no invocation; what is accepted waits.",
            "Raise the function's maxWorkers, or send less.",
        ),
        FailureClass.DISPATCH_ERROR: Explanation(
            "Its function was deleted while it ran, or it vanished from the queue ten times.",
            "Send it again with a new invocationID.",
        ),
        FailureClass.FRAMEWORK_ERROR: Explanation(
            "The function answered with an error, or broke off.",
            "Correct the function, then send it again with a new invocationID.",
        ),
        FailureClass.FRAMEWORK_TIMEOUT: Explanation(
            "The function took longer than it may.",
            "Raise timeoutSeconds, or make the function faster; then send it again with a new"
            " invocationID.",
        ),
        FailureClass.RESULT_STORE_ERROR: Explanation(
            "The result could not be stored as the worker sent it.",
            "Send it again with a new invocationID.",
        ),
        FailureClass.RETRY_EXHAUSTED: Explanation(
            "Workers began with it as often as they may and never ended it.",
            "See what ended its workers; then replay it.",
        ),
    }
)
"""What each of them means, and what a person does."""

FAILURE_NEXT_STEPS = next_steps(FAILURE_CLASSES)
"""What a person does next, by failure class."""
