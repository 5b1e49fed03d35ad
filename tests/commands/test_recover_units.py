"""`recover` with units and stock, for a lost and for a restored database."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.db.models.functions import Now

from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations import driver as operations
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import APPLIED_OPERATION_ANNOTATION
from gpuplatform.operations.services import Accepted
from gpuplatform.reconciliation import epoch
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from tests.factories.unit_resources import (
    NAMESPACE,
    accept_seed,
    accept_unit,
    finished,
    handed_over,
    stocked,
    unit_resource,
    work_off,
)
from tests.factories.unit_rows import spec_row
from tests.fakes.cluster import FakeCluster
from units.consistency import unit_inconsistencies
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE, UnitRole
from units.requests import UnitGroupCreate
from units.selectors import capacity_by_spec
from units.services.groups import group_create
from units.services.units import unit_request_deletion, unit_stop

pytestmark = pytest.mark.django_db


def recover(*arguments: str) -> str:
    output = StringIO()
    call_command("recover", *arguments, stdout=output)
    return output.getvalue()


def take_without_deleting(cluster: FakeCluster, name: str) -> None:
    """Create a unit whose stock still exists, because its deletion failed."""
    cluster.fail("delete", GPU_UNIT, ClusterUnavailable("cut"))
    finished(accept_unit(name=name))


def lose_the_database() -> None:
    GpuUnit.objects.all().delete()
    Operation.objects.all().delete()
    ClusterState.objects.all().delete()


def ask_deletion(name: str) -> Accepted:
    return unit_request_deletion(tenant=tenant_by_name(), name=name, operation_id=f"delete-{name}")


def faults(cluster: FakeCluster) -> list[str]:
    return sorted(str(fault) for fault in unit_inconsistencies(cluster))


def test_a_lost_database_is_rebuilt_and_replays_answer_as_before(cluster: FakeCluster) -> None:
    stocked(cluster, 3, operationID="seed")
    unit = handed_over(cluster, operationID="make", name="a")
    lose_the_database()
    cluster.writes.clear()

    recover()
    work_off(cluster)

    assert cluster.writes == ["apply ConfigMap gpu-platform-epoch"]
    [spec] = capacity_by_spec()
    assert (spec.ready, spec.active) == (2, 1)
    seed = accept_seed(3, operationID="seed")
    made = accept_unit(operationID="make", name="a")
    assert (seed.is_replay, seed.operation.phase) == (True, "Succeeded")
    assert (made.is_replay, made.operation.object_uid) == (True, unit.uid)
    assert seed.operation.progress_total == 3
    ordinals = seed.operation.gpu_units.values_list("ordinal", flat=True)
    assert sorted(number or 0 for number in ordinals) == [2, 3]
    assert faults(cluster) == []


def test_a_lost_catalogue_is_rebuilt_from_the_units_that_the_platform_created(
    cluster: FakeCluster,
) -> None:
    placement = {"nodeSelector": {"zone": "a"}}
    spec_row("old", gpu=2, memory="8Gi", cpu="", placement=placement)
    stocked(cluster, 2, specName="old", gpu=2)
    cluster.put(GPU_UNIT, unit_resource("by-hand", specName="typo"))
    lose_the_database()
    GpuSpec.objects.all().delete()

    planned = recover("--dry-run")
    before = GpuSpec.objects.count()
    said = recover()

    assert ("GPU spec old" in planned, before) == (True, 0)
    assert said.count("GPU spec") == 1
    row = GpuSpec.objects.get()
    assert (row.name, row.gpu, row.memory, row.placement) == ("old", 2, "8Gi", placement)
    assert (row.is_enabled, row.warm_target) == (True, 0)
    work_off(cluster)
    assert finished(accept_unit(specName="old")).phase == "Succeeded"
    assert "GPU spec" not in recover()


def test_stock_that_a_unit_names_is_imported_as_consumed(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    take_without_deleting(cluster, "a")
    unit = GpuUnit.objects.get(name="a")
    lose_the_database()

    output = recover()

    row = GpuUnit.objects.get(role=UnitRole.STOCK)
    assert (row.uid, row.consumed_by) == (stock.uid, unit.uid)
    assert f"{row}: consumed by {NAMESPACE}/a" in output
    work_off(cluster)
    assert cluster.names(GPU_UNIT) == ["a"]
    assert GpuUnit.objects.get(name="a").phase == "Ready"


def test_a_restored_database_learns_what_was_consumed_after_the_backup(
    cluster: FakeCluster,
) -> None:
    [stock] = stocked(cluster)
    unit = handed_over(cluster, name="a")
    assert unit.operation is not None
    GpuUnit.objects.filter(pk=stock.pk).update(
        consumed_by="",
        consumed_at=None,
        deleted_at=None,
        deletion_requested_at=None,
        phase="Ready",
    )
    GpuUnit.objects.filter(pk=unit.pk).delete()
    unit.operation.delete()

    recover()
    work_off(cluster)

    stock.refresh_from_db()
    assert stock.consumed_by == unit.uid
    assert stock.deleted_at is not None
    assert faults(cluster) == []


def test_stock_consumed_before_its_seeding_recorded_it_is_never_created_again(
    cluster: FakeCluster,
) -> None:
    [stock] = stocked(cluster, operationID="seed")
    unit = handed_over(cluster, name="a")
    assert unit.operation is not None
    GpuUnit.objects.filter(pk=unit.pk).delete()
    unit.operation.delete()
    Operation.objects.filter(operation_id="seed").update(
        phase="Pending", due_at=Now(), ended_at=None
    )
    GpuUnit.objects.filter(pk=stock.pk).update(
        uid="", consumed_by="", consumed_at=None, deleted_at=None, phase="Pending"
    )

    recover()
    finished(accept_seed(operationID="seed"))
    work_off(cluster)

    stock.refresh_from_db()
    assert (stock.uid != "", stock.consumed_by) == (True, unit.uid)
    assert cluster.names(GPU_UNIT) == ["a"]


def test_two_units_with_one_source_are_reported_and_the_older_one_has_it(
    cluster: FakeCluster,
) -> None:
    stocked(cluster, 2)
    take_without_deleting(cluster, "a")
    take_without_deleting(cluster, "b")
    first = cluster.get(GPU_UNIT, "a", namespace=NAMESPACE)
    second = cluster.get(GPU_UNIT, "b", namespace=NAMESPACE)
    assert first is not None
    assert second is not None
    managed = [{"manager": "gpu-platform", "operation": "Update"}]
    for unit in (first, second):
        unit["metadata"]["managedFields"] = managed
    named = first["metadata"]["annotations"]
    second["metadata"]["annotations"] |= {k: v for k, v in named.items() if "source" in k}
    second["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    cluster.put(GPU_UNIT, first)
    cluster.remove(GPU_UNIT, "b", namespace=NAMESPACE)
    cluster.put(GPU_UNIT, second)
    lose_the_database()

    output = recover()

    assert f"{NAMESPACE}/b: names the same source" in output
    consumers = set(GpuUnit.objects.exclude(consumed_by="").values_list("consumed_by", flat=True))
    assert consumers == {first["metadata"]["uid"]}
    assert any("same source" in fault for fault in faults(cluster))


def test_a_unit_created_by_hand_is_imported_and_consumes_no_stock(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    named = {
        "runtime.lokiwager.io/source-stock-name": stock.name,
        "runtime.lokiwager.io/source-stock-namespace": STOCK_NAMESPACE,
        "runtime.lokiwager.io/source-stock-uid": stock.uid,
    }
    cluster.put(GPU_UNIT, unit_resource("by-hand", metadata={"annotations": named}))
    lose_the_database()

    assert "by-hand: not created by an operation" in recover()

    assert GpuUnit.objects.get(role=UnitRole.STOCK).consumed_by == ""
    assert GpuUnit.objects.get(name="by-hand").operation is None


def test_a_dry_run_prints_the_same_and_changes_nothing(cluster: FakeCluster) -> None:
    stocked(cluster, 2)
    handed_over(cluster, name="a")
    lose_the_database()
    cluster.writes.clear()

    output = recover("--dry-run")

    assert f"{NAMESPACE}/a: imported into" in output
    assert not GpuUnit.objects.exists()
    assert not Operation.objects.exists()
    assert cluster.writes == []


def test_a_second_run_changes_nothing_more(cluster: FakeCluster) -> None:
    stocked(cluster, 2)
    handed_over(cluster, name="a")
    lose_the_database()
    recover()
    before = sorted(GpuUnit.objects.values_list("id", "uid", "consumed_by"))

    recover()

    assert sorted(GpuUnit.objects.values_list("id", "uid", "consumed_by")) == before
    assert Operation.objects.count() == 2
    assert epoch.compare(cluster) == ""


@pytest.mark.parametrize("ordinal", ["", "x", "9" * 40, "-1", "\u0663"])
def test_invalid_annotations_do_not_stop_it(cluster: FakeCluster, ordinal: str) -> None:
    [stock] = stocked(cluster)
    live = cluster.get(GPU_UNIT, stock.name, namespace=STOCK_NAMESPACE)
    assert live is not None
    live["metadata"]["annotations"]["runtime.lokiwager.io/stock-ordinal"] = ordinal
    live["metadata"]["annotations"]["runtime.lokiwager.io/stock-replicas"] = ordinal
    cluster.put(GPU_UNIT, live)
    lose_the_database()

    recover()

    assert GpuUnit.objects.get().ordinal is None


def test_a_unit_that_a_restored_cluster_brings_back_counts_again(cluster: FakeCluster) -> None:
    stocked(cluster)
    unit = handed_over(cluster, name="a")
    backed_up = cluster.get(GPU_UNIT, "a", namespace=NAMESPACE)
    assert backed_up is not None
    finished(ask_deletion("a"))
    work_off(cluster)
    unit.refresh_from_db()
    assert unit.deleted_at is not None
    cluster.put(GPU_UNIT, backed_up)

    output = recover()
    work_off(cluster)

    unit = GpuUnit.objects.get(pk=unit.pk)
    assert (unit.deleted_at, unit.phase) == (None, "Ready")
    assert f"{NAMESPACE}/a: its row was closed; it is opened again" in output
    assert faults(cluster) == []


def test_restored_stock_that_was_consumed_is_deleted_again(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    backed_up = cluster.get(GPU_UNIT, stock.name, namespace=STOCK_NAMESPACE)
    assert backed_up is not None
    unit = handed_over(cluster, name="a")
    cluster.put(GPU_UNIT, backed_up)

    recover()
    work_off(cluster)

    stock.refresh_from_db()
    assert (stock.consumed_by, stock.deleted_at is None) == (unit.uid, False)
    assert cluster.names(GPU_UNIT) == ["a"]
    assert faults(cluster) == []


def test_a_live_row_of_the_same_name_is_closed_for_the_restored_unit(
    cluster: FakeCluster,
) -> None:
    stocked(cluster, 2)
    first = handed_over(cluster, name="a")
    backed_up = cluster.get(GPU_UNIT, "a", namespace=NAMESPACE)
    assert backed_up is not None
    finished(ask_deletion("a"))
    work_off(cluster)
    second = handed_over(cluster, name="a")
    cluster.remove(GPU_UNIT, "a", namespace=NAMESPACE)
    cluster.put(GPU_UNIT, backed_up)

    recover()
    work_off(cluster)

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.deleted_at is None, second.deleted_at is None) == (True, False)
    assert faults(cluster) == []


def test_an_open_operation_consumes_the_source_of_its_unit_and_not_the_claim(
    cluster: FakeCluster,
) -> None:
    first, second = stocked(cluster, 2)
    operation = accept_unit(name="a").operation
    GpuUnit.objects.filter(pk=first.pk).update(claimed_by=None)
    GpuUnit.objects.filter(pk=second.pk).update(claimed_by=operation)
    operations.run(operation.pk)
    GpuUnit.objects.filter(pk=second.pk).update(consumed_by="", consumed_at=None, phase="Ready")
    GpuUnit.objects.filter(pk=first.pk).update(claimed_by=operation)
    GpuUnit.objects.filter(name="a").update(uid="", phase="Pending")
    Operation.objects.filter(pk=operation.pk).update(
        phase="Pending", due_at=Now(), ended_at=None, object_uid=""
    )

    recover()
    operations.run(operation.pk)
    work_off(cluster)

    unit = GpuUnit.objects.get(name="a")
    first.refresh_from_db()
    second.refresh_from_db()
    assert second.consumed_by == unit.uid
    assert (first.consumed_by, first.claimed_by) == ("", None)
    assert unit.phase == "Ready"
    assert faults(cluster) == []


def test_operation_ids_continue_after_the_newest_id_of_a_unit(
    cluster: FakeCluster,
) -> None:
    stocked(cluster)
    handed_over(cluster, name="a")
    live = cluster.get(GPU_UNIT, "a", namespace=NAMESPACE)
    assert live is not None
    newest = epoch.newest_operation()
    live["metadata"]["annotations"][APPLIED_OPERATION_ANNOTATION] = str(newest + 7)
    cluster.put(GPU_UNIT, live)

    recover()

    stopped = finished(unit_stop(tenant=tenant_by_name(), name="a", operation_id="stop"))
    assert stopped.phase == "Succeeded"
    assert GpuUnit.objects.get(name="a").is_suspended


def ask_group(size: int = 2) -> Accepted:
    unit = {"specName": "g1.1", "image": "example.com/a:1"}
    body = {"operationID": "make", "name": "team", "size": size, "unit": unit}
    return group_create(tenant=tenant_by_name(), body=UnitGroupCreate.parse(body))


def test_a_lost_group_is_rebuilt_with_its_operation(cluster: FakeCluster) -> None:
    stocked(cluster, 3)
    finished(ask_group())
    work_off(cluster)
    lose_the_database()
    cluster.writes.clear()

    recover()
    work_off(cluster)

    assert cluster.writes == ["apply ConfigMap gpu-platform-epoch"]
    replay = ask_group()
    assert (replay.is_replay, replay.operation.phase) == (True, "Succeeded")
    assert (replay.operation.object_kind, replay.operation.progress_total) == ("UnitGroup", 2)
    rows = GpuUnit.objects.filter(group_name="team", phase="Ready", tenant=tenant_by_name())
    assert {row.operation_id for row in rows} == {replay.operation.pk}
    assert [row.group_rank for row in rows.order_by("group_rank")] == [0, 1]
    assert faults(cluster) == []


def test_an_open_group_continues_with_the_units_that_exist(cluster: FakeCluster) -> None:
    stock = stocked(cluster, 2)
    operation = ask_group().operation
    operations.run(operation.pk)
    rows = GpuUnit.objects.filter(group_name="team")
    rows.update(uid="", phase="Pending", gpu=0)
    for one in stock:
        GpuUnit.objects.filter(pk=one.pk).update(
            consumed_by="", consumed_at=None, phase="Ready", claimed_by=None
        )
    Operation.objects.filter(pk=operation.pk).update(
        phase="Pending", due_at=Now(), ended_at=None, progress_done=0
    )

    recover()
    operations.run(operation.pk)
    work_off(cluster)

    assert Operation.objects.get(pk=operation.pk).phase == "Succeeded"
    assert set(rows.values_list("phase", flat=True)) == {"Ready"}
    consumed = GpuUnit.objects.exclude(consumed_by="").values_list("consumed_by", flat=True)
    assert set(consumed) == set(rows.values_list("uid", flat=True))
    assert faults(cluster) == []
