"""A unit runs only if the row of its source allows it and none of its stock remains."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.errors import ClusterForbidden, ClusterUnavailable
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, REPLICA_SET, SERVICE
from gpuplatform.operations import driver as operations
from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation import driver
from gpuplatform.reconciliation.gate import cluster_state
from inventory.models import GpuSpec
from tests.factories.unit_resources import (
    IMAGE,
    NAMESPACE,
    accept_unit,
    finished,
    handed_over,
    naming,
    orphan_pod,
    stocked,
    unit_resource,
    work_off,
)
from tests.fakes.cluster import FakeCluster
from units.comparison import compare_all, delete_leftovers
from units.core.names import UNIT_UID_LABEL
from units.core.sources import (
    NoSource,
    SourceGone,
    SourceHeld,
    SourceLost,
    SourcePending,
    SourceUnread,
)
from units.mirror import UNIT_MIRROR
from units.models import GpuUnit
from units.observation import observe_unit
from units.phases import STOCK_NAMESPACE, UnitRole
from units.reconcile import UNITS
from units.services.names import UnitOperation
from units.void_starts import START_KIND

pytestmark = pytest.mark.django_db


def source_of(cluster: FakeCluster, row: GpuUnit) -> object:
    unit = cluster.get(GPU_UNIT, row.name, namespace=row.namespace)
    assert unit is not None
    return observe_unit(cluster, unit).source


def created(cluster: FakeCluster, **changes: object) -> GpuUnit:
    """Create a unit without running a planner."""
    operation = finished(accept_unit(**changes))
    assert operation.phase == "Succeeded", operation.message
    return GpuUnit.objects.get(pk=operation.object_row or 0)


def stock_goes(cluster: FakeCluster, stock: GpuUnit) -> None:
    cluster.remove(GPU_UNIT, stock.name, namespace=stock.namespace)


def test_stock_becomes_ready_and_a_unit_claims_it(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    assert (stock.phase, stock.reason, stock.role) == ("Ready", "StockReady", UnitRole.STOCK)
    assert (stock.service_name, stock.access_url) == ("", "")

    unit = handed_over(cluster, name="a")

    stock.refresh_from_db()
    assert stock.deleted_at is not None
    assert stock.consumed_by == unit.uid
    assert (unit.phase, unit.reason, unit.source_uid) == ("Ready", "UnitReady", stock.uid)
    assert unit.access_url == f"http://unit-a.{NAMESPACE}.svc.cluster.local:8080"
    assert cluster.names(DEPLOYMENT) == cluster.names(SERVICE) == ["unit-a"]


def test_settled_units_cost_no_write(cluster: FakeCluster) -> None:
    stocked(cluster, 2)
    handed_over(cluster)
    cluster.writes.clear()

    due = compare_all(cluster)
    work_off(cluster, 3)

    assert due == []
    assert cluster.writes == []


def test_a_unit_waits_for_each_object_of_its_stock(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    cluster.fail("delete", GPU_UNIT, ClusterUnavailable("cut"))
    unit = created(cluster)
    assert source_of(cluster, unit) == SourceHeld("it still exists")

    deployment = cluster.get(DEPLOYMENT, f"unit-{stock.name}", namespace=STOCK_NAMESPACE)
    stock_goes(cluster, stock)
    assert deployment is not None
    cluster.put(DEPLOYMENT, deployment)
    assert source_of(cluster, unit) == SourceHeld("its Deployment still exists")

    cluster.remove(DEPLOYMENT, f"unit-{stock.name}", namespace=STOCK_NAMESPACE)
    replica_set = {"metadata": {**orphan_pod(stock)["metadata"], "name": "replicas"}}
    cluster.put(REPLICA_SET, replica_set)
    pod = {**orphan_pod(stock), "spec": {"nodeName": "gpu-node-3"}}
    cluster.put(POD, {**pod, "status": {"phase": "Succeeded"}})
    assert source_of(cluster, unit) == SourceHeld("its ReplicaSet still exists")

    cluster.remove(REPLICA_SET, "replicas", namespace=STOCK_NAMESPACE)
    terminating = {**pod["metadata"], "deletionTimestamp": "2026-01-31T12:00:00Z"}
    cluster.put(POD, {**pod, "metadata": terminating, "status": {"phase": "Running"}})
    assert source_of(cluster, unit) == SourceHeld("its pods still run, on gpu-node-3")

    cluster.remove(POD, "left-over", namespace=STOCK_NAMESPACE)
    assert source_of(cluster, unit) == SourceGone(may_preempt=True, is_first_seen=True)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_unit_starts_while_an_ended_pod_of_its_stock_exists(
    cluster: FakeCluster, phase: str
) -> None:
    [stock] = stocked(cluster)
    cluster.put(POD, {**orphan_pod(stock), "status": {"phase": phase}})

    unit = handed_over(cluster)

    stock.refresh_from_db()
    assert (unit.phase, stock.consumed_by) == ("Ready", unit.uid)
    assert stock.deleted_at is not None
    assert "left-over" in cluster.names(POD)


def test_a_stock_pod_without_its_label_delays_the_unit(
    cluster: FakeCluster,
) -> None:
    [stock] = stocked(cluster)
    unit = created(cluster)
    stock_goes(cluster, stock)
    pod = orphan_pod(stock)
    del pod["metadata"]["labels"][UNIT_UID_LABEL]
    cluster.put(POD, pod)

    assert source_of(cluster, unit) == SourceHeld("its pods still run")


def test_pods_of_other_stock_of_the_name_do_not_delay_the_unit(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    unit = created(cluster)
    stock_goes(cluster, stock)
    stock.uid = "another"
    cluster.put(POD, orphan_pod(stock))

    assert source_of(cluster, unit) == SourceGone(may_preempt=True, is_first_seen=True)


@pytest.mark.parametrize("kind", [GPU_UNIT, DEPLOYMENT, POD], ids=lambda kind: kind.kind)
def test_an_unreadable_source_is_not_gone(cluster: FakeCluster, kind: object) -> None:
    [stock] = stocked(cluster)
    unit = created(cluster)
    stock_goes(cluster, stock)
    live = cluster.get(GPU_UNIT, unit.name, namespace=unit.namespace)
    assert live is not None
    verb = "get" if kind == DEPLOYMENT else "list"
    # The unit's Deployment is read first.
    refusal, times = ClusterForbidden("no", status=403), 2 if kind == DEPLOYMENT else 1
    cluster.fail(verb, kind, refusal, times=times)  # type: ignore[arg-type]  # by ids

    assert isinstance(observe_unit(cluster, live).source, SourceHeld)


def test_no_deployment_is_created_next_to_the_pods_of_the_source(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    cluster.put(POD, orphan_pod(stock))

    unit = handed_over(cluster)

    assert (unit.phase, unit.reason) == ("Progressing", "WaitingForStock")
    assert cluster.names(DEPLOYMENT) == []
    cluster.remove(POD, "left-over", namespace=STOCK_NAMESPACE)
    work_off(cluster)
    unit.refresh_from_db()
    assert unit.phase == "Ready"


def test_a_source_without_a_consumer_is_awaited(cluster: FakeCluster) -> None:
    stocked(cluster)
    unit = created(cluster)
    GpuUnit.objects.filter(role=UnitRole.STOCK).update(consumed_by="", consumed_at=None)

    assert source_of(cluster, unit) == SourcePending()


def test_a_source_that_another_unit_consumed_is_lost(cluster: FakeCluster) -> None:
    stocked(cluster)
    unit = created(cluster)
    GpuUnit.objects.filter(role=UnitRole.STOCK).update(consumed_by="another-unit")

    assert source_of(cluster, unit) == SourceLost()


def test_a_source_without_a_row_counts_as_consumed(cluster: FakeCluster) -> None:
    stocked(cluster)
    unit = handed_over(cluster)
    GpuUnit.objects.filter(role=UnitRole.STOCK).delete()
    cluster.writes.clear()

    assert source_of(cluster, unit) == SourceUnread(), "what runs, runs"
    work_off(cluster)
    assert cluster.writes == []
    cluster.remove(DEPLOYMENT, f"unit-{unit.name}", namespace=unit.namespace)
    assert source_of(cluster, unit) == SourceGone(may_preempt=True)


def test_a_unit_of_kubectl_that_names_stock_has_no_source(
    cluster: FakeCluster,
) -> None:
    [stock] = stocked(cluster)
    made = cluster.put(GPU_UNIT, unit_resource("by-hand", metadata={"annotations": naming(stock)}))

    number = UNIT_MIRROR.observed(made)
    assert number is not None
    row = GpuUnit.objects.get(pk=number)
    assert source_of(cluster, row) == SourceLost()
    work_off(cluster)

    row.refresh_from_db()
    stock.refresh_from_db()
    assert (stock.phase, stock.consumed_by) == ("Ready", "")
    deployment = cluster.get(DEPLOYMENT, "unit-by-hand", namespace=NAMESPACE)
    assert deployment is not None
    pod = deployment["spec"]["template"]["spec"]
    assert (row.phase, pod["priorityClassName"]) == ("Ready", "gpu-platform-stock")


def test_a_unit_without_annotations_has_no_source(cluster: FakeCluster) -> None:
    made = cluster.put(GPU_UNIT, unit_resource("plain"))
    UNIT_MIRROR.observed(made)

    assert source_of(cluster, GpuUnit.objects.get()) == NoSource()


def test_a_spec_without_preemption_is_respected(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    GpuSpec.objects.update(may_preempt=False)
    unit = created(cluster)
    stock_goes(cluster, stock)

    assert source_of(cluster, unit) == SourceGone(may_preempt=False, is_first_seen=True)


@pytest.mark.parametrize("phase", ["Failed", "Cancelled"])
def test_a_failed_start_leaves_its_unit_stopped(cluster: FakeCluster, phase: str) -> None:
    stocked(cluster)
    unit = handed_over(cluster)
    operation = Operation.objects.get(gpu_units=unit)
    assert UnitOperation.START.value == START_KIND
    Operation.objects.filter(pk=operation.pk).update(
        kind=UnitOperation.START, phase=phase, error_code="refused"
    )

    work_off(cluster)

    unit.refresh_from_db()
    deployment = cluster.get(DEPLOYMENT, f"unit-{unit.name}", namespace=NAMESPACE)
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 0
    assert (unit.phase, unit.is_suspended) == ("Stopped", True)


def test_the_row_of_a_deleted_unit_stays_open_until_its_pods_are_gone(
    cluster: FakeCluster,
) -> None:
    stocked(cluster)
    unit = handed_over(cluster)
    cluster.remove(GPU_UNIT, unit.name, namespace=NAMESPACE)
    cluster.put(POD, orphan_pod(unit))

    work_off(cluster, 2)

    unit.refresh_from_db()
    assert (unit.phase, unit.deleted_at) == ("Terminating", None)
    assert unit.deletion_requested_at is not None
    assert "pods" in unit.message
    cluster.remove(POD, "left-over", namespace=NAMESPACE)
    work_off(cluster, 1)
    unit.refresh_from_db()
    assert unit.deleted_at is not None
    assert unit.message == "", "nothing is awaited any more"


@pytest.mark.parametrize(("age_seconds", "wait"), [(0, 2.0), (200, 20.0), (3600, 60.0)])
def test_remaining_objects_are_read_less_often_over_time(
    cluster: FakeCluster, age_seconds: int, wait: float
) -> None:
    [stock] = stocked(cluster)
    stock_goes(cluster, stock)
    cluster.put(POD, orphan_pod(stock))
    asked_at = Now() - timedelta(seconds=age_seconds)
    GpuUnit.objects.update(due_at=Now(), deletion_requested_at=asked_at)

    assert driver.run(UNITS, stock.pk) == pytest.approx(wait, abs=0.5)


def test_deleted_stock_with_pods_cannot_be_claimed(
    cluster: FakeCluster,
) -> None:
    [stock] = stocked(cluster)
    stock_goes(cluster, stock)
    cluster.put(POD, orphan_pod(stock))
    cluster.fail("list", POD, ClusterForbidden("no", status=403))

    work_off(cluster, 1)

    stock.refresh_from_db()
    assert (stock.phase, stock.deleted_at) == ("Terminating", None)


def test_an_unavailable_cluster_releases_nothing(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    stock_goes(cluster, stock)
    cluster.fail("get", DEPLOYMENT, ClusterUnavailable("connection refused"))
    GpuUnit.objects.update(due_at=Now())

    driver.run(UNITS, stock.pk)

    stock.refresh_from_db()
    assert (stock.phase, stock.deleted_at) == ("Terminating", None)
    assert cluster_state().failures == 1


def test_the_deletion_of_stock_marks_the_waiting_unit(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    unit = created(cluster)
    stock_goes(cluster, stock)
    GpuUnit.objects.filter(pk=unit.pk).update(due_at=None)
    GpuUnit.objects.filter(pk=stock.pk).update(due_at=Now())

    driver.run(UNITS, stock.pk)

    unit.refresh_from_db()
    assert unit.due_at is not None


def test_the_deletion_of_stock_does_not_mark_a_running_unit(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    unit = handed_over(cluster)
    assert (unit.phase, unit.due_at) == ("Ready", None)
    GpuUnit.objects.filter(pk=stock.pk).update(due_at=Now(), deleted_at=None)

    driver.run(UNITS, stock.pk)

    stock.refresh_from_db()
    unit.refresh_from_db()
    assert stock.deleted_at is not None
    assert unit.due_at is None


def test_a_successor_of_the_name_gets_its_row_once_the_pods_are_gone(
    cluster: FakeCluster,
) -> None:
    stocked(cluster)
    unit = handed_over(cluster, name="a")
    cluster.remove(GPU_UNIT, "a", namespace=NAMESPACE)
    other = cluster.put(GPU_UNIT, unit_resource("a"))
    cluster.put(POD, orphan_pod(unit))
    UNIT_MIRROR.observed(other)
    work_off(cluster, 2)
    assert GpuUnit.objects.filter(uid=other["metadata"]["uid"]).count() == 0

    cluster.remove(POD, "left-over", namespace=NAMESPACE)
    work_off(cluster, 2)

    row = GpuUnit.objects.get(name="a", deleted_at__isnull=True)
    assert (row.uid, row.image) == (other["metadata"]["uid"], IMAGE)


def test_reconcile_all_finds_what_the_watch_missed(cluster: FakeCluster) -> None:
    [first, second] = stocked(cluster, 2)
    stock_goes(cluster, first)
    cluster.remove(DEPLOYMENT, f"unit-{second.name}", namespace=STOCK_NAMESPACE)
    made = cluster.put(GPU_UNIT, unit_resource("by-hand"))

    due = compare_all(cluster)

    by_hand = GpuUnit.objects.get(uid=made["metadata"]["uid"])
    assert set(due) == {first.pk, second.pk, by_hand.pk}


def test_an_unrecorded_result_is_not_a_leftover(cluster: FakeCluster) -> None:
    stocked(cluster)
    accepted = accept_unit()
    cluster.fail("create", GPU_UNIT, ClusterUnavailable("cut"), acts_first=True)
    operations.run(accepted.operation.pk)

    assert len(cluster.names(GPU_UNIT)) == 2
    assert delete_leftovers(cluster) == 0
