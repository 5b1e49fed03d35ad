"""Executes operations on stock pools in the cluster. Operations on GPU specs need no execution.

Called by `operations.driver`. Every step is idempotent: if a worker is killed, another worker
repeats the step.
"""

from typing import Final

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import STOCK_POOL, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import marks
from gpuplatform.operations.registry import (
    Cancellable,
    Done,
    OperationKind,
    Outcome,
    RetryRequest,
    register,
)
from gpuplatform.operations.services import Accepted
from gpuplatform.operations.target import Target
from gpuplatform.operations.versions import IF_MATCH
from gpuplatform.workloads.labels import pod_labels, tenant_label
from inventory.core.spec import StockPoolSpec
from inventory.models import StockPool
from inventory.requests.pools import StockPoolCreate, StockPoolPatch
from inventory.services.catalogue import SpecOperation
from inventory.services.pools import (
    PoolOperation,
    pool_create,
    pool_request_deletion,
    pool_update,
    settle_create,
    settle_delete,
    settle_update,
)

POOL: Final = Target(STOCK_POOL, StockPool, "stock pool")

_ENVELOPE = frozenset({"name", "namespace"})


def register_operations() -> None:
    """Register the operation kinds of this app."""
    kinds, may = PoolOperation, Cancellable
    register(OperationKind(kinds.CREATE, _create, settle_create, may.WAITING, _retry_create))
    register(OperationKind(kinds.UPDATE, _update, settle_update, may.UNSTARTED, _retry_update))
    register(OperationKind(kinds.DELETE, POOL.delete, settle_delete, may.NEVER, _retry_delete))
    for kind in SpecOperation:
        register(OperationKind(kind, needs_cluster=False))


def _create(cluster: Cluster, operation: Operation) -> Outcome:
    found = POOL.named(cluster, operation)
    if found is None:
        return Done(cluster.create(STOCK_POOL, _manifest(operation)))
    return POOL.existing(found, operation)


def _update(cluster: Cluster, operation: Operation) -> Outcome:
    def changed(spec: Manifest) -> Manifest:
        payload = {key: value for key, value in operation.payload.items() if key != IF_MATCH}
        patch = StockPoolPatch.parse({**payload, "operationID": operation.operation_id})
        return patch.applied_to(StockPoolSpec.parse(spec)).normalised()

    return POOL.update(cluster, operation, changed)


def _retry_create(retry: RetryRequest) -> Accepted:
    body = StockPoolCreate.parse(retry.payload())
    return pool_create(tenant=retry.failed.tenant, body=body)


def _retry_update(retry: RetryRequest) -> Accepted:
    failed, payload = retry.failed, retry.payload()
    etag = payload.pop(IF_MATCH, None)
    accepted = pool_update(
        tenant=failed.tenant,
        namespace=failed.object_namespace,
        name=failed.object_name,
        body=StockPoolPatch.parse(payload),
        etag=etag,
    )
    return retry.of_same_object(accepted)


def _retry_delete(retry: RetryRequest) -> Accepted:
    accepted = pool_request_deletion(
        tenant=retry.failed.tenant,
        operation_id=retry.operation_id,
        namespace=retry.failed.object_namespace,
        name=retry.failed.object_name,
    )
    return retry.of_same_object(accepted)


def _manifest(operation: Operation) -> Manifest:
    payload = {key: value for key, value in operation.payload.items() if key not in _ENVELOPE}
    spec, annotations = StockPoolSpec.parse(payload), marks(operation)
    return {
        "apiVersion": STOCK_POOL.api_version,
        "kind": STOCK_POOL.kind,
        "metadata": {
            "name": operation.object_name,
            "namespace": operation.object_namespace,
            "labels": {**pod_labels(spec.spec_name), **tenant_label(annotations)},
            "annotations": annotations,
        },
        "spec": spec.normalised(),
    }
