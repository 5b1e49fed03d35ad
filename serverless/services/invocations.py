"""Accepts, cancels and replays invocations, and deletes them after their retention."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from gpuplatform.audit.models import Outcome
from gpuplatform.audit.services.entries import Entry, entry_insert
from gpuplatform.errors import OperationConflict, PhaseConflict, Throttled
from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.hashing import request_hash
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import (
    Accepted,
    Admission,
    Request,
    check_writable,
    operation_accept,
)
from gpuplatform.tenancy.locks import share_active_tenant
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.quota import QuotaRequest, Usage, limits_of, quota_check
from gpuplatform.tenancy.resources import Resource
from serverless.models import OPEN, Function, Invocation
from serverless.phases import INVOCATION_TRANSITIONS, FailureClass, InvocationMode, InvocationState
from serverless.requests import InvocationCreate
from serverless.selectors import function_named, functions_of, invocation_with, open_invocations
from serverless.services.names import INVOCATION_KIND, ServerlessOperation
from serverless.services.outbox import outbox_notify
from serverless.services.webhook_secrets import webhook_url_check
from serverless.services.webhooks import WEBHOOK_RESET
from serverless.webhook_phases import WebhookState

MAX_OPEN: Final = 10_000
"""Maximum number of open invocations of one function."""

BUSY_SECONDS: Final = 5
"""`Retry-After` in seconds of a function with `MAX_OPEN` open invocations."""

RETENTION_DAYS: Final = 7
"""Retention in days of ended invocations and their results, as documented for users."""

FUNCTION_RETENTION_DAYS: Final = 30
"""Retention in days of the rows of deleted functions."""


@dataclass(frozen=True, slots=True)
class AcceptedInvocation:
    """An invocation, and whether its request had been accepted before."""

    invocation: Invocation
    is_replay: bool


def invocation_accept(*, tenant: Tenant, body: InvocationCreate) -> AcceptedInvocation:
    """Accept an invocation, or return the invocation that an earlier identical request created.

    An accepted invocation ends with a result, with a failure or as a dead letter, even if the
    queue loses it. If no worker starts it in time, it expires. If it expired because its caller
    left, the repeated request queues it again.

    Raises:
        NotFound: If the function does not exist.
        PhaseConflict: If the function is being deleted, or has no secret to sign the webhook.
        OperationConflict: If the invocationID belongs to another request.
        InvalidSpec: If webhooks may not be sent to the address in the URL.
        TooLarge: If the payload exceeds the limit.
        Throttled: If the function has too many open invocations.
        TenantSuspended: If the tenant is not active.
        QuotaExceeded: If a limit of the tenant allows no further open invocation.
        OperatorUnavailable: If the platform runs without a cluster.
        RecoveryNeeded: If the cluster and the database do not match.
    """
    check_writable()
    digest = request_hash("invocation.create", body.request_id, body.hashed())
    if body.invocation_id and (known := _repeated(tenant, body.invocation_id, digest)):
        return known
    function = function_named(functions_of(tenant), body.request_id)
    _check_accepts(function)
    invocation = _row(function, body, digest)
    webhook_url_check(function, invocation.on_done_url)
    try:
        with transaction.atomic():
            share_active_tenant(tenant)
            invocation.save(force_insert=True)
            _check_limits(tenant, invocation.pk)
            _set_expiry(invocation)
            entry_insert(_audit_entry(tenant, invocation))
            outbox_notify()
    except IntegrityError:
        known = _repeated(tenant, invocation.invocation_id, digest)
        if known is None:
            raise
        return known
    return AcceptedInvocation(invocation, is_replay=False)


def _audit_entry(tenant: Tenant, invocation: Invocation) -> Entry:
    """Return the audit entry about an accepted invocation, without its payload and headers."""
    return Entry(
        outcome=Outcome.ACCEPTED,
        verb="create",
        tenant=tenant.name,
        kind=INVOCATION_KIND,
        namespace=tenant.namespace,
        name=invocation.invocation_id,
        changes=[{"field": "requestID", "to": invocation.function.request_id}],
    )


def invocation_cancel(*, tenant: Tenant, invocation_id: str, operation_id: str) -> Accepted:
    """Cancel an invocation that no worker has started. A later result is ignored.

    Raises:
        NotFound: If the invocation does not exist.
        PhaseConflict: If the invocation has started or ended.
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
    """Queue a failed, expired or dead-lettered invocation again, with all its attempts.

    Its payload is unchanged; the result of its last attempt is deleted. A report about an earlier
    publication is ignored.

    Raises:
        NotFound: If the invocation does not exist.
        PhaseConflict: If the invocation has not failed or its function is deleted.
    """

    def replay(invocation: Invocation) -> None:
        if invocation.function.deletion_requested_at or invocation.function.deleted_at:
            msg = (
                f"The function of the invocation '{invocation_id}' is deleted. Create the function"
                " again, then invoke it with a new invocationID."
            )
            raise PhaseConflict(msg)
        if not _requeue(Invocation.objects.filter(pk=invocation.pk), invocation):
            msg = (
                f"The invocation '{invocation_id}' is {invocation.state}. Only failed, expired and"
                " dead-lettered invocations can be replayed."
            )
            raise PhaseConflict(msg)

    kind = ServerlessOperation.REPLAY
    return _accept(kind, tenant, invocation_id, operation_id, replay)


def invocations_prune() -> int:
    """Delete the rows of ended invocations and deleted functions after their retention.

    An invocation whose webhook has neither been delivered nor failed is kept.

    Returns:
        The number of deleted rows.
    """
    old = Invocation.objects.filter(completed_at__lt=Now() - timedelta(days=RETENTION_DAYS))
    pruned = old.filter(~OPEN).exclude(webhook_state=WebhookState.PENDING).delete()[0]
    functions = Function.objects.filter(
        deleted_at__lt=Now() - timedelta(days=FUNCTION_RETENTION_DAYS), invocations__isnull=True
    )
    return pruned + functions.delete()[0]


def _check_limits(tenant: Tenant, invocation: int) -> None:
    """Check that the tenant may have an open invocation in addition to the others."""

    def count() -> Usage:
        others = Invocation.objects.filter(OPEN, tenant=tenant).exclude(pk=invocation)
        return Usage(others.count())

    quota_check(tenant, limits_of(tenant.pk), [QuotaRequest(Resource.OPEN_INVOCATIONS, 1, count)])


def _known(tenant: Tenant, invocation_id: str, digest: str) -> AcceptedInvocation | None:
    """Return the accepted invocation with this id, or `None` if it does not exist.

    Raises:
        OperationConflict: If the invocation belongs to another request.
    """
    rows = Invocation.objects.select_related("function", "tenant")
    found = rows.filter(tenant=tenant, invocation_id=invocation_id).first()
    if found is None:
        return None
    if found.request_hash != digest:
        msg = (
            f"The invocationID '{invocation_id}' was used for another invocation."
            " Use a new invocationID."
        )
        raise OperationConflict(msg)
    return AcceptedInvocation(found, is_replay=True)


def _repeated(tenant: Tenant, invocation_id: str, digest: str) -> AcceptedInvocation | None:
    """Record a repeated request, and return its invocation, or `None` if it does not exist.

    Raises:
        OperationConflict: If the invocation belongs to another request.
        TenantSuspended: If it would be queued again, and the tenant is not active.
        QuotaExceeded: If it would be queued again, and a limit of the tenant does not allow it.
    """
    known = _known(tenant, invocation_id, digest)
    if known is None or known.invocation.mode != InvocationMode.SYNC:
        return known
    row = known.invocation
    dropped = Invocation.objects.filter(pk=row.pk, failure_class=FailureClass.CALLER_DISCONNECTED)
    with transaction.atomic():
        if row.failure_class == FailureClass.CALLER_DISCONNECTED:
            share_active_tenant(tenant)  # Also awaits a change of limits: nothing is inserted.
            _check_limits(tenant, row.pk)
        Invocation.objects.filter(pk=row.pk).update(repeated_calls=F("repeated_calls") + 1)
        if not row.function.deletion_requested_at:
            _requeue(dropped, row)
        row.refresh_from_db()
    return known


def _requeue(rows: QuerySet[Invocation], row: Invocation) -> int:
    """Move an ended invocation to the outbox, if it can be replayed; return 1 if it was moved."""
    moved = transition(
        rows,
        INVOCATION_TRANSITIONS,
        InvocationState.QUEUED,
        column="state",
        publications=F("publications") + 1,
        expires_at=_expiry(Now(), row.expires_in_seconds),
        **_UNPUBLISHED,
        **_WITHOUT_RESULT,
        **WEBHOOK_RESET,
    )
    if moved:
        outbox_notify()
    return moved


_UNPUBLISHED: Final[Mapping[str, Any]] = {
    "published_at": None,
    "stream_sequence": None,
    "relay_after": None,
    "attempts": 0,
    "attempted_at": None,
    "started_at": None,
}
_WITHOUT_RESULT: Final[Mapping[str, Any]] = {
    "completed_at": None,
    "stored_at": None,
    "failure_class": "",
    "error": "",
    "result_attempt": 0,
    "status_code": None,
    "result_content_type": "",
    "result_headers": {},
    "result_body": None,
    "result_bytes": 0,
    "is_truncated": False,
}
"""Values of the columns of an invocation that has not been published and has not ended."""


def _check_accepts(function: Function) -> None:
    if function.deletion_requested_at:
        msg = f"The function '{function.request_id}' is being deleted. Invoke another function."
        raise PhaseConflict(msg)
    if open_invocations(function)[MAX_OPEN - 1 : MAX_OPEN].exists():
        msg = (
            f"The function '{function.request_id}' has the maximum of {MAX_OPEN} open invocations."
            f" Try again in {BUSY_SECONDS} seconds."
        )
        raise Throttled(msg, retry_after=BUSY_SECONDS)


def _row(function: Function, body: InvocationCreate, digest: str) -> Invocation:
    spec = function.limits
    given = body.expires_in_seconds
    url = (body.on_done or spec.on_done).url or ""
    return Invocation(
        tenant_id=function.tenant_id,
        function=function,
        invocation_id=body.invocation_id or f"inv-{uuid.uuid4().hex}",
        request_hash=digest,
        mode=body.mode,
        content_type=body.content_type,
        headers=body.headers,
        payload=body.payload_bytes(),
        timeout_seconds=body.timeout_seconds or spec.timeout_seconds,
        expires_in_seconds=spec.expires_in_seconds if given is None else given,
        publications=1,
        on_done_url=url,
        webhook_state=WebhookState.PENDING if url else "",
    )


def _set_expiry(invocation: Invocation) -> None:
    """Set the time at which a new invocation expires, on the clock of the database."""
    expires_at = _expiry(invocation.accepted_at, invocation.expires_in_seconds)
    if expires_at is not None:
        Invocation.objects.filter(pk=invocation.pk).update(expires_at=expires_at)
        invocation.expires_at = expires_at


def _expiry(since: Any, seconds: int) -> Any:
    return since + timedelta(seconds=seconds) if seconds else None


def _accept(
    kind: ServerlessOperation,
    tenant: Tenant,
    invocation_id: str,
    operation_id: str,
    change: Callable[[Invocation], None],
) -> Accepted:
    """Accept an operation on an invocation. `change` is called with its locked row."""

    def prepare(_: Operation) -> int:
        rows = Invocation.objects.select_for_update(of=("self",))
        invocation = invocation_with(rows, tenant, invocation_id)
        change(invocation)
        return invocation.pk

    place = (INVOCATION_KIND, tenant.namespace, invocation_id)
    is_cancellation = kind is ServerlessOperation.CANCEL
    admission = Admission.ALWAYS if is_cancellation else Admission.ACTIVE
    request = Request(tenant, operation_id, kind, *place, admission=admission)
    return operation_accept(request, prepare=prepare)
