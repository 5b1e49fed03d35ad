"""Operations on functions in queue and cluster, also during outages."""

import base64
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform.errors import NameConflict, OperationConflict
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import SECRET
from gpuplatform.nats.tokens import Credentials
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, operations_prune
from gpuplatform.tenancy.selectors import tenant_by_name
from serverless.loops.relay import Relay
from serverless.models import Function, Invocation
from serverless.queue.gateway import Queue
from serverless.queue.names import INVOCATIONS, consumer_name
from serverless.requests import FunctionCreate, FunctionScale, FunctionUpdate
from serverless.services.functions import (
    function_create,
    function_request_deletion,
    function_scale,
    function_update,
)
from serverless.services.invocations import invocation_cancel, invocations_prune
from tests.factories.serverless import SPEC, Worker, accept, function_row
from tests.factories.unit_rows import unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.queue_server import QueueServer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]

NAMESPACE = "runtime-instance"


def create(operation_id: str = "f-1", **fields: Any) -> Accepted:
    """Accept a function as the API does."""
    body = {"operationID": operation_id, "requestID": "echo", **SPEC, **fields}
    return function_create(tenant=tenant_by_name(), body=FunctionCreate.parse(body))


def delete(operation_id: str = "d-1") -> Accepted:
    """Accept the deletion of the function as the API does."""
    return function_request_deletion(
        tenant=tenant_by_name(), request_id="echo", operation_id=operation_id
    )


def run(accepted: Accepted) -> Operation:
    """Run the operation and return its row."""
    Operation.objects.filter(ended_at=None).update(due_at=Now())
    driver.run(accepted.operation.pk)
    return Operation.objects.get(pk=accepted.operation.pk)


def secrets(cluster: FakeCluster) -> list[dict[str, Any]]:
    """Return the Secrets of the tenant."""
    return list(cluster.list(SECRET, namespace=NAMESPACE).items)


def test_create_makes_consumer_and_credentials(queue: Queue, cluster: FakeCluster) -> None:
    ended = run(create(maxDeliver=3, maxWorkers=2, concurrency=4))

    function = Function.objects.get()
    assert (ended.phase, ended.object_row) == ("Succeeded", function.pk)
    info = queue.call(lambda js: js.consumer_info(INVOCATIONS, consumer_name(function.pk)))
    assert (info.config.max_deliver, info.config.max_ack_pending) == (3, 8)
    assert not info.config.backoff
    (secret,) = secrets(cluster)
    assert secret["metadata"]["name"] == f"fn-{function.pk}-queue"
    text = base64.b64decode(secret["data"]["queue.creds"]).decode()
    assert Credentials.from_file(text).token


def test_scale_updates_consumer_and_keeps_generation(queue: Queue, cluster: FakeCluster) -> None:
    run(create(concurrency=4))
    body = FunctionScale.parse({"operationID": "s-1", "minWorkers": 1, "maxWorkers": 3})

    scaled = function_scale(tenant=tenant_by_name(), request_id="echo", body=body)

    assert run(scaled).phase == "Succeeded"
    function = Function.objects.get()
    assert (function.spec["minWorkers"], function.spec["maxWorkers"]) == (1, 3)
    assert (function.spec["concurrency"], function.generation) == (4, 1)
    info = queue.call(lambda js: js.consumer_info(INVOCATIONS, consumer_name(function.pk)))
    assert info.config.max_ack_pending == 12


def test_create_waits_for_unavailable_queue(
    queue: Queue, cluster: FakeCluster, queue_server: QueueServer
) -> None:
    queue_server.kill()
    accepted = create()

    waiting = run(accepted)
    assert (waiting.phase, waiting.reason) == ("Pending", "QueueUnavailable")
    row = accept(Function.objects.get())
    queue_server.start()
    while run(accepted).phase == "Pending":
        continue

    assert run(accepted).phase == "Succeeded"
    assert row.state == "Queued"


@pytest.mark.parametrize("acts_first", [True, False], ids=["reply is lost", "never arrived"])
def test_create_repeated_after_outage_has_one_secret(
    acts_first: bool, queue: Queue, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuplatform.reconciliation.gate.is_closed", lambda: False)
    accepted = create()
    error = ClusterUnavailable("connection reset")
    cluster.fail("create", SECRET, error, acts_first=acts_first)

    assert run(accepted).phase == "Pending"
    assert run(accepted).phase == "Succeeded"
    assert len(secrets(cluster)) == 1


def test_secret_of_lost_database_is_replaced(queue: Queue, cluster: FakeCluster) -> None:
    accepted = create()
    name = f"fn-{Function.objects.get().pk}-queue"
    metadata = {"name": name, "namespace": NAMESPACE}
    stale = {"queue.creds": base64.b64encode(b"stale").decode()}
    cluster.create(SECRET, {"kind": "Secret", "metadata": metadata, "data": stale})

    assert run(accepted).phase == "Succeeded"

    (secret,) = secrets(cluster)
    assert Credentials.from_file(base64.b64decode(secret["data"]["queue.creds"]).decode()).token


def test_name_is_free_after_deletion(queue: Queue, cluster: FakeCluster) -> None:
    run(create())
    with pytest.raises(NameConflict):
        create("f-2")
    assert create().is_replay
    with pytest.raises(OperationConflict):
        create(maxWorkers=9)

    run(delete())

    assert not create("f-3").is_replay


def test_update_changes_consumer(queue: Queue, cluster: FakeCluster) -> None:
    run(create())
    body = FunctionUpdate.parse({"operationID": "u-1", **SPEC, "maxDeliver": 2, "maxWorkers": 7})

    ended = run(function_update(tenant=tenant_by_name(), request_id="echo", body=body))

    name = consumer_name(Function.objects.get().pk)
    config = queue.call(lambda js: js.consumer_info(INVOCATIONS, name)).config
    assert ended.phase == "Succeeded"
    assert (config.max_deliver, config.max_ack_pending) == (2, 7)


def test_delete_removes_queue_objects_and_ends_invocations(
    queue: Queue, cluster: FakeCluster
) -> None:
    run(create())
    function = Function.objects.get()
    row = accept(function)
    Relay(queue).publish()
    Invocation.objects.update(state="Running")

    ended = run(delete())

    function.refresh_from_db()
    row.refresh_from_db()
    assert ended.phase == "Succeeded"
    assert function.deleted_at is not None
    assert (row.state, row.failure_class) == ("Failed", "dispatch_error")
    assert queue.backlog("default", function.pk) is None
    assert queue.call(lambda js: js.stream_info(INVOCATIONS)).state.messages == 0
    assert secrets(cluster) == []


def test_delete_waits_for_workers(queue: Queue, cluster: FakeCluster) -> None:
    run(create())
    name = f"fn-{Function.objects.get().pk}-1"
    worker = unit_row(name=name, spec={"specName": "g1.1", "serverless": {}})

    waiting = run(delete())
    assert (waiting.phase, waiting.reason) == ("Pending", "WorkersStopping")
    worker.deleted_at = "2026-01-01T00:00:00Z"
    worker.save()

    assert run(delete()).phase == "Succeeded"


def test_cancelled_invocations_are_not_delivered_to_stopping_workers(
    queue: Queue, cluster: FakeCluster
) -> None:
    run(create())
    function, other = Function.objects.get(), function_row("other")
    unit_row(name=f"fn-{function.pk}-1", spec={"specName": "g1.1", "serverless": {}})
    begun, first, second = accept(function), accept(function), accept(function)
    theirs = accept(other)
    Relay(queue).publish()
    worker = Worker(queue, function)
    assert worker.read(worker.take_one()).key == begun.pk
    Invocation.objects.filter(pk=begun.pk).update(state="Running")
    theirs.refresh_from_db()
    # As after the streams are recreated: the sequence belongs to another function.
    Invocation.objects.filter(pk=second.pk).update(stream_sequence=theirs.stream_sequence)

    assert run(delete()).reason == "WorkersStopping"

    first.refresh_from_db()
    assert first.state == "Cancelled"
    assert queue.message(first.stream_sequence or 0) is None
    assert queue.message(theirs.stream_sequence or 0) is not None
    backlog = queue.backlog("default", function.pk)
    assert backlog is not None
    assert backlog.in_progress == 1


def test_cancelled_invocation_is_deleted_from_queue(queue: Queue, cluster: FakeCluster) -> None:
    function = function_row()
    row = accept(function)
    other = accept(function)
    Relay(queue).publish()

    accepted = invocation_cancel(
        tenant=row.tenant, invocation_id=row.invocation_id, operation_id="c-1"
    )
    assert run(accepted).phase == "Succeeded"

    worker = Worker(queue, function)
    assert worker.read(worker.take_one()).key == other.pk
    assert worker.take(1, seconds=0.2) == []


def test_old_rows_are_pruned(queue: Queue, cluster: FakeCluster) -> None:
    run(create())
    function = Function.objects.get()
    old, fresh, running = accept(function), accept(function), accept(function)
    ended = Invocation.objects.filter(pk__in=[old.pk, fresh.pk])
    ended.update(state="Cancelled", completed_at=Now())
    Invocation.objects.filter(pk=old.pk).update(completed_at=Now() - timedelta(days=8))
    Operation.objects.update(ended_at=Now() - timedelta(days=90), due_at=None, phase="Succeeded")

    assert invocations_prune() == 1
    operations_prune()
    assert set(Invocation.objects.values_list("pk", flat=True)) == {fresh.pk, running.pk}
    assert Operation.objects.filter(pk=function.operation_id).exists()

    Invocation.objects.update(state="Cancelled", completed_at=Now() - timedelta(days=8))
    Function.objects.update(deleted_at=Now() - timedelta(days=31))
    invocations_prune()
    operations_prune()
    assert not Function.objects.exists()
    assert not Operation.objects.exists()
