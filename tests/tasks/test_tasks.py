"""Tasks are hints: they can be lost, repeated and run concurrently."""

from collections.abc import Callable
from enum import StrEnum

import pytest
from celery import current_app
from django.db.models.functions import Now
from django_celery_beat.models import PeriodicTask
from pytest_django import Settings

from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import DEPLOYMENT, STOCK_POOL
from gpuplatform.operations.interventions import operation_cancel
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import OperationTask
from gpuplatform.operations.tasks import prune_operations, run_operation, sweep_operations
from gpuplatform.queueing import Queue
from gpuplatform.reconciliation import gate
from gpuplatform.reconciliation.models import ProcessHeartbeat
from inventory.models import StockPool
from inventory.services.pools import InventoryTask
from inventory.tasks import (
    prune_pools,
    reconcile_all,
    reconcile_pool,
    remove_leftovers,
    sweep_pools,
)
from serverless.services.names import ServerlessTask
from tests.factories.inventory import accept_create, accept_delete, pool_resource, pool_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import Broker
from tests.fakes.threads import at_once
from units.services.names import UnitTask

COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)
HEARTBEATS = [f"reconciliation.report_{queue}_heartbeat" for queue in Queue]


def work_off(cluster: FakeCluster, rounds: int = 8) -> None:
    """Run due and waiting work as worker processes do, without messages."""
    for _ in range(rounds):
        StockPool.objects.filter(due_at__isnull=False).update(due_at=Now())
        for number in Operation.objects.filter(due_at__lte=Now()).values_list("id", flat=True):
            run_operation(number)
        for number in StockPool.objects.filter(due_at__lte=Now()).values_list("id", flat=True):
            reconcile_pool(number)
        cluster.settle()


@pytest.mark.parametrize(
    "name", [*OperationTask, *InventoryTask, *UnitTask, *ServerlessTask, *HEARTBEATS]
)
def test_every_task_name_that_is_sent_is_registered(name: str) -> None:
    current_app.loader.import_default_modules()

    assert str(name) in current_app.tasks


@pytest.mark.parametrize("names", [OperationTask, InventoryTask, UnitTask, ServerlessTask])
def test_every_registered_task_of_an_app_has_a_name(names: type[StrEnum]) -> None:
    current_app.loader.import_default_modules()
    prefix = next(iter(names)).split(".")[0]

    registered = {name for name in current_app.tasks if name.startswith(f"{prefix}.")}

    assert registered == set(names)


@pytest.mark.django_db
def test_every_schedule_names_a_task_and_the_periodic_queue() -> None:
    current_app.loader.import_default_modules()
    schedules = PeriodicTask.objects.exclude(name__startswith="celery.")

    assert schedules.count() >= 12
    for schedule in schedules:
        assert schedule.task in current_app.tasks
        assert schedule.queue == Queue.PERIODIC
        assert schedule.enabled
        assert schedule.expire_seconds


@pytest.mark.django_db
def test_the_guarantees_run_often_enough() -> None:
    every = {
        schedule.task: schedule.interval.every
        for schedule in PeriodicTask.objects.exclude(interval=None).select_related("interval")
    }

    assert every[OperationTask.SWEEP] <= 30
    assert every[InventoryTask.SWEEP_POOLS] <= 30
    assert every[InventoryTask.RECONCILE_ALL] == 600
    assert every[UnitTask.SWEEP_UNITS] <= 30
    assert every[UnitTask.TOP_UP_STOCK] <= 60
    assert every[UnitTask.RECONCILE_ALL] == 600
    assert every[UnitTask.SWEEP_DRAINS] <= 30
    on_demand = {
        UnitTask.RECONCILE_UNIT,
        UnitTask.TEND_SPEC,
        UnitTask.MATCH_REQUESTS,
        UnitTask.ADVANCE_DRAIN,
        UnitTask.ANNOUNCE_PREEMPTIONS,
    }
    assert set(UnitTask) - on_demand <= set(every)


@pytest.mark.django_db
def test_a_sweep_enqueues_each_due_row(cluster: FakeCluster, broker: Broker) -> None:
    for _ in range(3):
        accept_create()
        pool_row(due_at=Now())
    pool_row(due_at=None)
    pool_row(due_at=Now(), deleted_at=Now())
    pool_row(due_at=Now(), uid="", name="without-uid")
    Operation.objects.filter(id=Operation.objects.latest("id").id).update(
        due_at="2999-01-01T00:00:00Z"
    )

    sweep_operations()
    sweep_pools()

    assert broker.hints(Queue.OPERATIONS) == 2
    assert broker.hints(Queue.RECONCILE) == 3


@pytest.mark.django_db
def test_a_claimed_row_is_not_enqueued(cluster: FakeCluster, broker: Broker) -> None:
    pool_row(due_at=Now(), lease_expires_at="2999-01-01T00:00:00Z")
    pool_row(due_at=Now(), lease_expires_at="2026-01-01T00:00:00Z")

    sweep_pools()

    assert broker.hints(Queue.RECONCILE) == 1


@pytest.mark.django_db
def test_a_sweep_enqueues_nothing_while_the_cluster_is_unavailable(
    cluster: FakeCluster, broker: Broker
) -> None:
    accept_create()
    gate.close(ClusterUnavailable("connection refused"))

    sweep_operations()

    assert broker.hints(Queue.OPERATIONS) == 0


@COMMITTING
def test_operations_without_cluster_calls_end_while_it_is_unavailable(
    cluster: FakeCluster, broker: Broker
) -> None:
    waits, stays = accept_create().operation, accept_create().operation
    gate.close(ClusterUnavailable("connection refused"))
    cancel = operation_cancel(operation=waits, operation_id="cancel-1").operation
    broker.lose_everything()

    sweep_operations()

    assert broker.hints(Queue.OPERATIONS) == 1
    for number in (cancel.pk, stays.pk):
        run_operation(number)
    phases = dict(Operation.objects.values_list("pk", "phase"))
    assert phases == {waits.pk: "Cancelled", stays.pk: "Pending", cancel.pk: "Succeeded"}


@COMMITTING
def test_lost_messages_are_replaced_by_the_sweep(cluster: FakeCluster, broker: Broker) -> None:
    for number in range(5):
        accept_create(name=f"pool{number}")
        broker.lose_everything()
    accept_delete("pool0")
    broker.lose_everything()

    sweep_operations()
    assert broker.hints(Queue.OPERATIONS) == 5
    broker.lose_everything()
    work_off(cluster)
    sweep_pools()

    phases = dict(StockPool.objects.values_list("name", "phase"))
    assert {phase for name, phase in phases.items() if name != "pool0"} == {"Ready"}
    assert StockPool.objects.get(name="pool0").deleted_at is not None
    assert not Operation.objects.exclude(phase="Succeeded").exists()


@pytest.mark.django_db
def test_a_repeated_task_does_nothing(cluster: FakeCluster, broker: Broker) -> None:
    operation = accept_create(name="a").operation
    run_operation(operation.id)
    row = StockPool.objects.get()
    work_off(cluster)
    before = list(cluster.writes)

    run_operation(operation.id)
    reconcile_pool(row.id)
    for task in (reconcile_all, remove_leftovers, prune_operations, prune_pools, sweep_pools):
        task()

    assert cluster.writes == before
    row.refresh_from_db()
    assert row.due_at is None


@COMMITTING
def test_concurrent_runs_of_a_task_create_one_object(cluster: FakeCluster, broker: Broker) -> None:
    operation = accept_create(name="a").operation

    first = at_once([lambda: run_operation(operation.id)] * 8)
    row = StockPool.objects.get()
    second = at_once([lambda: reconcile_pool(row.id)] * 8)

    assert first == second == [None] * 8
    assert cluster.writes.count("create StockPool a") == 1
    assert cluster.writes.count("apply Deployment pool-a") == 1


@pytest.mark.django_db
@pytest.mark.parametrize("task", [run_operation, reconcile_pool])
def test_a_hint_for_an_unknown_row_does_nothing(
    cluster: FakeCluster, task: Callable[[int], None], broker: Broker
) -> None:
    task(10**9)

    assert set(cluster.writes) <= {"create ConfigMap gpu-platform-epoch"}
    assert [broker.hints(queue) for queue in Queue] == [0] * len(Queue)


@pytest.mark.django_db
def test_the_end_of_an_operation_enqueues_the_next_on_its_object(
    cluster: FakeCluster, broker: Broker
) -> None:
    first = accept_create(name="a").operation
    accept_delete("a")

    run_operation(first.id)

    assert broker.hints(Queue.OPERATIONS) == 1


@pytest.mark.django_db
def test_repeated_hints_of_an_operation_that_ended_do_not_multiply(
    cluster: FakeCluster, broker: Broker
) -> None:
    first = accept_create(name="a").operation
    accept_delete("a")

    for _ in range(3):
        run_operation(first.id)

    assert broker.hints(Queue.OPERATIONS) == 1


@pytest.mark.django_db
def test_reconcile_all_finds_what_the_watch_missed(cluster: FakeCluster, broker: Broker) -> None:
    run_operation(accept_create(name="a").operation.id)
    run_operation(accept_create(name="b").operation.id)
    work_off(cluster)
    cluster.put(STOCK_POOL, pool_resource("by-hand", replicas=0))
    cluster.remove(STOCK_POOL, "a", namespace="runtime-pools")
    cluster.remove(DEPLOYMENT, "pool-b", namespace="runtime-pools")

    reconcile_all()
    work_off(cluster)

    assert StockPool.objects.get(name="a").deleted_at is not None
    assert cluster.names(DEPLOYMENT) == ["pool-b", "pool-by-hand"]
    assert StockPool.objects.get(name="by-hand").phase == "Empty"


@pytest.mark.django_db
def test_reconcile_all_writes_nothing_if_nothing_changed(
    cluster: FakeCluster, broker: Broker
) -> None:
    run_operation(accept_create(name="a").operation.id)
    work_off(cluster)
    cluster.writes.clear()

    reconcile_all()

    assert not StockPool.objects.exclude(due_at=None).exists()
    work_off(cluster)
    assert cluster.writes == []


@pytest.mark.django_db
def test_one_broken_object_does_not_stop_reconcile_all(
    cluster: FakeCluster, broker: Broker
) -> None:
    cluster.put(STOCK_POOL, pool_resource("bad", memory="lots", image="a\x00b"))
    run_operation(accept_create(name="sound").operation.id)

    reconcile_all()
    work_off(cluster)

    assert StockPool.objects.get(name="sound").phase == "Ready"
    assert StockPool.objects.get(name="bad").reason == "InvalidSpec"


@pytest.mark.django_db
def test_without_a_cluster_by_configuration_no_task_fails(
    settings: Settings, broker: Broker
) -> None:
    settings.KUBE_MODE = "off"

    for task in (sweep_operations, sweep_pools, reconcile_all, remove_leftovers):
        task()
    run_operation(1)
    reconcile_pool(1)


@pytest.mark.django_db
def test_only_operations_past_their_retention_are_deleted(cluster: FakeCluster) -> None:
    kept, gone = accept_create(name="kept").operation, accept_create(name="gone").operation
    recent, opened = accept_create(name="recent").operation, accept_create(name="open").operation
    ended = {"phase": "Succeeded", "due_at": None}
    old = "2026-01-01T00:00:00Z"
    Operation.objects.filter(id__in=[kept.id, gone.id]).update(ended_at=old, **ended)
    Operation.objects.filter(id=recent.id).update(ended_at=Now(), **ended)
    StockPool.objects.filter(name="gone").update(deleted_at=old)
    StockPool.objects.filter(name="recent").update(deleted_at=Now())

    prune_pools()
    prune_operations()

    assert set(Operation.objects.values_list("id", flat=True)) == {kept.id, recent.id, opened.id}
    assert set(StockPool.objects.values_list("name", flat=True)) == {"kept", "recent", "open"}


@pytest.mark.django_db
@pytest.mark.parametrize("name", HEARTBEATS)
def test_a_worker_records_its_heartbeat(name: str) -> None:
    current_app.loader.import_default_modules()

    current_app.tasks[name]()

    assert ProcessHeartbeat.objects.count() == 1
