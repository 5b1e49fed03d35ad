"""The activator: starts and stops of workers, and the status of functions."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec
from serverless.core.workers import generation_of, worker_name
from serverless.loops.activator import Activator
from serverless.loops.relay import Relay
from serverless.models import Function, Invocation
from serverless.phases import InvocationState
from serverless.queue.gateway import Queue
from serverless.requests import FunctionUpdate
from serverless.selectors import workers_of
from serverless.services.functions import function_request_deletion, function_update
from serverless.services.workers import WorkerStart, worker_start
from tests.factories.node_rows import node_row
from tests.factories.serverless import Worker, accept, function_row, tenant_row
from tests.factories.unit_rows import PULL_FAILURE, spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.queue_server import QueueServer
from units.models import CapacityRequest, GpuUnit
from units.phases import RequestPhase, UnitPhase
from units.services.matcher import match
from units.services.units import unit_request_deletion

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]

SLEPT = timedelta(hours=1)
Reconcile = Callable[[], None]


@pytest.fixture
def reconcile(queue: Queue, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Reconcile:
    """Reconcile once, as the leader."""
    one = Activator(queue, cluster, "activator-1")
    monkeypatch.setattr(one._elector, "may_act", lambda: True)
    return one.reconcile


def worker_row(function: Function, phase: str = UnitPhase.READY, **changes: Any) -> GpuUnit:
    """Insert the row of a worker."""
    name = worker_name(function.pk, function.generation, f"{GpuUnit.objects.count():08x}")
    spec = {"specName": "g1.1", "serverless": {"functionID": function.pk}}
    return unit_row(phase, **{"name": name, "spec": spec, **changes})


def phase_of(function: Function) -> tuple[str, str]:
    function.refresh_from_db()
    return function.phase, function.reason


def put_to_sleep(function: Function) -> None:
    """Set the last activity of the function to a time long ago."""
    long_ago = clock.now() - SLEPT
    Function.objects.filter(pk=function.pk).update(created_at=long_ago, last_active_at=long_ago)


def test_invocation_starts_worker_from_stock(reconcile: Reconcile, queue: Queue) -> None:
    spec_row()
    stock = stock_row()
    function = function_row(framework={"invokePath": "/run"}, timeoutSeconds=7)
    Worker(queue, function)
    accept(function)

    reconcile()

    worker = workers_of(function).get()
    stock.refresh_from_db()
    assert stock.claimed_by == worker.operation
    assert generation_of(worker.name) == 1
    assert worker.operation is not None
    assert worker.operation.operation_id == worker.name
    block = worker.spec["serverless"]
    assert block["functionID"] == function.pk
    assert block["credentialsSecret"] == f"fn-{function.pk}-queue"
    assert (block["framework"]["invokePath"], block["timeoutSeconds"]) == ("/run", 7)
    assert phase_of(function) == ("Progressing", "Activating")


def test_starting_worker_counts_as_capacity(reconcile: Reconcile, relay: Relay) -> None:
    stock_row()
    stock_row()
    function = function_row(maxWorkers=2)
    Worker(relay._queue, function)
    accept(function)
    reconcile()
    relay.publish()

    reconcile()

    assert workers_of(function).count() == 1
    function.refresh_from_db()
    assert (function.workers_starting, function.backlog) == (1, 1)


def test_concurrent_workers_have_unique_names(reconcile: Reconcile, queue: Queue) -> None:
    for _ in range(3):
        stock_row()
    function = function_row(maxWorkers=3)
    Worker(queue, function)
    for _ in range(3):
        accept(function)

    reconcile()

    assert len(set(workers_of(function).values_list("name", flat=True))) == 3


def test_lack_of_stock_is_reported_and_worker_waits(reconcile: Reconcile, queue: Queue) -> None:
    function = function_row()
    Worker(queue, function)
    accept(function)

    reconcile()

    assert phase_of(function) == ("Progressing", "NoCapacity")
    assert "g1.1" in function.message
    assert function.start_failures == 0
    request = CapacityRequest.objects.get()
    assert request.phase == RequestPhase.OPEN

    reconcile()
    assert phase_of(function) == ("Progressing", "NoCapacity")
    assert workers_of(function).count() == 1

    stock = stock_row()
    match("g1.1")
    reconcile()
    stock.refresh_from_db()
    assert stock.claimed_by == workers_of(function).get().operation
    assert phase_of(function) == ("Progressing", "Activating")


def test_a_worker_that_waits_for_stock_is_deleted_if_it_is_not_needed(
    reconcile: Reconcile, queue: Queue
) -> None:
    function = function_row()
    Worker(queue, function)
    accept(function)
    reconcile()

    function_request_deletion(
        tenant=function.tenant, request_id=function.request_id, operation_id="delete"
    )
    reconcile()

    assert CapacityRequest.objects.get().phase == RequestPhase.CLOSED
    assert workers_of(function).get().deletion_requested_at is not None


@pytest.mark.parametrize("is_deleted", [False, True], ids=["disabled", "deleted"])
def test_a_spec_that_is_no_longer_available_is_reported_and_retried(
    reconcile: Reconcile, queue: Queue, is_deleted: bool
) -> None:
    stock_row()
    function = function_row()
    Worker(queue, function)
    accept(function)
    spec_row(is_enabled=False)
    if is_deleted:
        GpuSpec.objects.all().delete()

    reconcile()
    first = phase_of(function)
    reconcile()

    assert first == phase_of(function) == ("Failed", "SpecUnavailable")
    assert function.start_failures == 1
    assert not Operation.objects.filter(kind="unit.create").exists()
    spec_row(is_enabled=True)
    Function.objects.update(starts_after=Now() - timedelta(seconds=1))
    reconcile()
    assert workers_of(function).count() == 1
    assert phase_of(function)[1] != "NoCapacity"


def test_a_worker_that_no_node_can_have_is_reported_with_the_error(
    reconcile: Reconcile, queue: Queue
) -> None:
    function = function_row()
    Worker(queue, function)
    accept(function)
    spec_row(gpu=16, cpu="", memory="")
    node_row("n1", 8)

    reconcile()

    assert phase_of(function) == ("Failed", "WorkerFailed")
    assert "at most 0" in function.message
    assert function.start_failures == 1
    assert not Operation.objects.filter(kind="unit.create").exists()


def test_lack_of_stock_costs_few_attempts_and_ends_with_stock(
    reconcile: Reconcile, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[float] = []

    def count_start(*args: Any, **kwargs: Any) -> WorkerStart:
        starts.append(passed)
        return worker_start(*args, **kwargs)

    monkeypatch.setattr("serverless.loops.activator.worker_start", count_start)
    function = function_row()
    Worker(queue, function)
    invocation = accept(function)
    began = clock.now()

    for passed in range(0, 600, 10):
        monkeypatch.setattr(clock, "now", lambda at=passed: began + timedelta(seconds=at))
        reconcile()

    assert phase_of(function) == ("Failed", "NoCapacity")
    assert len(starts) == 1
    invocation.refresh_from_db()
    assert invocation.state == InvocationState.QUEUED

    stock_row()
    match("g1.1")
    for passed in range(600, 640, 5):
        monkeypatch.setattr(clock, "now", lambda at=passed: began + timedelta(seconds=at))
        reconcile()

    assert workers_of(function).count() == 1


def test_failed_worker_is_stopped_and_start_backs_off(reconcile: Reconcile, queue: Queue) -> None:
    stock_row()
    function = function_row()
    Worker(queue, function)
    accept(function)
    failed = worker_row(function, UnitPhase.FAILED)

    reconcile()

    failed.refresh_from_db()
    assert failed.deletion_requested_at is not None
    assert phase_of(function) == ("Failed", "WorkerFailed")
    assert (function.cause, function.message) == (StartupCause.IMAGE_PULL_FAILED, PULL_FAILURE)
    assert (function.start_failures, function.starts_after is not None) == (1, True)
    reconcile()
    function.refresh_from_db()
    assert function.start_failures == 1
    assert workers_of(function).count() == 1


def test_changed_function_starts_worker_without_backoff(
    reconcile: Reconcile, queue: Queue
) -> None:
    stock_row()
    function = function_row()
    Worker(queue, function)
    accept(function)
    Function.objects.update(
        phase="Failed",
        reason="WorkerFailed",
        cause=StartupCause.IMAGE_PULL_FAILED,
        message="ErrImagePull",
        start_failures=9,
        starts_after=Now() + SLEPT,
    )

    corrected = {"specName": "g1.1", "image": "registry.example.com/corrected:2"}
    function_update(
        tenant=function.tenant,
        request_id=function.request_id,
        body=FunctionUpdate.parse({"operationID": "correct", **corrected}),
    )
    reconcile()

    assert workers_of(function).count() == 1
    assert phase_of(function) == ("Progressing", "Activating")
    assert function.cause == ""


def test_failed_start_is_counted_once(reconcile: Reconcile, queue: Queue) -> None:
    function = function_row()
    Worker(queue, function)
    accept(function)
    Operation.objects.create(
        tenant=function.tenant,
        operation_id="refused",
        kind="unit.create",
        hash_version=1,
        phase=OperationPhase.FAILED,
        error_code="cluster_rejected",
        error_message="exceeded quota",
        object_kind="GPUUnit",
        object_namespace=function.tenant.namespace,
        object_name=worker_name(function.pk, 1, "0123abcd"),
        ended_at=clock.now() + timedelta(milliseconds=1),
    )

    reconcile()
    assert phase_of(function) == ("Failed", "WorkerFailed")
    assert (function.start_failures, function.message) == (1, "exceeded quota")

    Function.objects.update(observed_at=clock.now() + timedelta(seconds=1))
    reconcile()
    function.refresh_from_db()
    assert function.start_failures == 1


def test_last_worker_is_drained_after_idle_timeout(reconcile: Reconcile, queue: Queue) -> None:
    function = function_row(idleTimeoutSeconds=60)
    Worker(queue, function)
    worker = worker_row(function)

    reconcile()
    worker.refresh_from_db()
    assert worker.deletion_requested_at is None
    assert phase_of(function) == ("Ready", "Idle")

    put_to_sleep(function)
    reconcile()
    worker.refresh_from_db()
    assert worker.phase == UnitPhase.TERMINATING


def test_busy_worker_is_not_stopped(reconcile: Reconcile, queue: Queue, relay: Relay) -> None:
    function = function_row(idleTimeoutSeconds=1)
    row = accept(function)
    relay.publish()
    unit = worker_row(function)
    Worker(queue, function, unit.name).take_one()
    Invocation.objects.filter(pk=row.pk).update(
        state=InvocationState.RUNNING, worker=unit.name, accepted_at=clock.now() - SLEPT
    )
    put_to_sleep(function)

    reconcile()

    unit.refresh_from_db()
    assert unit.deletion_requested_at is None
    assert phase_of(function) == ("Ready", "Serving")


def test_workers_are_unchanged_while_queue_is_unavailable(
    reconcile: Reconcile, queue: Queue, queue_server: QueueServer
) -> None:
    stock_row()
    function = function_row(minWorkers=1)
    Worker(queue, function)
    worker = worker_row(function, UnitPhase.FAILED)
    queue_server.kill()

    reconcile()

    worker.refresh_from_db()
    assert worker.deletion_requested_at is None
    assert workers_of(function).count() == 1
    assert phase_of(function) == ("Progressing", "QueueUnavailable")


@pytest.mark.parametrize("fault", [{"failures": 1}, {"recovery_reason": "Another database."}])
def test_workers_are_unchanged_while_gate_is_closed(
    reconcile: Reconcile, queue: Queue, fault: dict[str, Any]
) -> None:
    stock_row()
    function = function_row()
    Worker(queue, function)
    accept(function)
    ClusterState.objects.update_or_create(id=ClusterState.SINGLETON, defaults=fault)

    reconcile()

    assert not workers_of(function).exists()


def test_workers_of_deleted_function_are_drained(reconcile: Reconcile, queue: Queue) -> None:
    function = function_row("echo", minWorkers=1)
    worker = worker_row(function)
    function_request_deletion(tenant=function.tenant, request_id="echo", operation_id="drop")

    reconcile()
    reconcile()

    worker.refresh_from_db()
    assert worker.deletion_requested_at is not None
    assert phase_of(function) == ("Terminating", "")
    assert workers_of(function).count() == 1


def test_unit_with_name_of_worker_is_not_worker(reconcile: Reconcile, queue: Queue) -> None:
    function = function_row()
    Worker(queue, function)
    name = worker_name(function.pk, 1, "0123abcd")
    own = unit_row(name=name)
    theirs = worker_row(function, name=f"{name[:-1]}e", tenant=tenant_row("other"))
    put_to_sleep(function)

    reconcile()

    for unit in (own, theirs):
        unit.refresh_from_db()
        assert unit.deletion_requested_at is None


def test_only_one_of_two_activators_starts_worker(queue: Queue, cluster: FakeCluster) -> None:
    stock_row()
    stock_row()
    function = function_row(maxWorkers=2)

    assert worker_start(function, observed=0) is WorkerStart.CLAIMED
    assert worker_start(function, observed=0) is WorkerStart.CHANGED
    assert workers_of(function).count() == 1


def test_start_fails_if_limits_have_changed(queue: Queue, cluster: FakeCluster) -> None:
    function = function_row("echo", maxWorkers=2)
    stock_row()
    Function.objects.update(spec={**function.spec, "maxWorkers": 1})

    assert worker_start(function, observed=0) is WorkerStart.CHANGED


def test_function_without_finished_creation_is_ignored(reconcile: Reconcile, queue: Queue) -> None:
    stock_row()
    function = function_row()
    Operation.objects.filter(pk=function.operation_id).update(
        phase=OperationPhase.PENDING, ended_at=None, due_at=Now()
    )
    Worker(queue, function)
    accept(function)

    reconcile()

    assert not workers_of(function).exists()


def test_worker_of_lost_function_is_drained(reconcile: Reconcile, queue: Queue) -> None:
    lost, pending = function_row(), function_row()
    orphan, early = worker_row(lost), worker_row(pending)
    Operation.objects.filter(pk=pending.operation_id).update(
        phase=OperationPhase.PENDING, ended_at=None, due_at=Now()
    )
    lost.delete()

    reconcile()

    orphan.refresh_from_db()
    early.refresh_from_db()
    assert orphan.deletion_requested_at is not None
    assert early.deletion_requested_at is None


def test_only_leader_acts(queue: Queue, cluster: FakeCluster) -> None:
    stock_row()
    function = function_row()
    Worker(queue, function)
    accept(function)

    Activator(queue, cluster, "second").reconcile()

    assert not workers_of(function).exists()


def test_used_operation_id_does_not_block_stop(reconcile: Reconcile, queue: Queue) -> None:
    function = function_row()
    Worker(queue, function)
    worker = worker_row(function)
    unit_request_deletion(
        tenant=function.tenant, name=unit_row().name, operation_id=f"{worker.name}-stop"
    )
    put_to_sleep(function)

    reconcile()

    worker.refresh_from_db()
    assert worker.deletion_requested_at is not None


def test_invalid_spec_does_not_block_other_functions(reconcile: Reconcile, queue: Queue) -> None:
    stock_row()
    good, broken = function_row(), function_row()
    Function.objects.filter(pk=broken.pk).update(spec={"maxWorkers": -1})
    Worker(queue, good)
    accept(good)

    reconcile()

    assert workers_of(good).count() == 1


def test_update_stops_idle_workers_first(reconcile: Reconcile, queue: Queue, relay: Relay) -> None:
    function = function_row(maxWorkers=2)
    row = accept(function)
    relay.publish()
    idle, busy = worker_row(function), worker_row(function)
    Worker(queue, function, busy.name).take_one()
    Invocation.objects.filter(pk=row.pk).update(state=InvocationState.RUNNING, worker=busy.name)
    Function.objects.filter(pk=function.pk).update(generation=2)

    reconcile()

    idle.refresh_from_db()
    busy.refresh_from_db()
    assert idle.deletion_requested_at is not None
    assert busy.deletion_requested_at is None


def test_worker_with_old_queue_address_is_replaced(reconcile: Reconcile, relay: Relay) -> None:
    stock_row()
    function = function_row(maxWorkers=2)
    Worker(relay._queue, function)
    block = {"functionID": function.pk, "queueURL": "nats://127.0.0.1:1"}
    lost = worker_row(
        function, UnitPhase.PROGRESSING, spec={"specName": "g1.1", "serverless": block}
    )
    accept(function)
    relay.publish()

    reconcile()

    lost.refresh_from_db()
    assert lost.deletion_requested_at is not None
    (made,) = workers_of(function).exclude(pk=lost.pk)
    reconcile()
    made.refresh_from_db()
    assert made.deletion_requested_at is None
