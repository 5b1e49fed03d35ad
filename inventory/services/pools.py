"""Creates, changes and deletes stock pools: accepted requests and their outcomes."""

from dataclasses import replace
from datetime import timedelta
from enum import StrEnum

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from gpuplatform.errors import NotFound, PhaseConflict
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import (
    RETENTION_DAYS,
    Accepted,
    Request,
    name_conflict,
    operation_accept,
)
from gpuplatform.operations.versions import IF_MATCH, check_version, version_of
from gpuplatform.queueing import Queue, enqueue_after_commit
from gpuplatform.reconciliation.leases import mark_due
from gpuplatform.reconciliation.mirror import request_deletion
from gpuplatform.tenancy.models import Tenant
from inventory.core.spec import parse_spec
from inventory.mirror import POOL_MIRROR, spec_columns
from inventory.models import StockPool
from inventory.requests.pools import StockPoolCreate, StockPoolPatch
from inventory.selectors import pool_get


class InventoryTask(StrEnum):
    """Names of this app's tasks."""

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
    """Accept the creation of a pool and insert its row, `Pending` and without a UID.

    Raises:
        NameConflict: the name is in use in that namespace.
        OperationConflict: the operationID belongs to another request.
    """
    name = body.pool_name(tenant=tenant.name)

    def prepare(operation: Operation) -> int:
        spec = body.spec().normalised()
        row = StockPool(
            tenant=tenant,
            operation=operation,
            namespace=body.namespace,
            name=name,
            **spec_columns(spec),
        )
        # The unique name decides: of two concurrent inserts the second one inserts nothing.
        StockPool.objects.bulk_create([row], ignore_conflicts=True)
        row_id = operation.stock_pools.values_list("id", flat=True).first()
        if row_id is None:
            holders = StockPool.objects.filter(namespace=body.namespace, name=name)
            where = f" in the namespace '{body.namespace}'"
            raise name_conflict(holders, f"stock pool '{name}'", where=where)
        return row_id

    place = (body.namespace, name)
    request = _request(tenant, PoolOperation.CREATE, body.operation_id, place)
    return operation_accept(replace(request, payload=body.payload()), prepare=prepare)


def pool_update(
    *, tenant: Tenant, namespace: str, name: str, body: StockPoolPatch, etag: str | None = None
) -> Accepted:
    """Accept a change of a pool's spec; with `etag`, of exactly that version.

    Raises:
        NotFound: the pool does not exist.
        PhaseConflict: it is being deleted.
        StaleEtag: it was changed after the caller read it, or a change is in progress.
        InvalidSpec: the changed spec breaks a rule.
    """

    def prepare(operation: Operation) -> int:
        pool = _locked(namespace, name)
        if pool.deletion_requested_at:
            msg = f"The stock pool '{name}' is being deleted. Wait until it is deleted."
            raise PhaseConflict(msg)
        current = version_of(pool.uid, pool.generation)
        check_version(operation, etag, current, f"the stock pool '{name}'")
        body.applied_to(parse_spec(pool.spec))
        return pool.id

    request = _request(tenant, PoolOperation.UPDATE, body.operation_id, (namespace, name))
    payload = body.payload() | ({} if etag is None else {IF_MATCH: etag})
    return operation_accept(replace(request, payload=payload), prepare=prepare)


def pool_request_deletion(
    *, tenant: Tenant, operation_id: str, namespace: str, name: str
) -> Accepted:
    """Accept the deletion of a pool; its phase is `Terminating` from then on.

    Raises:
        NotFound: the pool does not exist.
    """

    def prepare(_: Operation) -> int:
        pool = _locked(namespace, name)
        request_deletion(StockPool.objects.filter(pk=pool.pk, deletion_requested_at__isnull=True))
        return pool.id

    request = _request(tenant, PoolOperation.DELETE, operation_id, (namespace, name))
    return operation_accept(request, prepare=prepare)


def pool_reconcile_soon(pool: StockPool) -> None:
    """Have a pool reconciled now, without waiting for the backoff of its failures.

    Raises:
        PhaseConflict: it has no resource.
    """
    if pool.deleted_at or not pool.uid:
        msg = f"The stock pool '{pool.name}' has no resource in the cluster."
        raise PhaseConflict(msg)
    with transaction.atomic():
        _reconcile_soon(StockPool.objects.filter(pk=pool.pk))


def pool_created(operation: Operation, resource: Manifest) -> None:
    """Copy the created resource into the row, in the transaction that ends the operation."""
    POOL_MIRROR.recorded(_row_of(operation).filter(uid=""), resource)
    _reconcile_soon(_row_of(operation))


def pool_create_failed(operation: Operation, conflicting: Manifest | None) -> None:
    """Close the row of a pool that was not created; copy the conflicting resource, if any."""
    POOL_MIRROR.gone(_row_of(operation).filter(uid=""), conflicting)


def pool_changed(operation: Operation, resource: Manifest) -> None:
    """Copy the changed resource, and have it reconciled."""
    rows = _row_of(operation)
    POOL_MIRROR.recorded(rows, resource)
    _reconcile_soon(rows)


def pool_deletion_sent(operation: Operation) -> None:
    """Have the reconciler confirm the deletion."""
    _reconcile_soon(_row_of(operation))


def pools_prune() -> int:
    """Delete rows of pools past their retention; return the count."""
    old = StockPool.objects.filter(deleted_at__lt=Now() - timedelta(days=RETENTION_DAYS))
    return old.delete()[0]


def _request(
    tenant: Tenant,
    kind: PoolOperation,
    operation_id: str,
    place: tuple[str, str],
) -> Request:
    """Return a request without payload about the pool at `place`, its namespace and name."""
    return Request(tenant, operation_id, kind, "StockPool", *place)


def _row_of(operation: Operation) -> QuerySet[StockPool]:
    return StockPool.objects.filter(pk=operation.object_row or 0)


def _reconcile_soon(rows: QuerySet[StockPool]) -> None:
    mark_due(rows)
    for row_id in rows.values_list("id", flat=True):
        enqueue_after_commit(InventoryTask.RECONCILE_POOL, row_id, queue=Queue.RECONCILE)


def _locked(namespace: str, name: str) -> StockPool:
    """Return the live pool, locked, so that operations on it are accepted in one order."""
    pool = pool_get(namespace, name)
    locked = StockPool.objects.select_for_update().filter(pk=pool.pk, deleted_at__isnull=True)
    found = locked.first()
    if found is None:
        msg = f"The stock pool '{name}' does not exist in the namespace '{namespace}'."
        raise NotFound(msg)
    return found
