"""Accepts requests to create, change and delete stock pools, and records their outcomes."""

from datetime import timedelta
from enum import StrEnum
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from gpuplatform.audit.core.changes import Target
from gpuplatform.errors import FieldError, InvalidSpec, PhaseConflict
from gpuplatform.formats.namespaces import reserved_error
from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.operations.models import Operation
from gpuplatform.operations.registry import Done, Failed
from gpuplatform.operations.services import (
    RETENTION_DAYS,
    Accepted,
    Request,
    name_conflict,
    operation_accept,
    row_insert,
)
from gpuplatform.operations.versions import IF_MATCH, check_version, version_of
from gpuplatform.queueing import Queue, enqueue_after_commit
from gpuplatform.reconciliation.leases import mark_due
from gpuplatform.reconciliation.mirror import request_deletion
from gpuplatform.tenancy.models import Tenant
from inventory.mirror import POOL_MIRROR, spec_columns
from inventory.models import StockPool
from inventory.requests.pools import StockPoolCreate, StockPoolPatch
from inventory.selectors import pool_get, spec_pod_fields, spec_requested


class InventoryTask(StrEnum):
    """Names of the Celery tasks of this app."""

    RECONCILE_POOL = "inventory.reconcile_pool"
    SWEEP_POOLS = "inventory.sweep_pools"
    RECONCILE_ALL = "inventory.reconcile_all"
    PRUNE_POOLS = "inventory.prune_pools"
    DELETE_LEFTOVERS = "inventory.delete_leftovers"


class PoolOperation(StrEnum):
    """The kinds of operation on stock pools."""

    CREATE = "stockpool.create"
    UPDATE = "stockpool.update"
    DELETE = "stockpool.delete"


def pool_create(*, tenant: Tenant, body: StockPoolCreate) -> Accepted:
    """Accept a request to create a stock pool, and insert its row without a UID.

    The spec in the row has the fields that the request omits and the catalogue has.

    Raises:
        InvalidSpec: If the namespace is not for stock pools, if the GPU spec is not in the
            catalogue or is disabled, or if the request and the GPU spec do not fit together.
        NameConflict: If the name is in use in the namespace.
        OperationConflict: If the operationID belongs to another request.
    """
    name = body.pool_name(tenant=tenant.name)

    def prepare(operation: Operation) -> int:
        _check_namespace(body.namespace)
        inherited = spec_pod_fields(spec_requested(body.spec_name))
        row = StockPool(
            tenant=tenant,
            operation=operation,
            namespace=body.namespace,
            name=name,
            **spec_columns(body.spec(inherited).normalised()),
        )
        holders = StockPool.objects.filter(namespace=body.namespace, name=name)
        where = f" in the namespace '{body.namespace}'"
        row_insert(row, partial(name_conflict, holders, f"stock pool '{name}'", where=where))
        return row.pk

    kind, place = PoolOperation.CREATE, (STOCK_POOL.kind, body.namespace, name)
    request = Request(tenant, body.operation_id, kind, *place, body.payload())
    return operation_accept(request, prepare=prepare)


def pool_update(
    *, tenant: Tenant, namespace: str, name: str, body: StockPoolPatch, etag: str | None = None
) -> Accepted:
    """Accept a request to change the spec of a stock pool.

    If `etag` is specified, only that version of the stock pool is changed.

    Raises:
        NotFound: If the stock pool does not exist.
        PhaseConflict: If the stock pool is being deleted.
        StaleEtag: If the stock pool is not at version `etag`, or if a change is in progress.
        InvalidSpec: If the changed spec is invalid.
    """

    def prepare(operation: Operation) -> int:
        pool = pool_get(namespace, name, for_update=True)
        if pool.deletion_requested_at:
            msg = f"The stock pool '{name}' is being deleted. Wait until it is deleted."
            raise PhaseConflict(msg)
        current = version_of(pool.uid, pool.generation)
        check_version(operation, etag, current, f"the stock pool '{name}'")
        body.applied_to(pool.spec)
        operation.target = Target(pool.uid, pool.spec)
        return pool.id

    payload = body.payload() | ({} if etag is None else {IF_MATCH: etag})
    kind, place = PoolOperation.UPDATE, (STOCK_POOL.kind, namespace, name)
    request = Request(tenant, body.operation_id, kind, *place, payload)
    return operation_accept(request, prepare=prepare)


def pool_request_deletion(
    *, tenant: Tenant, operation_id: str, namespace: str, name: str
) -> Accepted:
    """Accept a request to delete a stock pool, and set its phase to `Terminating`.

    Raises:
        NotFound: If the stock pool does not exist.
    """

    def prepare(operation: Operation) -> int:
        pool = pool_get(namespace, name, for_update=True)
        operation.target = Target(pool.uid)
        request_deletion(StockPool.objects.filter(pk=pool.pk, deletion_requested_at__isnull=True))
        return pool.id

    kind, place = PoolOperation.DELETE, (STOCK_POOL.kind, namespace, name)
    return operation_accept(Request(tenant, operation_id, kind, *place), prepare=prepare)


def pool_reconcile_soon(pool: StockPool) -> None:
    """Enqueue a stock pool for reconciliation, regardless of the backoff of its failures.

    Raises:
        PhaseConflict: If the stock pool has no resource.
    """
    if pool.deleted_at or not pool.uid:
        msg = f"The stock pool '{pool.name}' has no resource in the cluster."
        raise PhaseConflict(msg)
    with transaction.atomic():
        _reconcile_soon(StockPool.objects.filter(pk=pool.pk))


def settle_create(operation: Operation, outcome: Done | Failed) -> None:
    """Record the outcome of a creation, in the transaction that ends the operation.

    A failure closes the row. If another resource has the name, that resource is copied.
    """
    rows = _row_of(operation)
    if isinstance(outcome, Failed):
        POOL_MIRROR.gone(rows.filter(uid=""), outcome.resource)
    elif outcome.resource is not None:
        POOL_MIRROR.recorded(rows.filter(uid=""), outcome.resource)
        _reconcile_soon(rows)


def settle_update(operation: Operation, outcome: Done | Failed) -> None:
    """Copy the changed resource and enqueue it, in the transaction that ends the operation."""
    if isinstance(outcome, Done) and outcome.resource is not None:
        rows = _row_of(operation)
        POOL_MIRROR.recorded(rows, outcome.resource)
        _reconcile_soon(rows)


def settle_delete(operation: Operation, outcome: Done | Failed) -> None:
    """Enqueue the stock pool, so that the reconciler confirms the deletion."""
    if isinstance(outcome, Done):
        _reconcile_soon(_row_of(operation))


def pools_prune() -> int:
    """Delete the rows of stock pools past their retention; return the number of deleted rows."""
    old = StockPool.objects.filter(deleted_at__lt=Now() - timedelta(days=RETENTION_DAYS))
    return old.delete()[0]


def _check_namespace(namespace: str) -> None:
    """Check that new stock pools may be created in a namespace.

    The pods of a stock pool can read the Secrets of their namespace. Stock pools that exist in
    other namespaces can be changed and deleted.

    Raises:
        InvalidSpec: If the namespace belongs to Kubernetes, to the platform or to a tenant, or is
            not one of the configured namespaces.
    """
    system_namespace, allowed = settings.GPUPLATFORM_SYSTEM_NAMESPACE, settings.POOL_NAMESPACES
    error = reserved_error(namespace, system_namespace=system_namespace)
    if not error and Tenant.objects.filter(namespace=namespace).exists():
        error = f"The namespace '{namespace}' belongs to a tenant. Choose another one."
    if not error and namespace not in allowed:
        error = f"Stock pools can be created in these namespaces only: {', '.join(allowed)}."
    if error:
        raise InvalidSpec(f"namespace: {error}", details=[FieldError("namespace", error)])


def _row_of(operation: Operation) -> QuerySet[StockPool]:
    return StockPool.objects.filter(pk=operation.object_row or 0)


def _reconcile_soon(rows: QuerySet[StockPool]) -> None:
    mark_due(rows)
    for row_id in rows.values_list("id", flat=True):
        enqueue_after_commit(InventoryTask.RECONCILE_POOL, row_id, queue=Queue.RECONCILE)
