"""Accepting invocations, cancelling them, and sending dead letters again."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from gpuplatform.errors import NotFound, OperationConflict, PhaseConflict, Throttled
from gpuplatform.operations.hashing import request_hash
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import (
    Accepted,
    Request,
    check_writable,
    operation_accept,
)
from gpuplatform.tenancy.models import Tenant
from serverless.core.spec import FunctionSpec
from serverless.models import Function, Invocation
from serverless.phases import InvocationState
from serverless.requests import InvocationCreate
from serverless.selectors import function_get, open_invocations
from serverless.services.names import INVOCATION_KIND, OUTBOX_CHANNEL, ServerlessOperation
from serverless.services.outcomes import move

MOST_OPEN: Final = 10_000
"""Invocations of one function that may wait or run at the same time."""

BUSY_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class AcceptedInvocation:
    """An invocation; `is_replay` when it had been accepted before."""

    invocation: Invocation
    is_replay: bool


def invocation_accept(*, tenant: Tenant, asked: InvocationCreate) -> AcceptedInvocation:
    """Accept an invocation, or find that it was accepted before.

    Once this returned, it is answered or dead-lettered, whatever happens to the queue.

    Raises:
        NotFound: there is no such function.
        PhaseConflict: the function is being deleted.
        OperationConflict: the invocationID belongs to another request.
        TooLarge: the payload passes the limit.
        Throttled: too many of that function wait.
        OperatorUnavailable: the platform runs without a cluster.
        RecoveryNeeded: cluster and database do not belong together.
    """
    check_writable()
    digest = request_hash("invocation.create", asked.request_id, asked.hashed())
    if asked.invocation_id and (known := _known(tenant, asked.invocation_id, digest)):
        return known
    function = function_get(tenant, asked.request_id)
    _check_open(function)
    invocation = _row(function, asked, digest)
    try:
        with transaction.atomic():
            invocation.save(force_insert=True)
            notify_relay()
    except IntegrityError:
        known = _known(tenant, invocation.invocation_id, digest)
        if known is None:
            raise
        return known
    return AcceptedInvocation(invocation, is_replay=False)


def invocation_cancel(*, tenant: Tenant, invocation_id: str, operation_id: str) -> Accepted:
    """Cancel an invocation that no worker has begun; a late result of it is dropped.

    Raises:
        NotFound: there is no such invocation.
        PhaseConflict: it has begun or ended.
    """

    def cancel(invocation: Invocation) -> None:
        rows = Invocation.objects.filter(pk=invocation.pk)
        if not move(rows, InvocationState.CANCELLED, completed_at=Now()):
            msg = (
                f"The invocation '{invocation_id}' is {invocation.state}. Only one that no worker"
                " has begun can be cancelled."
            )
            raise PhaseConflict(msg)

    kind = ServerlessOperation.CANCEL
    return _accept(kind, tenant, invocation_id, operation_id, cancel)


def invocation_replay(*, tenant: Tenant, invocation_id: str, operation_id: str) -> Accepted:
    """Put a dead letter into the queue again, with all its deliveries.

    Raises:
        NotFound: there is no such invocation.
        PhaseConflict: it is no dead letter, or its function is gone.
    """

    def replay(invocation: Invocation) -> None:
        if invocation.function.deletion_requested_at or invocation.function.deleted_at:
            msg = f"The function of the invocation '{invocation_id}' is gone."
            raise PhaseConflict(msg)
        rows = Invocation.objects.filter(pk=invocation.pk)
        moved = move(
            rows,
            InvocationState.QUEUED,
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
            msg = f"The invocation '{invocation_id}' is {invocation.state}, no dead letter."
            raise PhaseConflict(msg)
        notify_relay()

    kind = ServerlessOperation.REPLAY
    return _accept(kind, tenant, invocation_id, operation_id, replay)


def notify_relay() -> None:
    """Wake relays and activator once the present transaction is committed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [OUTBOX_CHANNEL])


def _known(tenant: Tenant, invocation_id: str, digest: str) -> AcceptedInvocation | None:
    """Return the invocation of that id, if there is one.

    Raises:
        OperationConflict: it is of another request.
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


def _check_open(function: Function) -> None:
    if function.deletion_requested_at:
        msg = f"The function '{function.request_id}' is being deleted."
        raise PhaseConflict(msg)
    if open_invocations(function)[MOST_OPEN - 1 : MOST_OPEN].exists():
        msg = (
            f"{MOST_OPEN} invocations of the function '{function.request_id}' wait or run."
            f" Try again in {BUSY_SECONDS} seconds."
        )
        raise Throttled(msg, retry_after=BUSY_SECONDS)


def _row(function: Function, asked: InvocationCreate, digest: str) -> Invocation:
    timeout = asked.timeout_seconds or FunctionSpec.parse(function.spec).timeout_seconds
    return Invocation(
        tenant_id=function.tenant_id,
        function=function,
        invocation_id=asked.invocation_id or f"inv-{uuid.uuid4().hex}",
        request_hash=digest,
        mode=asked.mode,
        content_type=asked.content_type,
        headers=asked.headers,
        payload=asked.payload_bytes(),
        timeout_seconds=timeout,
        publications=1,
    )


def _accept(
    kind: ServerlessOperation,
    tenant: Tenant,
    invocation_id: str,
    operation_id: str,
    change: Callable[[Invocation], None],
) -> Accepted:
    """Accept an operation on an invocation that changes its row at once."""

    def prepare(_: Operation) -> int:
        rows = Invocation.objects.select_for_update(of=("self",)).select_related("function")
        invocation = rows.filter(tenant=tenant, invocation_id=invocation_id).first()
        if invocation is None:
            msg = f"There is no invocation '{invocation_id}'."
            raise NotFound(msg)
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
