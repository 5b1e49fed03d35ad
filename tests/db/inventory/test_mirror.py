"""The mirror only copies: never an older version, never its own decision, never a leftover."""

from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries

from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import STOCK_POOL, Manifest
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import OPERATION_ID_ANNOTATION, TENANT_ANNOTATION
from inventory.mirror import POOL_MIRROR
from inventory.models import StockPool
from inventory.reconcile import delete_leftovers
from tests.factories.inventory import (
    WRITTEN_BY_PLATFORM,
    accept_create,
    accept_delete,
    pool_resource,
    pool_row,
)
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db


def ready(**changes: Any) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True", "reason": "DeploymentReady", "message": "ok"}
    return {
        "phase": "Ready",
        "available": 2,
        "allocated": 0,
        "observedGeneration": 1,
        "conditions": [condition],
        **changes,
    }


def at_version(resource: Manifest, version: int) -> Manifest:
    return {**resource, "metadata": {**resource["metadata"], "resourceVersion": str(version)}}


def bearing(operation: Operation, name: str) -> Manifest:
    """Return a resource that a worker created for `operation`."""
    marks = {TENANT_ANNOTATION: "default", OPERATION_ID_ANNOTATION: operation.operation_id}
    return pool_resource(
        name, metadata={"annotations": marks, "managedFields": WRITTEN_BY_PLATFORM}
    )


@pytest.mark.parametrize(
    ("cause", "kept"), [("OutOfMemory", "OutOfMemory"), ("Gremlins", ""), (["a"], ""), (None, "")]
)
def test_only_a_known_cause_is_copied(cause: object, kept: str) -> None:
    condition = {"type": "Ready", "status": "False", "reason": "PodStartupFailed", "message": "m"}

    POOL_MIRROR.observed(
        pool_resource("a", status=ready(phase="Failed", conditions=[condition], cause=cause))
    )

    assert StockPool.objects.get().cause == kept


def test_a_pool_created_with_kubectl_gets_a_due_row() -> None:
    number = POOL_MIRROR.observed(pool_resource("a", status=ready(serviceName="pool-a")))

    row = StockPool.objects.get()
    assert row.id == number
    assert row.due_at is not None
    assert (row.operation_id, row.tenant_id) == (None, None)
    assert (row.phase, row.reason, row.message) == ("Ready", "DeploymentReady", "ok")
    assert (row.available_replicas, row.desired_replicas) == (2, 2)
    assert row.service_name == "pool-a"


def test_a_newer_copy_is_written_and_marks_the_row() -> None:
    POOL_MIRROR.observed(pool_resource("a"))
    StockPool.objects.update(due_at=None)

    number = POOL_MIRROR.observed(at_version(pool_resource("a", replicas=5), 8))

    row = StockPool.objects.get()
    assert number == row.id
    assert (row.desired_replicas, row.resource_version) == (5, 8)
    assert row.due_at is not None


@pytest.mark.parametrize("version", [6, 7])
def test_an_older_or_equal_copy_is_not_written(version: int) -> None:
    POOL_MIRROR.observed(pool_resource("a"))
    StockPool.objects.update(due_at=None)

    assert POOL_MIRROR.observed(at_version(pool_resource("a", replicas=5), version)) is None

    row = StockPool.objects.get()
    assert (row.desired_replicas, row.due_at) == (2, None)


def test_a_late_event_reopens_no_row() -> None:
    POOL_MIRROR.observed(pool_resource("a"))
    StockPool.objects.update(deleted_at=Now())

    assert POOL_MIRROR.observed(at_version(pool_resource("a"), 99)) is None

    assert StockPool.objects.get().deleted_at is not None


def test_absence_only_marks_a_row_due() -> None:
    row = pool_row(resource_version=5)

    due = POOL_MIRROR.listed(Listing([], "10"))

    assert due == [row.id]
    row.refresh_from_db()
    assert row.deleted_at is None
    assert row.due_at is not None


def test_a_list_older_than_the_row_marks_nothing() -> None:
    pool_row(resource_version=11)

    assert POOL_MIRROR.listed(Listing([], "10")) == []


def test_a_list_does_not_mark_a_row_without_a_uid(cluster: FakeCluster) -> None:
    accept_create(name="a")

    assert POOL_MIRROR.listed(Listing([], "10")) == []
    assert StockPool.objects.get().due_at is None


def test_the_uid_is_learned_from_the_operation_alone(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation

    assert POOL_MIRROR.observed(bearing(operation, "a")) is None

    assert StockPool.objects.get().uid == ""


def test_a_foreign_pool_does_not_get_the_row_of_an_open_create(
    cluster: FakeCluster,
) -> None:
    accept_create(name="a")

    assert POOL_MIRROR.observed(pool_resource("a")) is None

    assert StockPool.objects.get().uid == ""


def test_a_leftover_gets_no_row(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation
    driver.run(operation.id)
    StockPool.objects.update(deleted_at=Now())

    assert POOL_MIRROR.observed(bearing(operation, "a")) is None

    assert not StockPool.objects.filter(deleted_at__isnull=True).exists()


@pytest.mark.parametrize("name", ["a", "copy"])
def test_a_copy_or_restore_by_kubectl_is_an_independent_pool(
    cluster: FakeCluster, name: str
) -> None:
    operation = accept_create(name="a").operation
    driver.run(operation.id)
    StockPool.objects.update(deleted_at=Now())
    copied = bearing(operation, name)
    copied["metadata"]["managedFields"] = [{"manager": "kubectl-create", "operation": "Update"}]
    cluster.put(STOCK_POOL, copied)

    POOL_MIRROR.observed(copied)

    assert delete_leftovers(cluster) == 0
    row = StockPool.objects.get(deleted_at__isnull=True)
    assert (row.name, row.uid, row.operation) == (name, copied["metadata"]["uid"], None)


def test_a_pool_that_has_its_row_costs_no_query_in_the_sweep_of_leftovers(
    cluster: FakeCluster, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        driver.run(accept_create(name=f"p{number}").operation.id)

    with django_assert_num_queries(1):
        assert delete_leftovers(cluster) == 0


def test_only_leftovers_are_deleted_by_uid(cluster: FakeCluster) -> None:
    made, opened = accept_create(name="made").operation, accept_create(name="open").operation
    gone = accept_create(name="gone").operation
    driver.run(made.id)
    driver.run(gone.id)
    driver.run(accept_delete("gone").operation.id)
    cluster.put(STOCK_POOL, bearing(gone, "gone"))
    cluster.put(STOCK_POOL, bearing(opened, "open"))
    cluster.put(STOCK_POOL, pool_resource("by-hand", metadata={"uid": "u-1"}))

    assert delete_leftovers(cluster) == 1

    assert cluster.names(STOCK_POOL) == ["by-hand", "made", "open"]


def test_an_owned_object_marks_the_pool_of_its_label() -> None:
    row = pool_row(name="a")

    assert POOL_MIRROR.marked("runtime-pools", "a") == [row.id]
    assert POOL_MIRROR.marked("runtime-pools", "b") == []
    assert POOL_MIRROR.marked("elsewhere", "a") == []


def test_a_pool_whose_deletion_was_requested_is_terminating() -> None:
    row = pool_row(name="a", deletion_requested_at=Now(), phase="Terminating")

    POOL_MIRROR.observed(pool_resource("a", metadata={"uid": row.uid}, status=ready()))

    assert StockPool.objects.get().phase == "Terminating"


def test_a_deletion_by_kubectl_is_observed() -> None:
    POOL_MIRROR.observed(
        pool_resource("a", metadata={"deletionTimestamp": "2026-01-31T12:00:00Z"}, status=ready())
    )
    row = StockPool.objects.get()
    assert row.phase == "Terminating"

    POOL_MIRROR.observed(
        at_version(pool_resource("a", metadata={"deletionTimestamp": "2026-01-31T12:00:00Z"}), 8)
    )
    assert StockPool.objects.get().deletion_requested_at is not None


def test_the_time_of_a_phase_changes_only_with_phase_or_reason() -> None:
    POOL_MIRROR.observed(pool_resource("a", status=ready()))
    StockPool.objects.update(phase_since="2026-01-01T00:00:00Z")
    since = StockPool.objects.get().phase_since

    POOL_MIRROR.observed(at_version(pool_resource("a", status=ready(available=1)), 8))
    assert StockPool.objects.get().phase_since == since
    POOL_MIRROR.observed(at_version(pool_resource("a", status=ready(phase="Progressing")), 9))

    assert StockPool.objects.get().phase_since > since


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed"},
        {"phase": "Sleeping"},
        {"phase": "Ready", "available": -3},
        {"phase": "Ready", "available": 2**40},
        {"phase": "Ready", "allocated": 2**62},
        {"phase": "Ready", "observedGeneration": -1},
        {"phase": "Ready", "serviceName": "x" * 300},
        {"phase": "Ready", "conditions": [{"type": "Ready", "reason": "r" * 1024}]},
        {"phase": "Ready", "conditions": [{"type": "Ready", "message": "a\x00b"}]},
    ],
    ids=lambda status: str(status)[:60],
)
def test_every_status_that_the_cluster_accepts_is_copied(status: dict[str, Any]) -> None:
    POOL_MIRROR.observed(pool_resource("a", status=status))
    POOL_MIRROR.observed(at_version(pool_resource("a", status=status), 8))

    assert StockPool.objects.get().resource_version == 8


@pytest.mark.parametrize(
    "spec",
    [
        {"image": "a\x00b"},
        {"template": {"envs": [{"name": "A", "value": "\x00"}]}},
        {"replicas": 2**40},
        {"memory": "lots"},
    ],
    ids=lambda spec: str(spec)[:60],
)
def test_every_spec_that_the_cluster_accepts_is_copied(spec: dict[str, Any]) -> None:
    POOL_MIRROR.observed(pool_resource("a", **spec))
    POOL_MIRROR.observed(at_version(pool_resource("a", **spec), 8))

    assert StockPool.objects.get().resource_version == 8


def test_a_poison_pool_does_not_stop_a_list() -> None:
    poison = pool_resource("a", metadata={"uid": "u-1"}, image="a\x00b")
    sound = pool_resource("b", metadata={"uid": "u-2"})

    due = POOL_MIRROR.listed(Listing([poison, sound], "10"))

    assert len(due) == 2
