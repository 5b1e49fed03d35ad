"""Accepts requests on functions, and records the deletion of a function."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from gpuplatform.audit.core.changes import Target
from gpuplatform.errors import PhaseConflict
from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import (
    Accepted,
    Admission,
    Request,
    name_conflict,
    operation_accept,
    row_insert,
)
from gpuplatform.operations.versions import IF_MATCH, stale
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.quota import QuotaRequest, Usage, quota_check, usage_for
from gpuplatform.tenancy.resources import Resource
from inventory.selectors import spec_requested
from serverless.core.spec import FunctionSpec
from serverless.models import Function
from serverless.phases import FUNCTION_TRANSITIONS, FunctionPhase
from serverless.requests import FunctionCreate, FunctionScale, FunctionUpdate
from serverless.selectors import function_named, functions_used
from serverless.services.endings import invocations_abandon, invocations_cancel_waiting
from serverless.services.names import FUNCTION_KIND, ServerlessOperation


def function_create(*, tenant: Tenant, body: FunctionCreate) -> Accepted:
    """Accept a request to create a function, which can be invoked immediately.

    Raises:
        InvalidSpec: If the GPU spec is not in the catalogue or is disabled.
        NameConflict: If the name is in use.
        QuotaExceeded: If a limit of the tenant allows no further function.
        OperationConflict: If the operationID belongs to another request.
    """

    def count() -> Usage:
        return usage_for(functions_used([tenant.pk]))

    def prepare(operation: Operation) -> int:
        quota_check(tenant, operation.limits, [QuotaRequest(Resource.FUNCTIONS, 1, count)])
        spec = body.spec()
        spec_requested(spec.spec_name)
        row = Function(
            tenant=tenant,
            operation=operation,
            request_id=body.request_id,
            spec=spec.normalised(),
            spec_name=spec.spec_name,
        )
        holders = Function.objects.filter(tenant=tenant, request_id=body.request_id)
        what = f"function '{body.request_id}'"
        row_insert(row, partial(name_conflict, holders, what, field="requestID"))
        return row.pk

    place = (FUNCTION_KIND, tenant.namespace, body.request_id)
    kind, payload = ServerlessOperation.CREATE, body.payload()
    request = Request(
        tenant, body.operation_id, kind, *place, payload=payload, admission=Admission.WITHIN_LIMITS
    )
    return operation_accept(request, prepare=prepare)


def function_update(
    *, tenant: Tenant, request_id: str, body: FunctionUpdate, etag: str | None = None
) -> Accepted:
    """Accept a request to change a function. The activator replaces the workers of the old spec.

    Raises:
        NotFound: If the function does not exist.
        PhaseConflict: If the function is being deleted.
        StaleEtag: If the version of the function is not `etag`.
        InvalidSpec: If the body names another function, if the changed spec violates a rule, or if
            the new GPU spec is not in the catalogue or is disabled.
    """
    body.check_request_id(request_id)

    def change(function: Function) -> None:
        _check_not_deleted(function)
        if etag not in {None, function_version(function)}:
            raise stale(f"the function '{request_id}'")
        spec = body.applied_to(function.spec)
        if spec.spec_name != function.spec_name:
            spec_requested(spec.spec_name)
        Function.objects.filter(pk=function.pk).update(
            spec=spec.normalised(),
            spec_name=spec.spec_name,
            generation=F("generation") + 1,
            # The failed starts belong to the old spec, so the new spec has no backoff.
            start_failures=0,
            starts_after=None,
            updated_at=Now(),
        )

    kind = ServerlessOperation.UPDATE
    payload = body.payload() | ({} if etag is None else {IF_MATCH: etag})
    return _accept(kind, tenant, request_id, body.operation_id, change, payload)


def function_version(function: Function) -> str:
    """Return the identifier of the current version of a function's spec."""
    return f"{function.pk}-{function.updated_at.timestamp():.6f}"


def function_scale(*, tenant: Tenant, request_id: str, body: FunctionScale) -> Accepted:
    """Accept a request to change the limits for the number of workers.

    Running workers are not replaced.

    Raises:
        NotFound: If the function does not exist.
        PhaseConflict: If the function is being deleted.
    """

    def change(function: Function) -> None:
        _check_not_deleted(function)
        changed = FunctionSpec.parse({**function.limits.normalised(), **body.payload()})
        template = {key: value for key, value in function.spec.items() if key == "template"}
        spec = {**changed.normalised(), **template}
        # The generation is unchanged because the workers run the same image and template.
        Function.objects.filter(pk=function.pk).update(spec=spec, updated_at=Now())

    kind = ServerlessOperation.SCALE
    return _accept(kind, tenant, request_id, body.operation_id, change, body.payload())


def function_request_deletion(*, tenant: Tenant, request_id: str, operation_id: str) -> Accepted:
    """Accept a request to delete a function, and cancel its queued invocations.

    Running invocations finish on their workers.

    Raises:
        NotFound: If the function does not exist.
    """

    def mark(function: Function) -> None:
        transition(
            Function.objects.filter(pk=function.pk, deletion_requested_at__isnull=True),
            FUNCTION_TRANSITIONS,
            FunctionPhase.TERMINATING,
            reason="",
            message="",
            cause="",
            phase_since=Now(),
            deletion_requested_at=Now(),
        )
        invocations_cancel_waiting(function)

    return _accept(ServerlessOperation.DELETE, tenant, request_id, operation_id, mark)


def function_deleted(operation: Operation) -> None:
    """Record that the function of an operation is deleted or was never created."""
    for function in Function.objects.filter(pk=operation.object_row or 0, deleted_at__isnull=True):
        invocations_abandon(function)
        Function.objects.filter(pk=function.pk).update(
            phase=FunctionPhase.TERMINATING, deleted_at=Now()
        )


def _accept(
    kind: ServerlessOperation,
    tenant: Tenant,
    request_id: str,
    operation_id: str,
    change: Callable[[Function], None],
    payload: Mapping[str, Any] | None = None,
) -> Accepted:
    """Accept an operation on a function. `change` is called with its locked row.

    The function is locked before its tenant, as by the start of a worker, which creates a unit.
    Invocations refer to a function after they have locked the tenant: the lock allows that.
    """
    rows = Function.objects.select_for_update(no_key=True).filter(
        tenant=tenant, deleted_at__isnull=True
    )

    def lock() -> None:
        list(rows.filter(request_id=request_id).values_list("pk"))

    def prepare(operation: Operation) -> int:
        function = function_named(rows, request_id)
        operation.target = Target(before=function.spec)
        change(function)
        return function.pk

    place = (FUNCTION_KIND, tenant.namespace, request_id)
    is_deletion = kind is ServerlessOperation.DELETE
    request = Request(
        tenant,
        operation_id,
        kind,
        *place,
        payload=payload or {},
        admission=Admission.ALWAYS if is_deletion else Admission.WITHIN_LIMITS,
    )
    return operation_accept(request, prepare=prepare, locks=lock)


def _check_not_deleted(function: Function) -> None:
    if function.deletion_requested_at:
        msg = f"The function '{function.request_id}' is being deleted. Wait until it is deleted."
        raise PhaseConflict(msg)
