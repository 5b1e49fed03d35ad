"""Accepts, cancels, replays and prunes invocations."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Now

from gpuplatform.errors import OperationConflict, PhaseConflict, Throttled
from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.hashing import request_hash
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, Request, check_writable, operation_accept
from gpuplatform.tenancy.models import Tenant
from serverless.models import OPEN, Function, Invocation
from serverless.phases import INVOCATION_TRANSITIONS, InvocationState
from serverless.requests import InvocationCreate
from serverless.selectors import function_named, functions_of, invocation_with, open_invocations
from serverless.services.names import INVOCATION_KIND, ServerlessOperation
from serverless.services.outbox import outbox_notify

MAX_OPEN: Final = 10_000
"""Maximum number of open invocations of one function."""

BUSY_SECONDS: Final = 5
"""`Retry-After` of a function with `MAX_OPEN` open invocations."""

RETENTION_DAYS: Final = 7
"""Retention of ended invocations with their results. Published in the documentation."""

FUNCTION_RETENTION_DAYS: Final = 30


@dataclass(frozen=True, slots=True)
class AcceptedInvocation:
    """An invocation; `is_replay` if the request had been accepted before."""

    invocation: Invocation
    is_replay: bool


def invocation_accept(*, tenant: Tenant, body: InvocationCreate) -> AcceptedInvocation:
    """Accept an invocation, or return the one that was accepted for the same request.

    An accepted invocation ends with a result, a failure or as a dead letter, whatever happens to
    the queue.

    Raises:
        NotFound: the function does not exist.
        PhaseConflict: the function is being deleted.
        OperationConflict: the invocationID belongs to another request.
        TooLarge: the payload exceeds the limit.
        Throttled: the function has too many open invocations.
        OperatorUnavailable: the platform runs without a cluster.
        RecoveryNeeded: cluster and database do not belong together.
    """
    check_writable()
    digest = request_hash("invocation.create", body.request_id, body.hashed())
    if body.invocation_id and (known := _known(tenant, body.invocation_id, digest)):
        return known
    function = function_named(functions_of(tenant), body.request_id)
    _check_accepts(function)
    invocation = _row(function, body, digest)
    try:
        with transaction.atomic():
            invocation.save(force_insert=True)
            outbox_notify()
    except IntegrityError:
        known = _known(tenant, invocation.invocation_id, digest)
        if known is None:
            raise
        return known
    return AcceptedInvocation(invocation, is_replay=False)


def invocation_cancel(*, tenant: Tenant, invocation_id: str, operation_id: str) -> Accepted:
    """Cancel an invocation that no worker has started; a later result of it is dropped.

    Raises:
        NotFound: the invocation does not exist.
        PhaseConflict: it has started or ended.
    """

    def cancel(invocation: Invocation) -> None:
        rows, state = Invocation.objects.filter(pk=invocation.pk), InvocationState.CANCELLED
        if not transition(rows, INVOCATION_TRANSITIONS, state, column="state", completed_at=Now()):
            msg = (
                f"The invocation '{invocation_id}' is {invocation.state}. Only an invocation that"
                " no worker has started can be cancelled."
            )
            raise PhaseConflict(msg)

    kind = ServerlessOperation.CANCEL
    return _accept(kind, tenant, invocation_id, operation_id, cancel)


def invocation_replay(*, tenant: Tenant, invocation_id: str, operation_id: str) -> Accepted:
    """Queue a dead letter again, with all its attempts.

    Raises:
        NotFound: the invocation does not exist.
        PhaseConflict: it is not a dead letter, or its function is deleted.
    """

    def replay(invocation: Invocation) -> None:
        if invocation.function.deletion_requested_at or invocation.function.deleted_at:
            msg = f"The function of the invocation '{invocation_id}' is deleted."
            raise PhaseConflict(msg)
        moved = transition(
            Invocation.objects.filter(pk=invocation.pk),
            INVOCATION_TRANSITIONS,
            InvocationState.QUEUED,
            column="state",
            publications=F("publications") + 1,
            published_at=None,
            stream_sequence=None,
            relay_after=None,
            attempts=0,
            attempted_at=None,
            started_at=None,
            completed_at=None,
            stored_at=None,
            failure_class="",
            error="",
        )
        if not moved:
            msg = f"The invocation '{invocation_id}' is {invocation.state}, not a dead letter."
            raise PhaseConflict(msg)
        outbox_notify()

    kind = ServerlessOperation.REPLAY
    return _accept(kind, tenant, invocation_id, operation_id, replay)


def invocations_prune() -> int:
    """Delete ended invocations, then deleted functions, after their retention.

    Return the number of deleted rows.
    """
    old = Invocation.objects.filter(completed_at__lt=Now() - timedelta(days=RETENTION_DAYS))
    pruned = old.filter(~OPEN).delete()[0]
    functions = Function.objects.filter(
        deleted_at__lt=Now() - timedelta(days=FUNCTION_RETENTION_DAYS), invocations__isnull=True
    )
    return pruned + functions.delete()[0]


def _known(tenant: Tenant, invocation_id: str, digest: str) -> AcceptedInvocation | None:
    """Return the accepted invocation of that id, or None.

    Raises:
        OperationConflict: it belongs to another request.
    """
    rows = Invocation.objects.select_related("function", "tenant")
    found = rows.filter(tenant=tenant, invocation_id=invocation_id).first()
    if found is None:
        return None
    if found.request_hash != digest:
        msg = (
            f"The invocationID '{invocation_id}' was used for another invocation."
            " Use a new one for a new invocation."
        )
        raise OperationConflict(msg)
    return AcceptedInvocation(found, is_replay=True)


def _check_accepts(function: Function) -> None:
    if function.deletion_requested_at:
        msg = f"The function '{function.request_id}' is being deleted."
        raise PhaseConflict(msg)
    if open_invocations(function)[MAX_OPEN - 1 : MAX_OPEN].exists():
        msg = (
            f"The function '{function.request_id}' has {MAX_OPEN} open invocations, the maximum."
            f" Try again in {BUSY_SECONDS} seconds."
        )
        raise Throttled(msg, retry_after=BUSY_SECONDS)


def _row(function: Function, body: InvocationCreate, digest: str) -> Invocation:
    return Invocation(
        tenant_id=function.tenant_id,
        function=function,
        invocation_id=body.invocation_id or f"inv-{uuid.uuid4().hex}",
        request_hash=digest,
        mode=body.mode,
        content_type=body.content_type,
        headers=body.headers,
        payload=body.payload_bytes(),
        timeout_seconds=body.timeout_seconds or function.parsed_spec.timeout_seconds,
        publications=1,
    )


def _accept(
    kind: ServerlessOperation,
    tenant: Tenant,
    invocation_id: str,
    operation_id: str,
    change: Callable[[Invocation], None],
) -> Accepted:
    """Accept an operation on an invocation; `change` changes its locked row."""

    def prepare(_: Operation) -> int:
        rows = Invocation.objects.select_for_update(of=("self",))
        invocation = invocation_with(rows, tenant, invocation_id)
        change(invocation)
        return invocation.pk

    request = Request(
        tenant=tenant,
        operation_id=operation_id,
        kind=kind,
        object_kind=INVOCATION_KIND,
        namespace=tenant.namespace,
        name=invocation_id,
        payload={},
    )
    return operation_accept(request, prepare=prepare)
