"""Executes operations on stock pools and nodes in the cluster.

Operations on GPU specs need no execution.

Called by `operations.driver`. Every step is idempotent: if a worker is killed, another worker
repeats the step.
"""

from typing import Final

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import NODE, STOCK_POOL, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import APPLIED_OPERATION_ANNOTATION, marks
from gpuplatform.operations.registry import (
    Cancellable,
    Done,
    Failed,
    OperationKind,
    Outcome,
    RetryRequest,
    register,
)
from gpuplatform.operations.selectors import is_applied
from gpuplatform.operations.services import Accepted
from gpuplatform.operations.target import Target
from gpuplatform.operations.versions import IF_MATCH
from gpuplatform.workloads.labels import pod_labels, tenant_label
from inventory.models import StockPool
from inventory.requests.drains import NodeDrainBody
from inventory.requests.pools import StockPoolCreate, StockPoolPatch, pool_spec
from inventory.services.catalogue import SpecOperation
from inventory.services.cordons import NodeOperation, node_cordon, node_uncordon
from inventory.services.drains import node_drain, settle_drain
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


def register_operations() -> None:
    """Register the operation kinds of this app."""
    kinds, may = PoolOperation, Cancellable
    register(OperationKind(kinds.CREATE, _create, settle_create, may.WAITING, _retry_create))
    register(OperationKind(kinds.UPDATE, _update, settle_update, may.UNSTARTED, _retry_update))
    register(OperationKind(kinds.DELETE, POOL.delete, settle_delete, may.NEVER, _retry_delete))
    for kind in SpecOperation:
        register(OperationKind(kind, needs_cluster=False))
    for one, change in ((NodeOperation.CORDON, _cordon), (NodeOperation.UNCORDON, _uncordon)):
        register(OperationKind(one, change, cancellable=may.UNSTARTED, retry=_retry_cordon))
    drain = NodeOperation.DRAIN
    register(OperationKind(drain, _cordon, settle_drain, may.UNSTARTED, retry=_retry_drain))
    register(OperationKind(NodeOperation.CANCEL_DRAIN, needs_cluster=False))


def _cordon(cluster: Cluster, operation: Operation) -> Outcome:
    return _set_unschedulable(cluster, operation, value=True)


def _uncordon(cluster: Cluster, operation: Operation) -> Outcome:
    return _set_unschedulable(cluster, operation, value=None)


def _set_unschedulable(
    cluster: Cluster, operation: Operation, *, value: bool | None
) -> Done | Failed:
    """Set or remove the field `unschedulable` of a node, unless the operation was applied.

    Raises:
        ClusterConflict: If the node changed after it was read.
    """
    found = cluster.get(NODE, operation.object_name)
    if found is None:
        return Failed("not_found", f"The node '{operation.object_name}' does not exist.")
    if is_applied(found, operation):
        return Done(found)
    metadata = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
    # An older operation must not be applied after a newer one.
    annotations = {APPLIED_OPERATION_ANNOTATION: str(operation.pk)}
    patch = {
        "metadata": {**metadata, "annotations": annotations},
        "spec": {"unschedulable": value},
    }
    return Done(cluster.merge_patch(NODE, operation.object_name, patch))


def _retry_cordon(retry: RetryRequest) -> Accepted:
    is_cordon = retry.failed.kind == NodeOperation.CORDON
    return (node_cordon if is_cordon else node_uncordon)(
        tenant=retry.failed.tenant,
        name=retry.failed.object_name,
        operation_id=retry.operation_id,
    )


def _retry_drain(retry: RetryRequest) -> Accepted:
    body = NodeDrainBody.parse(retry.payload())
    return node_drain(tenant=retry.failed.tenant, name=retry.failed.object_name, body=body)


def _create(cluster: Cluster, operation: Operation) -> Outcome:
    found = POOL.named(cluster, operation)
    if found is None:
        return Done(cluster.create(STOCK_POOL, _manifest(operation)))
    return POOL.existing(found, operation)


def _update(cluster: Cluster, operation: Operation) -> Outcome:
    def changed(spec: Manifest) -> Manifest:
        payload = {key: value for key, value in operation.payload.items() if key != IF_MATCH}
        patch = StockPoolPatch.parse({**payload, "operationID": operation.operation_id})
        return patch.applied_to(spec).normalised()

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
    spec = pool_spec(operation.payload, POOL.row(operation).spec)
    annotations = marks(operation)
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
