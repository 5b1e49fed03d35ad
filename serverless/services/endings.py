"""Ends invocations without a report of a worker: dead letters, failures and cancellations.

Each write checks the state and the publication of the row, so that it can be repeated.
"""

from typing import Final

from django.db.models import F, QuerySet
from django.db.models.functions import Now

from gpuplatform.lifecycle.transition import transition
from serverless.models import OPEN, Function, Invocation
from serverless.phases import INVOCATION_TRANSITIONS, FailureClass, InvocationState

MAX_PUBLICATIONS: Final = 10
"""Number of publications after which an invocation that the queue lost is dead-lettered."""


def invocation_dead_letter(
    key: int, publication: int, failure_class: FailureClass, error: str
) -> int:
    """Dead-letter an open invocation unless it was published again; return 1 if it changed."""
    rows = Invocation.objects.filter(pk=key, publications=publication)
    return _end(rows, InvocationState.DEAD_LETTERED, error, failure_class)


def invocation_fail(key: int, publication: int, failure_class: FailureClass, error: str) -> int:
    """Fail an open invocation whose result cannot be stored; return 1 if it changed."""
    rows = Invocation.objects.filter(pk=key, publications=publication)
    return _end(rows, InvocationState.FAILED, error, failure_class)


def invocation_republish(key: int, publication: int) -> bool:
    """Move an invocation that the queue lost back to the outbox, or dead-letter it.

    The state is unchanged, because a worker may have started the invocation. After
    `MAX_PUBLICATIONS` publications the invocation is dead-lettered.

    Returns:
        Whether the invocation is in the outbox again.
    """
    if publication >= MAX_PUBLICATIONS:
        error = f"The queue lost the message {publication} times. Check the queue server."
        invocation_dead_letter(key, publication, FailureClass.DISPATCH_ERROR, error)
        return False
    rows = Invocation.objects.filter(OPEN, pk=key, publications=publication)
    updated = rows.update(
        publications=F("publications") + 1,
        published_at=None,
        stream_sequence=None,
        relay_after=None,
    )
    return bool(updated)


def invocations_cancel_waiting(function: Function) -> int:
    """Cancel the queued invocations of a function that is being deleted; return their number."""
    rows = Invocation.objects.filter(function=function)
    error = "The function was deleted before a worker started this invocation."
    return _end(rows, InvocationState.CANCELLED, error)


def invocations_abandon(function: Function) -> int:
    """End all open invocations of a deleted function; return their number."""
    running = Invocation.objects.filter(function=function, state=InvocationState.RUNNING)
    error = "The function was deleted while this invocation was running."
    failed = _end(running, InvocationState.FAILED, error, FailureClass.DISPATCH_ERROR)
    return failed + invocations_cancel_waiting(function)


def _end(
    rows: QuerySet[Invocation],
    state: InvocationState,
    error: str,
    failure_class: FailureClass | None = None,
) -> int:
    return transition(
        rows,
        INVOCATION_TRANSITIONS,
        state,
        column="state",
        completed_at=Now(),
        failure_class=failure_class.value if failure_class else "",
        error=error,
    )
