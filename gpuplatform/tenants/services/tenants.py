"""Accepts requests on tenants, and records their outcomes.

The transaction that accepts a request writes the settings and the phase of the tenant; the
operation applies them to the namespace. A change of the phase waits for the writes of the tenant
in progress (`gpuplatform.tenancy.locks`).
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import ProtectedError, QuerySet
from django.db.models.functions import Now

from gpuplatform.audit.core.changes import Target
from gpuplatform.errors import FieldError, InUse, InvalidSpec, NameConflict, PhaseConflict
from gpuplatform.formats.namespaces import reserved_error
from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.models import Operation
from gpuplatform.operations.registry import Done, Failed
from gpuplatform.operations.services import (
    RETENTION_DAYS,
    Accepted,
    Request,
    operation_accept,
    row_insert,
)
from gpuplatform.operations.versions import IF_MATCH, stale
from gpuplatform.tenancy.locks import lock_tenant
from gpuplatform.tenancy.models import DEFAULT_TENANT_NAME, Tenant
from gpuplatform.tenancy.phases import TENANT_TRANSITIONS, NamespaceOrigin, TenantPhase
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import tokens_delete
from gpuplatform.tenants.names import TENANT_KIND, TenantOperation
from gpuplatform.tenants.requests import TenantCreate, TenantPatch
from gpuplatform.tenants.services.contents import contents_text, hint_matcher_of, tenant_contents
from inventory.models import StockPool


def tenant_create(*, tenant: Tenant, body: TenantCreate) -> Accepted:
    """Accept a request to create a tenant, and insert its row in the phase `Pending`.

    `tenant` is the tenant of the caller, which owns the operation.

    Raises:
        InvalidSpec: If no tenant can have the namespace.
        NameConflict: If a tenant has the name.
        OperationConflict: If the operationID belongs to another request.
    """
    namespace = body.namespace_name

    def prepare(operation: Operation) -> int:
        operation.target = Target(tenant=body.name)
        if Tenant.objects.filter(name=body.name).exists():
            raise _name_conflict(body.name)
        check_namespace(namespace)
        adopted, created = NamespaceOrigin.ADOPTED, NamespaceOrigin.CREATED
        row = Tenant(
            name=body.name,
            namespace=namespace,
            display_name=body.display_name,
            weight=body.weight,
            phase=TenantPhase.PENDING,
            namespace_origin=adopted if body.adopts_namespace else created,
        )
        row_insert(row, partial(_name_conflict, body.name))
        return row.pk

    kind = TenantOperation.CREATE
    request = _request(tenant, kind, body.operation_id, body.name, body.payload())
    return operation_accept(request, prepare=prepare)


def check_namespace(namespace: str) -> None:
    """Check that a new tenant can have a namespace.

    Raises:
        InvalidSpec: If the namespace is reserved, or is the namespace of a tenant or of pools.
    """
    system_namespace = settings.GPUPLATFORM_SYSTEM_NAMESPACE
    error = reserved_error(namespace, system_namespace=system_namespace)
    if not error and (owner := Tenant.objects.filter(namespace=namespace).first()):
        error = f"The namespace '{namespace}' belongs to the tenant '{owner}'. Choose another one."
    pools = StockPool.objects.filter(namespace=namespace, deleted_at__isnull=True)
    if not error and (namespace in settings.POOL_NAMESPACES or pools.exists()):
        error = f"The namespace '{namespace}' is for stock pools. Choose another one."
    if error:
        raise InvalidSpec(f"namespace: {error}", details=[FieldError("namespace", error)])


def tenant_version(tenant: Tenant) -> str:
    """Return the identifier of the current version of the settings and the phase of a tenant."""
    return f"{tenant.pk}-{tenant.updated_at.timestamp():.6f}"


def tenant_update(
    *, tenant: Tenant, name: str, body: TenantPatch, etag: str | None = None
) -> Accepted:
    """Accept a request to change the settings of a tenant, which take effect immediately.

    Raises:
        NotFound: If the tenant does not exist.
        PhaseConflict: If the tenant is being created or deleted.
        StaleEtag: If the tenant is not at version `etag`.
    """

    def change(target: Tenant) -> None:
        if etag not in {None, tenant_version(target)}:
            raise stale(f"the tenant '{name}'")
        columns = {
            column: value
            for column in ("display_name", "weight")
            if (value := getattr(body, column)) is not None
        }
        _rows(target).update(**columns, updated_at=Now())
        if "weight" in columns:
            hint_matcher_of(target)

    payload = body.payload() | ({} if etag is None else {IF_MATCH: etag})
    return _accept(tenant, TenantOperation.UPDATE, body.operation_id, name, change, payload)


def tenant_suspend(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Suspend a tenant, and accept the stops of its units as one operation.

    Raises:
        NotFound: If the tenant does not exist.
        PhaseConflict: If the tenant is being created or deleted, or is the default tenant.
    """

    def change(target: Tenant) -> None:
        _check_not_default(target, "suspended")
        _set_phase(target, TenantPhase.SUSPENDED)

    return _accept(tenant, TenantOperation.SUSPEND, operation_id, name, change)


def tenant_resume(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Resume a tenant. Its waiting requests are eligible again; stopped units are not started.

    Raises:
        NotFound: If the tenant does not exist.
        PhaseConflict: If the tenant is being created or deleted.
    """

    def change(target: Tenant) -> None:
        _set_phase(target, TenantPhase.ACTIVE)

    return _accept(tenant, TenantOperation.RESUME, operation_id, name, change)


def tenant_request_deletion(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept a request to delete a tenant that has no objects.

    Raises:
        NotFound: If the tenant does not exist.
        PhaseConflict: If the tenant is being created or deleted, or is the default tenant.
        InUse: If objects of the tenant exist.
    """

    def prepare(operation: Operation) -> int:
        target = _changeable(name)
        operation.target = Target(target.namespace_uid, tenant=target.name)
        _check_not_default(target, "deleted")
        numbers = tenant_contents(target, without=operation.pk)
        if any(numbers.values()):
            msg = f"The tenant '{name}' has {contents_text(numbers)}. Delete them first."
            details = [FieldError(kind, str(number)) for kind, number in numbers.items() if number]
            raise InUse(msg, details=details)
        transition(
            _rows(target),
            TENANT_TRANSITIONS,
            TenantPhase.DELETING,
            updated_at=Now(),
            **_NO_FAILURE,
        )
        return target.pk

    request = _request(tenant, TenantOperation.DELETE, operation_id, name)
    return operation_accept(request, prepare=prepare, locks=partial(_lock, tenant, name))


def settle_create(operation: Operation, outcome: Done | Failed) -> None:
    """Activate the tenant; delete its row if the creation failed, so that the name is free."""
    rows = Tenant.objects.filter(pk=operation.object_row or 0, phase=TenantPhase.PENDING)
    if isinstance(outcome, Failed):
        rows.delete()
        return
    transition(
        rows,
        TENANT_TRANSITIONS,
        TenantPhase.ACTIVE,
        namespace_uid=_uid(outcome),
        updated_at=Now(),
    )


def settle_change(operation: Operation, outcome: Done | Failed) -> None:
    """Record whether the namespace has the settings of the tenant."""
    rows = Tenant.objects.filter(pk=operation.object_row or 0)
    rows.update(**_failure(outcome))


def settle_delete(operation: Operation, outcome: Done | Failed) -> None:
    """Close the row of the tenant and delete its tokens, or suspend it if the deletion failed."""
    rows = Tenant.objects.filter(pk=operation.object_row or 0, phase=TenantPhase.DELETING)
    if isinstance(outcome, Failed):
        transition(
            rows,
            TENANT_TRANSITIONS,
            TenantPhase.SUSPENDED,
            updated_at=Now(),
            **_failure(outcome),
        )
    elif transition(
        rows, TENANT_TRANSITIONS, TenantPhase.DELETED, deleted_at=Now(), updated_at=Now()
    ):
        tokens_delete(operation.object_row or 0)


def tenants_prune() -> int:
    """Delete the rows of deleted tenants to which no other row refers; return their number.

    Until then, no other tenant can have the name or the namespace: the operations of the tenant
    are kept for `RETENTION_DAYS` days.
    """
    old = Tenant.objects.filter(deleted_at__lt=Now() - timedelta(days=RETENTION_DAYS))
    deleted = 0
    for number in old.values_list("pk", flat=True):
        try:
            with transaction.atomic():
                deleted += bool(old.filter(pk=number).delete()[0])
        except ProtectedError:
            continue
    return deleted


_NO_FAILURE: Mapping[str, str] = {"failure_code": "", "failure_message": ""}


def _failure(outcome: Done | Failed) -> dict[str, str]:
    if isinstance(outcome, Failed):
        return {"failure_code": outcome.code, "failure_message": outcome.message}
    return dict(_NO_FAILURE)


def _uid(outcome: Done) -> str:
    return str((outcome.resource or {}).get("metadata", {}).get("uid", ""))


def _accept(
    tenant: Tenant,
    kind: TenantOperation,
    operation_id: str,
    name: str,
    change: Callable[[Tenant], None],
    payload: Mapping[str, Any] | None = None,
) -> Accepted:
    """Accept an operation on an active or suspended tenant, whose row `change` writes."""

    def prepare(operation: Operation) -> int:
        target = _changeable(name)
        before = {"displayName": target.display_name, "weight": target.weight}
        operation.target = Target(target.namespace_uid, before, tenant=target.name)
        change(target)
        return target.pk

    request = _request(tenant, kind, operation_id, name, payload)
    return operation_accept(request, prepare=prepare, locks=partial(_lock, tenant, name))


def _lock(caller: Tenant, name: str) -> None:
    """Lock a tenant before the operation is inserted (rules `putlock` and `putfirst`).

    A deleted or unknown tenant is not an error here: a replay returns its operation.
    """
    target = Tenant.objects.filter(name=name).first()
    if target is not None:
        lock_tenant(target.pk, shared=(caller.pk,))


def _changeable(name: str) -> Tenant:
    """Return the locked tenant as it is now.

    Raises:
        NotFound: If the tenant does not exist.
        PhaseConflict: If the tenant is being created or deleted.
    """
    target = tenant_by_name(name)
    if target.phase == TenantPhase.PENDING:
        msg = f"The tenant '{name}' is being created. Wait until it is active."
        raise PhaseConflict(msg)
    if target.phase == TenantPhase.DELETING:
        msg = f"The tenant '{name}' is being deleted. Wait until it is deleted."
        raise PhaseConflict(msg)
    return target


def _check_not_default(target: Tenant, verb: str) -> None:
    if target.name == DEFAULT_TENANT_NAME:
        msg = (
            f"The tenant '{target}' cannot be {verb}: the operations of the platform belong to it."
            " Create another tenant for users."
        )
        raise PhaseConflict(msg)


def _set_phase(target: Tenant, phase: TenantPhase) -> None:
    """Change the phase of a locked tenant, unless the tenant has it, and run the matcher."""
    if target.phase != phase:
        transition(_rows(target), TENANT_TRANSITIONS, phase, updated_at=Now())
        hint_matcher_of(target)


def _rows(target: Tenant) -> QuerySet[Tenant]:
    return Tenant.objects.filter(pk=target.pk)


def _name_conflict(name: str) -> NameConflict:
    details = [FieldError("name", "Is already in use.")]
    known = Tenant.objects.filter(name=name).first()
    if known is not None and known.phase == TenantPhase.DELETED:
        msg = (
            f"The name '{name}' belonged to a deleted tenant, whose operations are kept for"
            f" {RETENTION_DAYS} days. Choose another name."
        )
        return NameConflict(msg, details=details)
    if known is None:
        details = [FieldError("namespace", "Is already in use.")]
        return NameConflict("Another tenant has the namespace. Choose another.", details=details)
    return NameConflict(f"A tenant '{name}' already exists. Choose another.", details=details)


def _request(
    tenant: Tenant,
    kind: TenantOperation,
    operation_id: str,
    name: str,
    payload: Mapping[str, Any] | None = None,
) -> Request:
    return Request(tenant, operation_id, kind, TENANT_KIND, "", name, payload=payload or {})
