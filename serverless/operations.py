"""How operations on functions and invocations are done: in the queue, and a Secret in the cluster.

Called by `operations.driver`. Each step may be repeated at any point. A function itself lives in
the database; what is made here is its consumer, and the credentials of its workers.
"""

import base64
from collections.abc import Callable
from typing import Final

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import GROUP, SECRET, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import bears, marks
from gpuplatform.operations.registry import (
    Cancellable,
    Done,
    Failed,
    OperationKind,
    Outcome,
    Waiting,
    register,
)
from gpuplatform.planning.backoff import backoff_seconds
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER
from serverless.again import create_again, delete_again, scale_again, update_again
from serverless.models import Function, Invocation
from serverless.phases import FunctionWait, InvocationState
from serverless.queue.credentials import worker_credentials
from serverless.queue.errors import QueueError
from serverless.queue.gateway import Queue, get_queue, queue_account
from serverless.queue.names import CREDENTIALS_KEY, secret_name
from serverless.results import read_message
from serverless.selectors import workers_of
from serverless.services import (
    MOST_OPEN,
    ServerlessOperation,
    function_deleted,
    function_unmade,
    notify_relay,
)
from serverless.sweep import ensure_consumer

FUNCTION_LABEL: Final = f"{GROUP}/function"
WORKERS_SECONDS: Final = 2.0
DELETED_AT_ONCE: Final = 200


def register_operations() -> None:
    """Make the kinds of operation of this app known."""
    kinds, may = ServerlessOperation, Cancellable
    # Accepting a change or a deletion has changed the function already.
    register(OperationKind(kinds.CREATE, _create, _settle_create, may.UNSTARTED, create_again))
    for kind, again in ((kinds.UPDATE, update_again), (kinds.SCALE, scale_again)):
        register(
            OperationKind(kind, _update, _settle_nothing, may.NEVER, again, needs_cluster=False)
        )
    register(OperationKind(kinds.DELETE, _delete, _settle_delete, may.NEVER, delete_again))
    register(OperationKind(kinds.CANCEL, _take_out, _settle_nothing, needs_cluster=False))
    register(OperationKind(kinds.REPLAY, _replay, _settle_nothing, needs_cluster=False))


def _in_queue(operation: Operation, call: Callable[[Queue], Outcome]) -> Outcome:
    """Make the calls, or wait for a queue that is away."""
    try:
        return call(get_queue())
    except QueueError as error:
        return Waiting(
            FunctionWait.QUEUE_UNAVAILABLE, str(error), backoff_seconds(operation.failures + 1)
        )


def _create(cluster: Cluster, operation: Operation) -> Outcome:
    function = _function(operation)

    def make(queue: Queue) -> Outcome:
        queue.ensure()
        ensure_consumer(queue, function)
        return Done(_ensure_secret(cluster, operation, function))

    return _in_queue(operation, make)


def _settle_create(operation: Operation, outcome: Done | Failed) -> None:
    if isinstance(outcome, Failed):
        function_unmade(operation)
    else:
        notify_relay()  # Its workers may start now.


def _update(_: Cluster, operation: Operation) -> Outcome:
    function = _function(operation)

    def change(queue: Queue) -> Outcome:
        ensure_consumer(queue, function)
        return Done()

    return _in_queue(operation, change)


def _delete(cluster: Cluster, operation: Operation) -> Outcome:
    """Remove it once its workers are gone: the activator stops those of a function that ends.

    What was cancelled is taken out before, or they would go on with it until they are stopped.
    """
    function = _function(operation)

    def remove(queue: Queue) -> Outcome:
        if workers_of(function).exists():
            _take_cancelled_out(queue, function)
            return Waiting(
                FunctionWait.WORKERS_STOPPING, "Its workers are being stopped.", WORKERS_SECONDS
            )
        queue.remove_function(function.tenant.name, function.pk)
        name, namespace = secret_name(function.pk), function.tenant.namespace
        cluster.delete(SECRET, name, namespace=namespace)
        return Done()

    return _in_queue(operation, remove)


def _take_cancelled_out(queue: Queue, function: Function) -> None:
    backlog = queue.backlog(function.tenant.name, function.pk)
    if backlog is None or not backlog.pending:
        return
    rows = Invocation.objects.filter(function=function, state=InvocationState.CANCELLED)
    newest = rows.order_by("-id").values_list("stream_sequence", flat=True)[:MOST_OPEN]
    numbers = [number for number in newest if number is not None]
    for start in range(0, len(numbers), DELETED_AT_ONCE):
        chunk = numbers[start : start + DELETED_AT_ONCE]
        queue.delete_of(function.tenant.name, function.pk, chunk)


def _settle_delete(operation: Operation, outcome: Done | Failed) -> None:
    if isinstance(outcome, Done):
        function_deleted(operation)


def _take_out(_: Cluster, operation: Operation) -> Outcome:
    """Take a cancelled invocation out of the queue; a relay that has it does it itself."""
    row = Invocation.objects.get(pk=operation.object_row or 0)
    sequence = row.stream_sequence
    if row.state != InvocationState.CANCELLED or sequence is None:
        return Done()

    def delete(queue: Queue) -> Outcome:
        message = queue.message(sequence)
        found = read_message(message) if message else None
        if found is not None and found.key == row.pk:
            queue.delete(sequence)
        return Done()

    return _in_queue(operation, delete)


def _replay(_: Cluster, __: Operation) -> Outcome:
    """Its row waits for the relay since it was accepted."""
    return Done()


def _settle_nothing(_: Operation, __: Done | Failed) -> None:
    """The row says it already."""


def _ensure_secret(cluster: Cluster, operation: Operation, function: Function) -> Manifest:
    """Make the credentials, unless this operation made them already."""
    name, namespace = secret_name(function.pk), function.tenant.namespace
    found = cluster.get(SECRET, name, namespace=namespace)
    if found is None:
        return cluster.create(SECRET, _secret(operation, function))
    if bears(found, operation):
        return found
    # Of a function of a lost database that had the same number.
    wanted = _secret(operation, function)
    guard = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
    patch = {"metadata": {**wanted["metadata"], **guard}, "data": wanted["data"]}
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
