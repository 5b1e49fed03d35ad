"""Ends invocations without a result of a worker: dead letters, expiries and cancellations.

Each write checks the state and the publication of the row, so that it can be repeated.
"""

from collections import defaultdict
from typing import Final

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from gpuplatform.lifecycle.transition import transition
from serverless.core.expiry import wait_description
from serverless.models import EXPIRED_MESSAGE, EXPIRING, OPEN, Function, Invocation
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


def invocations_expire(limit: int) -> int:
    """Expire up to `limit` queued invocations that no worker started in time.

    Rows that are locked at this time are skipped. The message of each invocation in the queue has
    to be deleted afterwards.

    Returns:
        The number of expired invocations.
    """
    due = Invocation.objects.filter(EXPIRING, expires_at__lte=Now())
    with transaction.atomic():
        locked = due.select_for_update(skip_locked=True, of=("self",)).order_by("expires_at")
        keys: dict[int, list[int]] = defaultdict(list)
        for key, function in locked.values_list("pk", "function_id")[:limit]:
            keys[function].append(key)
        functions = Function.objects.in_bulk(keys)
        return sum(
            _expire(due.filter(pk__in=found), functions[function])
            for function, found in keys.items()
        )


def invocation_expire(key: int, publication: int) -> int:
    """Expire a queued invocation if its time has passed; return 1 if it expired."""
    due = Invocation.objects.filter(EXPIRING, expires_at__lte=Now())
    row = due.select_related("function").filter(pk=key, publications=publication).first()
    return 0 if row is None else _expire(due.filter(pk=key), row.function)


def invocation_drop(row: Invocation) -> int:
    """Expire a queued invocation whose caller left; return 1 if it expired.

    It is unchanged if a worker has started it, or if the caller has repeated the request since
    `row` was read and may wait for it.
    """
    rows = Invocation.objects.filter(
        pk=row.pk, repeated_calls=row.repeated_calls, state=InvocationState.QUEUED
    )
    text = "The caller closed the connection before a worker started the invocation."
    text = f"{text} {_waited_for(row.function)}"
    return _end(rows, InvocationState.EXPIRED, text, FailureClass.CALLER_DISCONNECTED)


def expired_messages(limit: int) -> QuerySet[Invocation]:
    """Return up to `limit` expired invocations whose messages have to be deleted."""
    return Invocation.objects.filter(EXPIRED_MESSAGE).order_by("id")[:limit]


def expired_message_deleted(row: Invocation) -> None:
    """Record that the message of an expired invocation is not in the queue."""
    rows = Invocation.objects.filter(EXPIRED_MESSAGE, pk=row.pk, publications=row.publications)
    rows.update(stream_sequence=None)


def _expire(rows: QuerySet[Invocation], function: Function) -> int:
    text = f"No worker started the invocation in time. {_waited_for(function)}"
    return _end(rows, InvocationState.EXPIRED, text, FailureClass.QUEUE_TIMEOUT)


def _waited_for(function: Function) -> str:
    return wait_description(function.reason, function.cause, function.message)


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
