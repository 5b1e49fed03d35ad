"""Phases and reasons of a function, states and failure classes of an invocation."""

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

    The API sets the first one and, for a deletion, Terminating; the activator sets the others.
    """

    PENDING = "Pending", "Pending"
    PROGRESSING = "Progressing", "Progressing"
    READY = "Ready", "Ready"
    FAILED = "Failed", "Failed"
    TERMINATING = "Terminating", "Terminating"


FUNCTION_PHASES: MappingProxyType[FunctionPhase, str] = MappingProxyType(
    {
        FunctionPhase.PENDING: "It is accepted and not created yet.",
        FunctionPhase.PROGRESSING: "A worker is starting.",
        FunctionPhase.READY: "It is idle or serving.",
        FunctionPhase.FAILED: "No worker can start; the reason explains why.",
        FunctionPhase.TERMINATING: "It is being deleted.",
    }
)
"""Meanings."""

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
    """The reasons of a function's phase."""

    IDLE = "Idle"
    SERVING = "Serving"
    ACTIVATING = "Activating"
    NO_CAPACITY = "NoCapacity"
    WORKER_FAILED = "WorkerFailed"
    QUEUE_UNAVAILABLE = "QueueUnavailable"


_WORKER_STEPS = {
    StartupCause.IMAGE_PULL_FAILED: "Correct the image of the function, or push it, and check that"
    " the node can access the registry. The platform retries automatically.",
    StartupCause.OUT_OF_MEMORY: "Reduce the memory usage of the program, or update the function to"
    " a GPU spec with more memory.",
    StartupCause.CONTAINER_CREATE_FAILED: "Correct the command of the function, or create the"
    " Secret that it references.",
    StartupCause.CONTAINER_EXITED: "Correct the command of the function, its arguments or the"
    " image.",
}
"""Next steps that differ for a function, whose failed workers are replaced."""

WORKER_CAUSES: MappingProxyType[str, Explanation] = MappingProxyType(
    {
        cause: replace(one, next_step=_WORKER_STEPS.get(StartupCause(cause), one.next_step))
        for cause, one in FAILURE_CAUSES.items()
    }
)
"""Causes of a failed worker: meanings and next steps."""

FUNCTION_REASONS: MappingProxyType[FunctionReason, Explanation] = MappingProxyType(
    {
        FunctionReason.IDLE: Explanation(
            "No invocation is waiting or running.",
            "Nothing to do; the next invocation starts a worker.",
            is_well=True,
        ),
        FunctionReason.SERVING: Explanation("Workers are ready.", "Nothing to do.", is_well=True),
        FunctionReason.ACTIVATING: Explanation(
            "Invocations are waiting, and a worker is starting.", "Wait until a worker is ready."
        ),
        FunctionReason.NO_CAPACITY: Explanation(
            "No stock of its GPU spec is ready; the platform retries every ten seconds.",
            "Seed stock of the function's GPU spec, or raise its warm target.",
        ),
        FunctionReason.WORKER_FAILED: Explanation(
            "A worker did not start; cause and message explain why. The platform retries with"
            " increasing delays.",
            "Correct the image or the command of the function, or create the Secret it names.",
            causes=WORKER_CAUSES,
        ),
        FunctionReason.QUEUE_UNAVAILABLE: Explanation(
            "The queue is unavailable; workers are neither started nor stopped.",
            "Check the queue server; accepted invocations are not lost.",
        ),
    }
)
"""Meanings and next steps."""


class FunctionWait(StrEnum):
    """The reasons for which only operations on functions wait."""

    QUEUE_UNAVAILABLE = "QueueUnavailable"
    WORKERS_STOPPING = "WorkersStopping"


FUNCTION_WAITS: MappingProxyType[FunctionWait, Explanation] = MappingProxyType(
    {
        FunctionWait.QUEUE_UNAVAILABLE: Explanation(
            "The queue is unavailable.",
            "Check the queue server; the operation then continues automatically.",
        ),
        FunctionWait.WORKERS_STOPPING: Explanation(
            "A deletion waits until the function's workers have finished their invocations.",
            "Wait; if it takes too long, check the GPU units of the workers.",
        ),
    }
)
"""Meanings and next steps."""


class InvocationMode(TextChoices):
    """Whether the caller waits for the result."""

    ASYNC = "async", "Async"
    SYNC = "sync", "Sync"


class InvocationState(TextChoices):
    """The states of an invocation.

    ::

        Queued ──> Running ──> Succeeded | Failed | Expired
          │           └──────> DeadLettered ──replay (operator)──> Queued
          └──> Cancelled

    The result of a newer attempt replaces that of an older one, and a success a failure.
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
        InvocationState.RUNNING: "A worker has started it.",
        InvocationState.SUCCEEDED: "The function answered; the result is stored for seven days.",
        InvocationState.FAILED: "It did not succeed; the failure class explains why.",
        InvocationState.EXPIRED: "The function exceeded the timeout.",
        InvocationState.CANCELLED: "It was cancelled while it was queued.",
        InvocationState.DEAD_LETTERED: (
            "It used all its attempts without an answer; an operator can replay it."
        ),
    }
)
"""Meanings."""

FAILED_STATES = (InvocationState.FAILED, InvocationState.EXPIRED, InvocationState.DEAD_LETTERED)
"""Ended without success, and not cancelled."""

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
    """The codes that explain why an invocation did not succeed."""

    MALFORMED_MESSAGE = "malformed_message"
    NO_WORKER_TEMPLATE = "no_worker_template"
    ACTIVATION_TIMEOUT = "activation_timeout"
    BACKPRESSURE = "backpressure"
    DISPATCH_ERROR = "dispatch_error"
    FRAMEWORK_ERROR = "framework_error"
    FRAMEWORK_TIMEOUT = "framework_timeout"
    RESULT_STORE_ERROR = "result_store_error"
    RETRY_EXHAUSTED = "retry_exhausted"


BLOCKING_REASONS = frozenset(
    {FunctionReason.NO_CAPACITY, FunctionReason.WORKER_FAILED, FunctionReason.QUEUE_UNAVAILABLE}
)
"""Reasons for which a function cannot serve invocations."""

FAILURE_CLASSES: MappingProxyType[str, Explanation] = MappingProxyType(
    {
        FailureClass.MALFORMED_MESSAGE: Explanation(
            "A worker cannot decode its message in the queue.",
            "Check for other programs that write to the queue, then replay the invocation.",
            title="The message cannot be decoded",
        ),
        FailureClass.NO_WORKER_TEMPLATE: Explanation(
            "Reserved; not used in this release.", "Create the function again."
        ),
        FailureClass.ACTIVATION_TIMEOUT: Explanation(
            "Reserved; not used in this release: invocations stay queued.",
            "Find out why the workers of the function do not start.",
        ),
        FailureClass.BACKPRESSURE: Explanation(
            "Reserved; not used in this release: accepted invocations stay queued.",
            "Raise the function's maxWorkers, or send fewer invocations.",
        ),
        FailureClass.DISPATCH_ERROR: Explanation(
            "Its function was deleted while it was running, or the queue lost it ten times.",
            "Invoke the function again with a new invocationID.",
            title="The invocation was lost",
        ),
        FailureClass.FRAMEWORK_ERROR: Explanation(
            "The function answered with an error, or closed the connection.",
            "Correct the function, then invoke it again with a new invocationID.",
            title="The function failed",
        ),
        FailureClass.FRAMEWORK_TIMEOUT: Explanation(
            "The function exceeded the timeout.",
            "Raise timeoutSeconds, or make the function faster; then invoke it again with a new"
            " invocationID.",
            title="The function exceeded the timeout",
        ),
        FailureClass.RESULT_STORE_ERROR: Explanation(
            "The result could not be stored as the worker sent it.",
            "Invoke the function again with a new invocationID.",
            title="The result could not be stored",
        ),
        FailureClass.RETRY_EXHAUSTED: Explanation(
            "It used all its attempts; no worker completed it.",
            "Check the logs of its workers, then replay it.",
            title="No worker completed it",
        ),
    }
)
"""Meanings and next steps."""
