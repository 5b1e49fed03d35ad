"""Accepting what users ask of functions, and the rows of what became of it."""

from collections.abc import Callable

from django.db.models import F, Q
from django.db.models.functions import Now

from gpuplatform.errors import NotFound, PhaseConflict
from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.conflicts import name_conflict
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, Request, operation_accept
from gpuplatform.tenancy.models import Tenant
from serverless.core.spec import FunctionSpec
from serverless.models import Function
from serverless.phases import FUNCTION_TRANSITIONS, FunctionPhase
from serverless.requests import FunctionCreate, FunctionScale, FunctionUpdate
from serverless.services.names import FUNCTION_KIND, ServerlessOperation
from serverless.services.outcomes import invocations_abandon, invocations_cancel_waiting


def function_create(*, tenant: Tenant, asked: FunctionCreate) -> Accepted:
    """Accept the creation of a function. Its invocations are accepted from now on.

    Raises:
        NameConflict: the name is in use.
        OperationConflict: the operationID belongs to another request.
    """

    def prepare(operation: Operation) -> int:
        spec = asked.spec()
        row = Function(
            tenant=tenant,
            operation=operation,
            request_id=asked.request_id,
            spec=spec.normalised(),
            spec_name=spec.spec_name,
        )
        # One arbitrated insert: of two with the same name the second one inserts nothing.
        Function.objects.bulk_create([row], ignore_conflicts=True)
        made = Function.objects.filter(operation=operation).values_list("id", flat=True).first()
        if made is None:
            holders = Function.objects.filter(tenant=tenant, request_id=asked.request_id)
            raise name_conflict(holders, f"function '{asked.request_id}'", field="requestID")
        return made

    kind, name = ServerlessOperation.CREATE, asked.request_id
    request = function_request(tenant, kind, asked.operation_id, name, asked.payload())
    return operation_accept(request, prepare=prepare)


def function_update(*, tenant: Tenant, request_id: str, asked: FunctionUpdate) -> Accepted:
    """Accept another spec for a function; workers of the old one are replaced by the activator.

    Raises:
        NotFound: there is no such function.
        PhaseConflict: it is being deleted.
        InvalidSpec: the body names another function.
    """
    asked.check_request_id(request_id)

    def change(function: Function) -> None:
        _check_lasting(function)
        spec = asked.spec()
        Function.objects.filter(pk=function.pk).update(
            spec=spec.normalised(),
            spec_name=spec.spec_name,
            generation=F("generation") + 1,
            # What could not start was the spec before: this one is tried at once.
            start_failures=0,
            starts_after=None,
            updated_at=Now(),
        )

    kind = ServerlessOperation.UPDATE
    request = function_request(tenant, kind, asked.operation_id, request_id, asked.payload())
    return operation_accept(request, prepare=_taking(tenant, request_id, change))


def function_scale(*, tenant: Tenant, request_id: str, asked: FunctionScale) -> Accepted:
    """Accept other limits for the workers of a function; those that run are not replaced.

    Raises:
        NotFound: there is no such function.
        PhaseConflict: it is being deleted.
    """

    def change(function: Function) -> None:
        _check_lasting(function)
        spec = FunctionSpec.parse({**function.spec, **asked.limits()})
        # The generation stays: what a worker runs has not changed.
        Function.objects.filter(pk=function.pk).update(spec=spec.normalised(), updated_at=Now())

    kind = ServerlessOperation.SCALE
    request = function_request(tenant, kind, asked.operation_id, request_id, asked.limits())
    return operation_accept(request, prepare=_taking(tenant, request_id, change))


def function_request_deletion(*, tenant: Tenant, request_id: str, operation_id: str) -> Accepted:
    """Accept the deletion of a function: what waits is cancelled, what runs may end.

    Raises:
        NotFound: there is no such function.
    """

    def mark(function: Function) -> None:
        rows = Function.objects.filter(pk=function.pk, deletion_requested_at__isnull=True)
        transition(
            rows,
            FUNCTION_TRANSITIONS,
            FunctionPhase.TERMINATING,
            reason="",
            message="",
            phase_since=Now(),
            deletion_requested_at=Now(),
        )
        invocations_cancel_waiting(function)

    kind = ServerlessOperation.DELETE
    request = function_request(tenant, kind, operation_id, request_id, {})
    return operation_accept(request, prepare=_taking(tenant, request_id, mark))


def function_unmade(operation: Operation) -> None:
    """Record that the function of a refused create is none."""
    _close(Q(pk=operation.object_row))


def function_deleted(operation: Operation) -> None:
    """Record that the function, its queue and its workers are gone."""
    _close(Q(pk=operation.object_row))


def function_spec(function: Function) -> FunctionSpec:
    """Return what is wanted of the function."""
    return FunctionSpec.parse(function.spec)


def function_request(
    tenant: Tenant, kind: ServerlessOperation, operation_id: str, name: str, payload: object
) -> Request:
    """Return the request of one write on a function."""
    return Request(
        tenant=tenant,
        operation_id=operation_id,
        kind=kind,
        object_kind=FUNCTION_KIND,
        namespace=tenant.namespace,
        name=name,
        payload=payload if isinstance(payload, dict) else {},
    )


def _check_lasting(function: Function) -> None:
    if function.deletion_requested_at:
        msg = f"The function '{function.request_id}' is being deleted. Wait until it is gone."
        raise PhaseConflict(msg)


def _close(which: Q) -> None:
    for function in Function.objects.filter(which, deleted_at__isnull=True):
        invocations_abandon(function)
        Function.objects.filter(pk=function.pk).update(
            phase=FunctionPhase.TERMINATING, deleted_at=Now()
        )


def _taking(
    tenant: Tenant, request_id: str, change: Callable[[Function], None]
) -> Callable[[Operation], int]:
    """Return what locks the row of the live function and changes it."""

    def prepare(_: Operation) -> int:
        rows = Function.objects.select_for_update().filter(
            tenant=tenant, request_id=request_id, deleted_at__isnull=True
        )
        function = rows.first()
        if function is None:
            msg = f"There is no function '{request_id}'."
            raise NotFound(msg)
        change(function)
        return function.pk

    return prepare
