"""Accepts changes of the limits of tenants.

Rules of the model of the capacity queue: `putlock`, `putfirst`.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from django.db import transaction

from gpuplatform.audit.core.changes import Target
from gpuplatform.operations.models import Operation
from gpuplatform.operations.registry import OperationKind, register
from gpuplatform.operations.services import (
    Accepted,
    Request,
    check_writable,
    operation_accept,
)
from gpuplatform.operations.versions import IF_MATCH, stale
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.quota import limits_of
from gpuplatform.tenancy.requests import TenantLimitsBody
from gpuplatform.tenancy.services import tenant_limits_replace, tenant_lock_for_change

TENANT_KIND: Final = "Tenant"
"""The kind of the objects of these operations, which is not a kind of Kubernetes."""

LIMITS_KIND: Final = "tenant.limits"
"""The kind of the operation that replaces the limits of a tenant."""


def register_operations() -> None:
    """Register the operation kind of this app: the acceptance already changes the rows."""
    register(OperationKind(LIMITS_KIND, needs_cluster=False))


def limits_version(limits: Mapping[str, int]) -> str:
    """Return the identifier of a map of limits: the same limits have the same version."""
    text = json.dumps(limits, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def tenant_limits_put(
    *, tenant: Tenant, body: TenantLimitsBody, etag: str | None = None
) -> Accepted:
    """Accept a request to replace all limits of a tenant. Nothing in use is stopped.

    Of the transactions that use resources of the tenant, each one either sees the new limits or
    has been committed before. If `etag` is specified, only that version is replaced. The operation
    belongs to the tenant.

    Raises:
        StaleEtag: If the limits are not at version `etag`.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(operation: Operation) -> int:
        limits = limits_of(tenant.pk)
        operation.target = Target(tenant.namespace_uid, {"limits": limits})
        if etag not in {None, limits_version(limits)}:
            raise stale(f"the limits of the tenant '{tenant}'")
        tenant_limits_replace(tenant, body.limits)
        return tenant.pk

    place = (TENANT_KIND, "", tenant.name)
    payload = body.payload() | ({} if etag is None else {IF_MATCH: etag})
    request = Request(tenant, body.operation_id, LIMITS_KIND, *place, payload=payload)
    check_writable()  # Called before the transaction because it can open connections.
    with transaction.atomic():
        # The operation refers to the tenant, which is locked before.
        tenant_lock_for_change(tenant)
        return operation_accept(request, prepare=prepare)
