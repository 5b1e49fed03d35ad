"""Rows of units copy the cluster: never an older version or a leftover, and with their history."""

from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.operations import driver as operations
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import (
    APPLIED_OPERATION_ANNOTATION,
    OPERATION_ID_ANNOTATION,
    TENANT_ANNOTATION,
    marks,
)
from tests.factories.unit_resources import (
    IMAGE,
    NAMESPACE,
    WRITTEN_BY_PLATFORM,
    accept_seed,
    accept_unit,
    at_version,
    finished,
    handed_over,
    naming,
    ready,
    stocked,
    unit_resource,
    work_off,
)
from tests.factories.unit_rows import stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from units.comparison import delete_leftovers
from units.mirror import UNIT_MIRROR, unit_ending, unit_freed, unit_gone, unit_touched
from units.models import GpuUnit, UnitHistory
from units.phases import STOCK_NAMESPACE, UnitRole

pytestmark = pytest.mark.django_db

IN_STOCK = {"namespace": STOCK_NAMESPACE}


def bearing(operation: Operation, name: str, **metadata: Any) -> Manifest:
    """Return a unit that a worker created for `operation`."""
    return unit_resource(
        name,
        metadata={
            "annotations": marks(operation),
            "managedFields": WRITTEN_BY_PLATFORM,
            **metadata,
        },
    )


def history() -> list[tuple[str, str]]:
    return list(UnitHistory.objects.order_by("id").values_list("phase", "reason"))


@pytest.mark.parametrize(
    ("namespace", "role"), [(NAMESPACE, UnitRole.ACTIVE), (STOCK_NAMESPACE, UnitRole.STOCK)]
)
def test_a_unit_created_with_kubectl_gets_a_row_with_its_role(
    namespace: str, role: UnitRole
) -> None:
    status = ready(serviceName="unit-a", accessURL="http://unit-a:80")

    number = UNIT_MIRROR.observed(
        unit_resource("a", metadata={"namespace": namespace}, status=status)
    )

    row = GpuUnit.objects.get()
    assert (row.pk, row.role) == (number, role)
    assert row.due_at is not None
    assert (row.phase, row.reason, row.ready_replicas) == ("Ready", "UnitReady", 1)
    assert (row.spec_name, row.image, row.gpu) == ("g1.1", IMAGE, 1)
    assert (row.service_name, row.access_url) == ("unit-a", "http://unit-a:80")
    assert (row.operation, row.tenant) == (None, None)


def test_the_source_is_copied_from_the_annotations() -> None:
    stock = stock_row()
    UNIT_MIRROR.observed(unit_resource("a", metadata={"annotations": naming(stock)}))

    row = GpuUnit.objects.get(name="a")
    assert (row.source_name, row.source_uid) == (stock.name, stock.uid)


@pytest.mark.parametrize("version", [6, 7])
def test_an_older_or_equal_copy_is_not_written(version: int) -> None:
    UNIT_MIRROR.observed(unit_resource("a"))
    GpuUnit.objects.update(due_at=None)

    assert UNIT_MIRROR.observed(at_version(unit_resource("a", gpu=5), version)) is None

    row = GpuUnit.objects.get()
    assert (row.gpu, row.due_at) == (1, None)
    assert history() == [("Pending", "")]


def test_a_copy_of_the_planners_status_marks_nothing() -> None:
    UNIT_MIRROR.observed(unit_resource("a"))
    GpuUnit.objects.update(due_at=None)

    assert (
        UNIT_MIRROR.observed(at_version(unit_resource("a", status=ready()), 8), mark_due=False)
        is None
    )

    row = GpuUnit.objects.get()
    assert (row.phase, row.due_at) == ("Ready", None)


def test_a_resource_without_a_row_gets_one() -> None:
    number = UNIT_MIRROR.observed(unit_resource("a"), mark_due=False)

    assert number == GpuUnit.objects.get().pk
    assert GpuUnit.objects.get().due_at is not None


def test_a_list_copies_only_what_is_newer() -> None:
    UNIT_MIRROR.observed(unit_resource("a"))
    GpuUnit.objects.update(due_at=None)

    assert UNIT_MIRROR.listed(Listing([unit_resource("a", gpu=5)], "9")) == []
    due = UNIT_MIRROR.listed(Listing([at_version(unit_resource("a", gpu=5), 8)], "9"))

    assert due == [GpuUnit.objects.get().pk]
    assert GpuUnit.objects.get().gpu == 5


def test_absence_only_marks_due_and_counts_only_after_the_uid_was_learned(
    cluster: FakeCluster,
) -> None:
    accept_seed()
    learned = stock_row(resource_version=11)
    older = stock_row(resource_version=9)

    due = UNIT_MIRROR.listed(Listing([], "10"))

    assert due == [older.pk]
    assert not GpuUnit.objects.filter(deleted_at__isnull=False).exists()
    learned.refresh_from_db()
    assert learned.due_at is None


def test_a_late_event_reopens_no_row() -> None:
    UNIT_MIRROR.observed(unit_resource("a"))
    GpuUnit.objects.update(deleted_at=Now())

    assert UNIT_MIRROR.observed(at_version(unit_resource("a"), 99)) is None

    assert GpuUnit.objects.get().deleted_at is not None


@pytest.mark.parametrize("accept", [accept_seed, accept_unit])
def test_the_uid_is_learned_from_the_operation_alone(cluster: FakeCluster, accept: Any) -> None:
    stock_row()
    operation = accept().operation
    row = operation.gpu_units.get()

    assert UNIT_MIRROR.observed(bearing(operation, row.name, namespace=row.namespace)) is None

    row.refresh_from_db()
    assert row.uid == ""


def test_leftovers_get_no_row_and_are_deleted_by_uid(
    cluster: FakeCluster,
) -> None:
    stocked(cluster, 2)
    unit = handed_over(cluster, name="a")
    consumed = GpuUnit.objects.get(consumed_by=unit.uid)
    assert consumed.operation is not None
    late_stock = cluster.put(
        GPU_UNIT, bearing(consumed.operation, consumed.name, uid="late-1", **IN_STOCK)
    )
    assert unit.operation is not None
    cluster.remove(GPU_UNIT, "a", namespace=NAMESPACE)
    work_off(cluster, 1)
    late_unit = cluster.put(GPU_UNIT, bearing(unit.operation, "a", uid="late-2"))
    UNIT_MIRROR.observed(late_stock)
    UNIT_MIRROR.observed(late_unit)
    assert not GpuUnit.objects.filter(uid__startswith="late").exists()

    assert delete_leftovers(cluster) == 2

    left = GpuUnit.objects.get(role=UnitRole.STOCK, deleted_at__isnull=True)
    assert cluster.names(GPU_UNIT) == [left.name]


def test_stock_of_an_open_seeding_is_not_a_leftover(cluster: FakeCluster) -> None:
    operation = accept_seed().operation
    cluster.put(GPU_UNIT, bearing(operation, operation.gpu_units.get().name, **IN_STOCK))

    assert delete_leftovers(cluster) == 0


@pytest.mark.parametrize("name", ["copy", None])
def test_a_copy_or_restore_by_kubectl_is_an_independent_unit(
    cluster: FakeCluster, name: str | None
) -> None:
    [stock] = stocked(cluster)
    cluster.remove(GPU_UNIT, stock.name, namespace=STOCK_NAMESPACE)
    work_off(cluster, 1)
    assert stock.operation is not None
    theirs = [{"manager": "kubectl-create", "operation": "Update"}]
    copied = cluster.put(
        GPU_UNIT,
        bearing(stock.operation, name or stock.name, uid="copy", managedFields=theirs, **IN_STOCK),
    )

    UNIT_MIRROR.observed(copied)

    assert delete_leftovers(cluster) == 0
    row = GpuUnit.objects.get(uid="copy")
    assert (row.operation, row.tenant) == (None, None)


def test_the_deletion_of_a_stock_pod_marks_the_waiting_unit() -> None:
    unit = unit_row()
    stock = stock_row(consumed_by=unit.uid, consumed_at=Now())

    assert unit_freed(STOCK_NAMESPACE, stock.name) == [unit.pk]
    assert unit_freed(unit.namespace, unit.name) == []
    assert UNIT_MIRROR.marked(STOCK_NAMESPACE, stock.name) == [stock.pk]
    assert UNIT_MIRROR.marked(STOCK_NAMESPACE, unit.name) == []


def test_events_of_consumed_stock_do_not_mark_it() -> None:
    unit, free = unit_row(), stock_row(name="free")
    consumed = stock_row(consumed_by=unit.uid, consumed_at=Now())

    assert unit_touched(STOCK_NAMESPACE, consumed.name) == []
    assert unit_touched(STOCK_NAMESPACE, free.name) == [free.pk]
    assert unit_touched(unit.namespace, unit.name) == [unit.pk]


def test_only_the_first_of_several_marks_is_returned() -> None:
    unit = unit_row()

    assert UNIT_MIRROR.marked(unit.namespace, unit.name) == [unit.pk]
    assert UNIT_MIRROR.marked(unit.namespace, unit.name) == []
    unit.refresh_from_db()
    assert unit.due_seq == 1


def test_history_has_each_change_of_phase_or_reason_once() -> None:
    UNIT_MIRROR.observed(unit_resource("a"))
    UNIT_MIRROR.observed(at_version(unit_resource("a", status=ready()), 8))
    UNIT_MIRROR.observed(at_version(unit_resource("a", status=ready(readyReplicas=0)), 9))
    UNIT_MIRROR.observed(at_version(unit_resource("a", status=ready("StockReady")), 10))
    unit_ending(GpuUnit.objects.all())
    unit_ending(GpuUnit.objects.all())
    unit_gone(GpuUnit.objects.all(), None)

    assert history() == [
        ("Pending", ""),
        ("Ready", "UnitReady"),
        ("Ready", "StockReady"),
        ("Terminating", ""),
    ]


def test_history_has_the_cause_of_each_failure() -> None:
    UNIT_MIRROR.observed(
        unit_resource(
            "a", status={**ready("PodStartupFailed"), "phase": "Failed", "cause": "Evicted"}
        )
    )

    assert list(UnitHistory.objects.values_list("reason", "cause")) == [
        ("PodStartupFailed", "Evicted")
    ]


def test_a_deleted_resource_with_remaining_objects_is_marked_in_a_column() -> None:
    unit = unit_row()
    rows = GpuUnit.objects.filter(pk=unit.pk)

    unit_ending(rows, "its pods still exist")
    unit.refresh_from_db()
    gone_at, of_pods = unit.resource_gone_at, unit.message
    unit_ending(rows)  # Without new information the message remains.
    unit.refresh_from_db()
    kept = unit.message
    unit_ending(rows, "its ReplicaSet still exists")
    unit.refresh_from_db()

    assert gone_at is not None
    assert (unit.phase, unit.reason, unit.resource_gone_at) == ("Terminating", "", gone_at)
    assert of_pods == kept != unit.message

    unit_gone(rows, None)
    unit.refresh_from_db()
    assert (unit.message, unit.deleted_at is None) == ("", False)


def test_history_names_the_operation_until_the_unit_is_settled(cluster: FakeCluster) -> None:
    stocked(cluster)
    unit = handed_over(cluster, name="a")
    made = unit.operation
    live = cluster.get(GPU_UNIT, "a", namespace=NAMESPACE)
    assert live is not None
    broken = {**live, "status": {**live["status"], "phase": "Failed"}}
    UNIT_MIRROR.observed(at_version(broken, 10_000))

    entries = UnitHistory.objects.filter(unit=unit).order_by("id")
    by = [(entry.phase, entry.operation) for entry in entries]
    assert [phase for phase, _ in by][-3:] == ["Pending", "Ready", "Failed"]
    assert [operation for _, operation in by][-3:] == [made, made, None]


def test_an_operation_id_of_another_database_is_ignored(cluster: FakeCluster) -> None:
    operation = finished(accept_seed())
    other = {APPLIED_OPERATION_ANNOTATION: str(operation.pk)}

    UNIT_MIRROR.observed(unit_resource("a", metadata={"annotations": other}, status=ready()))

    assert UnitHistory.objects.get(unit__name="a").operation is None


def test_no_earlier_reason_explains_a_deletion() -> None:
    row = unit_row("Terminating", deletion_requested_at=Now())

    UNIT_MIRROR.observed(unit_resource(row.name, metadata={"uid": row.uid}, status=ready()))

    row.refresh_from_db()
    assert (row.phase, row.reason, row.message, row.cause) == ("Terminating", "", "", "")
    assert not history()


@pytest.mark.parametrize(
    "resource",
    [
        unit_resource("a", image="a\x00b"),
        unit_resource("a", gpu=2**40),
        unit_resource("a", gpu=-1),
        unit_resource("a", suspend="yes"),
        unit_resource("a", specName="x" * 500, image="y" * 5000),
        unit_resource("a", status={"phase": "Failed"}),
        unit_resource("a", status={"phase": "Sleeping", "readyReplicas": "many"}),
        unit_resource("a", status=ready(accessURL="x" * 5000, serviceName="y" * 500)),
        unit_resource("a", status=ready("r" * 1024)),
        unit_resource("a", metadata={"annotations": {OPERATION_ID_ANNOTATION: "a\x00b"}}),
        unit_resource("a", metadata={"annotations": {TENANT_ANNOTATION: "\x00"}}),
        unit_resource("a", metadata={"annotations": {APPLIED_OPERATION_ANNOTATION: "9" * 18}}),
    ],
    ids=lambda resource: str(resource["metadata"] | resource["spec"])[180:280],
)
def test_every_resource_that_the_cluster_accepts_is_copied(resource: Manifest) -> None:
    UNIT_MIRROR.observed(resource)
    UNIT_MIRROR.observed(at_version(resource, 8))

    assert GpuUnit.objects.get().resource_version == 8


def test_a_rejected_create_shows_the_existing_resource(cluster: FakeCluster) -> None:
    stocked(cluster)
    theirs = cluster.put(GPU_UNIT, unit_resource("taken", image="theirs:1"))
    operation = accept_unit(name="taken").operation

    operations.run(operation.pk)

    operation.refresh_from_db()
    assert operation.error_code == "name_conflict"
    row = GpuUnit.objects.get(name="taken", deleted_at__isnull=True)
    assert (row.uid, row.image, row.operation) == (theirs["metadata"]["uid"], "theirs:1", None)
