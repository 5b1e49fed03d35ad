"""Executes, settles and retries operations on functions and invocations.

Called by `operations.driver`. Every step can be repeated. A function is a row; its operations
manage its consumer in the queue, and the Secret with the credentials of its workers.
"""

import base64
from collections.abc import Callable
from typing import Any, Final

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import SECRET, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import bears, marks
from gpuplatform.operations.registry import (
    Cancellable,
    Done,
    Failed,
    OperationKind,
    Outcome,
    RetryRequest,
    Waiting,
    register,
)
from gpuplatform.operations.services import Accepted
from gpuplatform.operations.versions import IF_MATCH
from gpuplatform.planning.backoff import backoff_seconds
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER
from gpuplatform.workloads.labels import FUNCTION_LABEL
from serverless.models import Function, Invocation
from serverless.phases import FunctionWait, InvocationState
from serverless.queue.credentials import worker_credentials
from serverless.queue.errors import QueueError
from serverless.queue.gateway import Queue, get_queue, queue_account
from serverless.queue.names import CREDENTIALS_KEY, secret_name
from serverless.requests import FunctionCreate, FunctionScale, FunctionUpdate
from serverless.selectors import workers_of
from serverless.services.functions import (
    function_create,
    function_deleted,
    function_request_deletion,
    function_scale,
    function_update,
)
from serverless.services.invocations import MAX_OPEN
from serverless.services.names import ServerlessOperation
from serverless.services.outbox import outbox_notify
from serverless.services.receipts import read_invocation

WORKERS_SECONDS: Final = 2.0
DELETE_BATCH: Final = 200


def register_operations() -> None:
    """Register the kinds of operation of this app."""
    kinds, unstarted = ServerlessOperation, Cancellable.UNSTARTED
    register(OperationKind(kinds.CREATE, _create, _settle_create, unstarted, _retry_create))
    for kind, retry in ((kinds.UPDATE, _retry_update), (kinds.SCALE, _retry_scale)):
        register(OperationKind(kind, _update, retry=retry, needs_cluster=False))
    register(OperationKind(kinds.DELETE, _delete, _settle_delete, retry=_retry_delete))
    register(OperationKind(kinds.CANCEL, _cancel, needs_cluster=False))
    register(OperationKind(kinds.REPLAY, needs_cluster=False))


def ensure_consumer(queue: Queue, function: Function) -> None:
    """Create the consumer of a function, or update the consumer to the spec.

    Raises:
        QueueError: If the queue is unavailable or rejects the request.
    """
    spec = function.limits
    queue.ensure_consumer(
        function.tenant.name,
        function.pk,
        max_deliver=spec.max_deliver,
        max_in_progress=spec.max_in_progress,
    )


def delete_message(queue: Queue, row: Invocation) -> None:
    """Delete the message of an ended invocation, if it is in the queue; idempotent.

    Raises:
        QueueError: If the queue is unavailable.
    """
    if row.stream_sequence is None:
        return
    message = queue.message(row.stream_sequence)
    found = read_invocation(message) if message else None
    # After the loss of the stream, the sequence can belong to another invocation.
    if found is not None and found.key == row.pk:
        queue.delete(row.stream_sequence)


# Execution.


def _with_queue(
    call: Callable[[Queue, Cluster, Operation], Outcome],
) -> Callable[[Cluster, Operation], Outcome]:
    """Return an `execute` function that passes the queue, and waits while it is unavailable."""

    def execute(cluster: Cluster, operation: Operation) -> Outcome:
        try:
            return call(get_queue(), cluster, operation)
        except QueueError as error:
            seconds = backoff_seconds(operation.failures + 1)
            return Waiting(FunctionWait.QUEUE_UNAVAILABLE, str(error), seconds)

    return execute


@_with_queue
def _create(queue: Queue, cluster: Cluster, operation: Operation) -> Outcome:
    function = _function(operation)
    queue.ensure()
    ensure_consumer(queue, function)
    return Done(_ensure_secret(cluster, operation, function))


@_with_queue
def _update(queue: Queue, _: Cluster, operation: Operation) -> Outcome:
    ensure_consumer(queue, _function(operation))
    return Done()


@_with_queue
def _delete(queue: Queue, cluster: Cluster, operation: Operation) -> Outcome:
    """Delete the function after the activator has stopped its workers.

    Until then, messages of cancelled invocations are deleted so that no worker starts them.
    """
    function = _function(operation)
    if workers_of(function).exists():
        _delete_cancelled(queue, function)
        message = "The workers are being stopped."
        return Waiting(FunctionWait.WORKERS_STOPPING, message, WORKERS_SECONDS)
    queue.remove_function(function.tenant.name, function.pk)
    cluster.delete(SECRET, secret_name(function.pk), namespace=function.tenant.namespace)
    return Done()


def _delete_cancelled(queue: Queue, function: Function) -> None:
    backlog = queue.backlog(function.tenant.name, function.pk)
    if backlog is None or not backlog.pending:
        return
    rows = Invocation.objects.filter(
        function=function, state=InvocationState.CANCELLED, stream_sequence__isnull=False
    )
    sequences = list(rows.order_by("-id").values_list("stream_sequence", flat=True)[:MAX_OPEN])
    for start in range(0, len(sequences), DELETE_BATCH):
        batch = [one for one in sequences[start : start + DELETE_BATCH] if one is not None]
        queue.delete_of(function.tenant.name, function.pk, batch)


@_with_queue
def _cancel(queue: Queue, _: Cluster, operation: Operation) -> Outcome:
    """Delete the message of a cancelled invocation.

    If a relay is publishing the message at this time, the relay deletes it.
    """
    row = Invocation.objects.get(pk=operation.object_row or 0)
    if row.state == InvocationState.CANCELLED:
        delete_message(queue, row)
    return Done()


def _ensure_secret(cluster: Cluster, operation: Operation, function: Function) -> Manifest:
    """Create the Secret with new credentials unless this operation has already created it."""
    name, namespace = secret_name(function.pk), function.tenant.namespace
    found = cluster.get(SECRET, name, namespace=namespace)
    if found is None:
        return cluster.create(SECRET, _secret(operation, function))
    if bears(found, operation):
        return found
    # The Secret belongs to a function of a lost database that had the same id.
    secret = _secret(operation, function)
    guard = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
    patch = {"metadata": {**secret["metadata"], **guard}, "data": secret["data"]}
    return cluster.merge_patch(SECRET, name, patch, namespace=namespace)


def _secret(operation: Operation, function: Function) -> Manifest:
    credentials = worker_credentials(queue_account(), function.tenant.name, function.pk)
    text = base64.b64encode(credentials.file().encode()).decode()
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            "name": secret_name(function.pk),
            "namespace": function.tenant.namespace,
            "labels": {MANAGED_BY_LABEL: MANAGER, FUNCTION_LABEL: str(function.pk)},
            "annotations": marks(operation),
        },
        "type": "Opaque",
        "data": {CREDENTIALS_KEY: text},
    }


def _function(operation: Operation) -> Function:
    return Function.objects.select_related("tenant").get(pk=operation.object_row or 0)


# Settlement.


def _settle_create(operation: Operation, outcome: Done | Failed) -> None:
    if isinstance(outcome, Failed):
        function_deleted(operation)
    else:
        outbox_notify()  # The activator may start its workers now.


def _settle_delete(operation: Operation, outcome: Done | Failed) -> None:
    if isinstance(outcome, Done):
        function_deleted(operation)


# Retries of failed operations, by the services that accepted them.


def _retry_create(request: RetryRequest) -> Accepted:
    body = FunctionCreate.parse({**request.payload(), "requestID": request.failed.object_name})
    return function_create(tenant=request.failed.tenant, body=body)


def _retry_update(request: RetryRequest) -> Accepted:
    payload = request.payload()
    etag = payload.pop(IF_MATCH, None)
    body = FunctionUpdate.parse(payload)
    accepted = function_update(**_failed_function(request), body=body, etag=etag)
    return request.of_same_object(accepted)


def _retry_scale(request: RetryRequest) -> Accepted:
    body = FunctionScale.parse(request.payload())
    return request.of_same_object(function_scale(**_failed_function(request), body=body))


def _retry_delete(request: RetryRequest) -> Accepted:
    operation_id = request.operation_id
    return request.of_same_object(
        function_request_deletion(**_failed_function(request), operation_id=operation_id)
    )


def _failed_function(request: RetryRequest) -> dict[str, Any]:
    return {"tenant": request.failed.tenant, "request_id": request.failed.object_name}
