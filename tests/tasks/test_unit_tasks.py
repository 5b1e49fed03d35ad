"""Tasks of units and stock are hints: they can be lost, repeated and run concurrently."""

import pytest
from django.db.models.functions import Now
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import GPU_UNIT, POD
from gpuplatform.operations.models import Operation
from gpuplatform.operations.tasks import run_operation
from gpuplatform.queueing import Queue
from gpuplatform.reconciliation import gate
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from inventory.requests.catalogue import GpuSpecPatch
from inventory.services.catalogue import gpu_spec_update
from tests.factories.unit_resources import (
    NAMESPACE,
    accept_seed,
    accept_unit,
    finished,
    stocked,
    unit_resource,
    work_off,
)
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import Broker
from tests.fakes.threads import at_once
from units.models import CapacitySample, GpuUnit, NodeImages, UnitHistory
from units.phases import UnitRole
from units.selectors import capacity_by_spec
from units.services.stock import MAX_TOP_UP
from units.tasks import (
    keep_all_warm_images,
    prune_units,
    reconcile_all_units,
    reconcile_unit,
    remove_unit_leftovers,
    sample_capacity,
    sweep_units,
    tend_spec,
    top_up_stock,
)

ONE = pytest.mark.django_db
COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)


def work_off_tasks(cluster: FakeCluster, rounds: int = 8) -> None:
    """Run all due and waiting work as worker processes do, without messages."""
    for _ in range(rounds):
        GpuUnit.objects.filter(due_at__isnull=False).update(due_at=Now())
        for number in Operation.objects.filter(due_at__lte=Now()).values_list("id", flat=True):
            run_operation(number)
        for number in GpuUnit.objects.filter(due_at__lte=Now()).values_list("id", flat=True):
            reconcile_unit(number)
        cluster.settle()


@ONE
def test_a_sweep_enqueues_each_due_row(cluster: FakeCluster, broker: Broker) -> None:
    stock_row(due_at=Now())
    unit_row(due_at=Now())
    stock_row()
    stock_row(due_at=Now(), uid="")

    sweep_units()

    assert broker.hints(Queue.RECONCILE) == 2


@ONE
def test_nothing_is_enqueued_while_the_cluster_is_unavailable(
    cluster: FakeCluster, broker: Broker
) -> None:
    stock_row(due_at=Now())
    spec_row(warm_target=3)
    gate.close(ClusterUnavailable("connection refused"))

    for task in (sweep_units, reconcile_all_units, remove_unit_leftovers, top_up_stock):
        task()

    assert broker.hints(Queue.RECONCILE) == 0
    assert not Operation.objects.exists()


@COMMITTING
def test_lost_messages_are_replaced_by_the_sweep(cluster: FakeCluster, broker: Broker) -> None:
    accept_seed(3)
    broker.lose_everything()
    work_off_tasks(cluster)
    for number in range(2):
        accept_unit(name=f"u{number}")
        broker.lose_everything()

    work_off_tasks(cluster)

    in_use = GpuUnit.objects.filter(role=UnitRole.ACTIVE)
    assert set(in_use.values_list("phase", flat=True)) == {"Ready"}
    [spec] = capacity_by_spec()
    assert (spec.ready, spec.active, spec.consumed, spec.total) == (1, 2, 2, 1)
    assert len(cluster.names(GPU_UNIT)) == 3


@ONE
def test_a_repeated_task_does_nothing(cluster: FakeCluster, broker: Broker) -> None:
    stocked(cluster, 2)
    operation = finished(accept_unit())
    work_off(cluster)
    before = list(cluster.writes)

    run_operation(operation.pk)
    for row in GpuUnit.objects.all():
        reconcile_unit(row.pk)
    for task in (reconcile_all_units, remove_unit_leftovers, prune_units, sweep_units):
        task()

    assert cluster.writes == before


@COMMITTING
def test_concurrent_runs_of_a_task_create_one_object(cluster: FakeCluster, broker: Broker) -> None:
    operation = accept_seed().operation

    at_once([lambda: run_operation(operation.pk)] * 8)
    row = GpuUnit.objects.get()
    at_once([lambda: reconcile_unit(row.pk)] * 8)

    assert cluster.writes.count(f"create GPUUnit {row.name}") == 1
    assert cluster.writes.count(f"create Deployment unit-{row.name}") == 1


@ONE
def test_a_hint_for_an_unknown_row_does_nothing(cluster: FakeCluster, broker: Broker) -> None:
    reconcile_unit(10**9)

    assert set(cluster.writes) <= {"create ConfigMap gpu-platform-epoch"}
    assert [broker.hints(queue) for queue in Queue] == [0] * len(Queue)


@ONE
def test_the_deletion_of_the_stock_enqueues_the_unit_that_waits_for_it(
    cluster: FakeCluster,
    broker: Broker,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    [stock] = stocked(cluster)
    finished(accept_unit())
    cluster.remove(GPU_UNIT, stock.name, namespace=stock.namespace)
    # Only the stock is due: a hint for a due unit would already have been sent.
    GpuUnit.objects.filter(role=UnitRole.ACTIVE).update(due_at=None)
    GpuUnit.objects.filter(pk=stock.pk).update(due_at=Now())
    broker.lose_everything()

    with django_capture_on_commit_callbacks(execute=True):
        reconcile_unit(stock.pk)

    assert broker.hints(Queue.RECONCILE) == 1


@ONE
def test_reconcile_all_imports_units_created_by_hand(cluster: FakeCluster, broker: Broker) -> None:
    cluster.put(GPU_UNIT, unit_resource("by-hand"))
    cluster.put(GPU_UNIT, unit_resource("bad", metadata={"uid": "bad"}, memory="a\x00b"))

    reconcile_all_units()
    work_off_tasks(cluster)

    assert GpuUnit.objects.get(name="by-hand").phase == "Ready"
    assert GpuUnit.objects.get(name="bad").reason == "InvalidSpec"


@ONE
def test_stock_is_topped_up_to_its_target(cluster: FakeCluster, broker: Broker) -> None:
    spec_row(warm_target=2)

    top_up_stock()
    top_up_stock()
    work_off_tasks(cluster)
    top_up_stock()

    assert [(spec.ready, spec.total) for spec in capacity_by_spec()] == [(2, 2)]


@COMMITTING
def test_a_changed_warm_target_is_due_immediately(cluster: FakeCluster, broker: Broker) -> None:
    spec = spec_row(warm_target=0)
    body = GpuSpecPatch.parse({"operationID": "change", "warmTarget": 2})

    gpu_spec_update(tenant=tenant_by_name(), name=spec.name, body=body)
    sent = broker.hints(Queue.PERIODIC)
    tend_spec(spec.pk)
    work_off_tasks(cluster)

    assert sent == 1
    assert [one.ready for one in capacity_by_spec()] == [2]
    tend_spec(spec.pk + 1)  # It may be deleted in the meantime.


@COMMITTING
def test_a_target_raised_during_a_top_up_is_reached_without_a_sweep(
    cluster: FakeCluster, broker: Broker
) -> None:
    spec = spec_row(warm_target=0)

    def raise_target(number: int) -> None:
        asked = {"operationID": f"to-{number}", "warmTarget": number}
        gpu_spec_update(tenant=tenant_by_name(), name=spec.name, body=GpuSpecPatch.parse(asked))

    passes = 0
    for target in (1, MAX_TOP_UP + 3):
        raise_target(target)
        tend_spec(spec.pk)  # The pass of the second change finds an open top-up.
    broker.lose_everything()
    while passes < 5:
        work_off_tasks(cluster)
        if not broker.hints(Queue.PERIODIC):
            break
        broker.lose_everything()
        passes += 1
        tend_spec(spec.pk)

    assert passes == 3
    assert [one.ready for one in capacity_by_spec()] == [MAX_TOP_UP + 3]
    seeded = Operation.objects.filter(kind="stock.seed").order_by("id")
    assert list(seeded.values_list("progress_total", flat=True)) == [1, MAX_TOP_UP, 2]


@ONE
def test_changed_warm_images_are_kept_immediately_and_in_each_run(
    cluster: FakeCluster, broker: Broker
) -> None:
    spec = spec_row(warm_images=["a:1"])
    stock_row(node="n1")
    NodeImages.objects.create(name="n1")

    tend_spec(spec.pk)
    assert len(cluster.names(POD)) == 1
    GpuSpec.objects.update(warm_images=[])
    keep_all_warm_images()

    assert cluster.names(POD) == []


@ONE
def test_stock_of_a_disabled_spec_is_removed_and_its_units_stay(
    cluster: FakeCluster, broker: Broker
) -> None:
    stocked(cluster, 2)
    finished(accept_unit(name="a"))
    work_off(cluster)
    GpuSpec.objects.update(is_enabled=False)

    top_up_stock()
    work_off_tasks(cluster)

    assert cluster.names(GPU_UNIT) == ["a"]
    [spec] = capacity_by_spec()
    assert (spec.active, spec.total) == (1, 0)


@ONE
def test_a_sample_is_taken_of_each_spec(broker: Broker) -> None:
    stock_row()
    unit_row(spec_name="other")

    sample_capacity()

    assert set(CapacitySample.objects.values_list("spec_name", "idle_gpu_seconds")) == {
        ("g1.1", 0),
        ("other", 0),
    }


@ONE
def test_only_deleted_units_past_their_retention_are_pruned_with_their_history(
    cluster: FakeCluster,
) -> None:
    old = "2026-01-01T00:00:00Z"
    user = unit_row()
    source = stock_row(consumed_by=user.uid, consumed_at=Now(), deleted_at=old)
    gone = stock_row(deleted_at=old)
    recent = stock_row(deleted_at=Now())
    UnitHistory.objects.create(unit=gone, phase="Ready")
    kept = UnitHistory.objects.create(unit=user, phase="Ready")
    UnitHistory.objects.create(unit=user, phase="Progressing", at=old)

    prune_units()

    assert set(GpuUnit.objects.all()) == {user, source, recent}
    assert set(UnitHistory.objects.all()) == {kept}


@ONE
def test_without_a_cluster_by_configuration_no_task_fails(
    settings: Settings, broker: Broker
) -> None:
    settings.KUBE_MODE = "off"

    for task in (
        sweep_units,
        reconcile_all_units,
        remove_unit_leftovers,
        top_up_stock,
        sample_capacity,
        prune_units,
    ):
        task()
    reconcile_unit(1)


@ONE
def test_the_namespace_of_the_default_tenant_is_where_units_go(cluster: FakeCluster) -> None:
    stocked(cluster)
    finished(accept_unit(name="a"))

    assert cluster.get(GPU_UNIT, "a", namespace=NAMESPACE) is not None
