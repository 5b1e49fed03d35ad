"""Executes operations on stock pools in the cluster; those on GPU specs need no execution.

Called by `operations.driver`. Each step can be repeated: after a worker is killed, another one
starts without its knowledge.
"""

from typing import Final

from gpuplatform.errors import InvalidSpec
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import STOCK_POOL, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import marks
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
from gpuplatform.operations.target import Target, replacement
from gpuplatform.operations.versions import IF_MATCH, stale, version_of
from gpuplatform.workloads.labels import pod_labels, tenant_label
from inventory.core.spec import StockPoolSpec, parse_spec
from inventory.models import StockPool
from inventory.requests.pools import StockPoolCreate, StockPoolPatch
from inventory.services.catalogue import SpecOperation
from inventory.services.pools import (
    PoolOperation,
    pool_changed,
    pool_create,
    pool_create_failed,
    pool_created,
    pool_deletion_sent,
    pool_request_deletion,
    pool_update,
)

POOL: Final = Target(STOCK_POOL, StockPool, "stock pool")

_ENVELOPE = frozenset({"name", "namespace"})


def register_operations() -> None:
    """Register the kinds of operation of this app."""
    kinds, may = PoolOperation, Cancellable
    register(OperationKind(kinds.CREATE, _create, _settle_create, may.WAITING, _retry_create))
    register(OperationKind(kinds.UPDATE, _update, _settle_update, may.UNSTARTED, _retry_update))
    register(OperationKind(kinds.DELETE, POOL.delete, _settle_delete, may.NEVER, _retry_delete))
    for kind in SpecOperation:
        register(OperationKind(kind, needs_cluster=False))


def _create(cluster: Cluster, operation: Operation) -> Outcome:
    found = POOL.named(cluster, operation)
    if found is None:
        return Done(cluster.create(STOCK_POOL, _manifest(operation)))
    return POOL.existing(found, operation)


def _settle_create(operation: Operation, outcome: Done | Failed) -> None:
    if isinstance(outcome, Failed):
        pool_create_failed(operation, outcome.resource)
    elif outcome.resource is not None:
        pool_created(operation, outcome.resource)


def _update(cluster: Cluster, operation: Operation) -> Outcome:
    found = POOL.read(cluster, operation)
    if found is None:
        return POOL.missing(operation)
    if is_applied(found, operation):
        return Done(found)  # This operation, or a later one that replaces it, was applied.
    metadata, version = found["metadata"], operation.payload.get(IF_MATCH)
    if version not in {None, version_of(metadata["uid"], metadata["generation"])}:
        error = stale(f"the stock pool '{operation.object_name}'")
        return Failed(error.code, error.message)
    try:
        spec = _patch(operation).applied_to(parse_spec(found.get("spec") or {}))
    except InvalidSpec as error:
        faults = "; ".join(f"{fault.field}: {fault.message}" for fault in error.details)
        return Failed("invalid_request", f"The change of the stock pool is invalid: {faults}")
    wanted = replacement(found.get("spec") or {}, spec.normalised())
    return POOL.change(cluster, operation, found, wanted)


def _settle_update(operation: Operation, outcome: Done | Failed) -> None:
    if isinstance(outcome, Done) and outcome.resource is not None:
        pool_changed(operation, outcome.resource)


def _settle_delete(operation: Operation, outcome: Done | Failed) -> None:
    if isinstance(outcome, Done):
        pool_deletion_sent(operation)


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


def _patch(operation: Operation) -> StockPoolPatch:
    payload = {key: value for key, value in operation.payload.items() if key != IF_MATCH}
    return StockPoolPatch.parse({**payload, "operationID": operation.operation_id})


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
