"""Executes operations on tenants in the cluster.

Called by `operations.driver`. Every step can be repeated: the namespace and its objects get the
settings that the row of the tenant has now, regardless of the operation.
"""

from collections.abc import Iterator
from typing import Any, Final

from django.conf import settings

from gpuplatform.deployment.isolation import queue_networks
from gpuplatform.errors import InUse
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import GPU_UNIT, NAMESPACE, ROLE_BINDING, Manifest, ResourceKind
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationWait
from gpuplatform.operations.registry import (
    Checkpoint,
    Done,
    Failed,
    OperationKind,
    RetryRequest,
    Step,
    Waiting,
    register,
)
from gpuplatform.operations.services import Accepted
from gpuplatform.operations.versions import IF_MATCH
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import NamespaceOrigin, TenantPhase
from gpuplatform.tenants.core import namespaces
from gpuplatform.tenants.core.objects import tenant_objects
from gpuplatform.tenants.names import TenantOperation, TenantWait
from gpuplatform.tenants.requests import TenantCreate, TenantPatch
from gpuplatform.tenants.services import tenants
from gpuplatform.tenants.services.contents import has_members_to_create, units_to_stop
from gpuplatform.tenants.services.suspension import stop_batch

TERMINATING_SECONDS: Final = 2.0
"""Delay in seconds after which an operation reads a namespace that is being deleted again."""


GROUP_SECONDS: Final = 2.0
"""Delay in seconds after which a suspension searches again for units that a group creates."""


def register_operations() -> None:
    """Register the kinds of operation on tenants. None can be cancelled: the rows are changed."""
    kinds = TenantOperation
    register(OperationKind(kinds.CREATE, apply, tenants.settle_create, retry=_retry_create))
    register(OperationKind(kinds.UPDATE, apply, tenants.settle_change, retry=_retry_update))
    register(OperationKind(kinds.SUSPEND, suspend, tenants.settle_change, retry=_retry_suspend))
    register(OperationKind(kinds.RESUME, apply, tenants.settle_change, retry=_retry_resume))
    register(OperationKind(kinds.DELETE, delete, tenants.settle_delete, retry=_retry_delete))


def view_of(tenant: Tenant) -> namespaces.TenantView:
    """Return the settings of a tenant that its namespace has."""
    return namespaces.TenantView(
        name=tenant.name,
        namespace=tenant.namespace,
        origin=NamespaceOrigin(tenant.namespace_origin),
        uid=tenant.namespace_uid,
        display_name=tenant.display_name,
        weight=tenant.weight,
        max_priority=tenant.max_priority,
        is_suspended=tenant.phase == TenantPhase.SUSPENDED,
    )


def apply(cluster: Cluster, operation: Operation) -> Step:
    """Create or change the namespace of a tenant and the objects that the platform manages in it.

    Raises:
        ClusterConflict: If another client created or changed the namespace at the same time.
    """
    tenant = view_of(_tenant(operation))
    if tenant.origin == NamespaceOrigin.EXTERNAL:
        return Done()
    found = cluster.get(NAMESPACE, tenant.namespace)
    match namespaces.plan_namespace(tenant, found):
        case namespaces.Wait():
            return _terminating(tenant)
        case namespaces.Conflict(code, message):
            return Failed(code, message, retryable=True)
        case namespaces.Create(manifest):
            found = cluster.create(NAMESPACE, manifest)
        case namespaces.Change(patch):
            found = cluster.merge_patch(NAMESPACE, tenant.namespace, patch)
        case namespaces.Keep():
            pass
    for kind, manifest in _objects(tenant):
        cluster.apply(kind, manifest)
    return Done(found)


def suspend(cluster: Cluster, operation: Operation) -> Step:
    """Request the stops of the units of a tenant, and record the suspension in its namespace."""
    tenant = _tenant(operation)
    if tenant.phase == TenantPhase.SUSPENDED:
        if units_to_stop(tenant, operation):
            return Checkpoint(lambda fresh: stop_batch(fresh, tenant))
        if has_members_to_create(tenant):
            message = "The units of a group are being created, and will be stopped."
            return Waiting(OperationWait.PROGRESSING, message, GROUP_SECONDS)
    return apply(cluster, operation)


def delete(cluster: Cluster, operation: Operation) -> Step:
    """Delete the namespace that the platform created, or its objects in an adopted namespace.

    The namespace is deleted last, by UID, and only if the cluster has no units in it.
    """
    tenant = view_of(_tenant(operation))
    if tenant.origin == NamespaceOrigin.EXTERNAL:
        return Done()
    found = cluster.get(NAMESPACE, tenant.namespace)
    if found is None or not namespaces.is_of(tenant, found):
        return Done()
    if found["metadata"].get("deletionTimestamp"):
        return _terminating(tenant)
    adopted = tenant.origin == NamespaceOrigin.ADOPTED
    if adopted:
        # An interrupted deletion may have deleted the permissions that the next calls require.
        for manifest in _bindings(tenant):
            cluster.apply(ROLE_BINDING, manifest)
    if unit := next(iter(cluster.list(GPU_UNIT, namespace=tenant.namespace).items), None):
        msg = (
            f"The namespace '{tenant.namespace}' has GPU units that the platform did not record:"
            f" '{unit['metadata']['name']}'. Delete them, then delete the tenant again."
        )
        return Failed(InUse.code, msg, retryable=True)
    if adopted:
        return _release(cluster, tenant, found)
    cluster.delete(NAMESPACE, tenant.namespace, uid=tenant.uid)
    return _terminating(tenant)


def _release(cluster: Cluster, tenant: namespaces.TenantView, found: Manifest) -> Done:
    """Delete the objects of the platform in an adopted namespace, and the label of the tenant.

    The role bindings are deleted after the objects whose deletion they permit.
    """
    objects = sorted(_objects(tenant), key=lambda one: one[0] is ROLE_BINDING)
    for kind, manifest in objects:
        cluster.delete(kind, manifest["metadata"]["name"], namespace=tenant.namespace)
    return Done(cluster.merge_patch(NAMESPACE, tenant.namespace, namespaces.released(found)))


def _objects(tenant: namespaces.TenantView) -> Iterator[tuple[ResourceKind, Manifest]]:
    return tenant_objects(
        tenant.namespace,
        system_namespace=settings.GPUPLATFORM_SYSTEM_NAMESPACE,
        queue_addresses=queue_networks(settings.NATS_URL),
    )


def _bindings(tenant: namespaces.TenantView) -> list[Manifest]:
    return [manifest for kind, manifest in _objects(tenant) if kind is ROLE_BINDING]


def _terminating(tenant: namespaces.TenantView) -> Waiting:
    message = f"The namespace '{tenant.namespace}' is being deleted."
    return Waiting(TenantWait.NAMESPACE_TERMINATING, message, TERMINATING_SECONDS)


def _tenant(operation: Operation) -> Tenant:
    """Return the row of the tenant as it is now."""
    return Tenant.objects.get(pk=operation.object_row or 0)


def _retry_create(retry: RetryRequest) -> Accepted:
    body = TenantCreate.parse({**retry.payload(), "name": retry.failed.object_name})
    return tenants.tenant_create(tenant=retry.failed.tenant, body=body)


def _retry_update(retry: RetryRequest) -> Accepted:
    payload = retry.payload()
    etag = payload.pop(IF_MATCH, None)
    failed, body = retry.failed, TenantPatch.parse(payload)
    accepted = tenants.tenant_update(
        tenant=failed.tenant, name=failed.object_name, body=body, etag=etag
    )
    return retry.of_same_object(accepted)


def _retry_suspend(retry: RetryRequest) -> Accepted:
    return retry.of_same_object(tenants.tenant_suspend(**_address(retry)))


def _retry_resume(retry: RetryRequest) -> Accepted:
    return retry.of_same_object(tenants.tenant_resume(**_address(retry)))


def _retry_delete(retry: RetryRequest) -> Accepted:
    return retry.of_same_object(tenants.tenant_request_deletion(**_address(retry)))


def _address(retry: RetryRequest) -> dict[str, Any]:
    failed = retry.failed
    return {
        "tenant": failed.tenant,
        "name": failed.object_name,
        "operation_id": retry.operation_id,
    }
