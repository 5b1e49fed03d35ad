"""Acceptance of operations: exactly once under concurrency, and atomically."""

import threading
from collections import Counter

import pytest
from django.db import connection
from pytest_django import Settings

from gpuplatform.errors import (
    NameConflict,
    NotFound,
    OperationConflict,
    OperatorUnavailable,
    PhaseConflict,
    RecoveryNeeded,
)
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.services import Accepted
from gpuplatform.queueing import Queue
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.models import ClusterState
from inventory.models import StockPool
from tests.factories.inventory import accept_create, accept_delete, accept_update, create_body
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import Broker
from tests.fakes.threads import DEADLINE_SECONDS, at_once


@pytest.mark.django_db
def test_a_create_inserts_operation_and_row_in_one_transaction(cluster: FakeCluster) -> None:
    accepted = accept_create(name="a", memory="1.5Gi")

    row = StockPool.objects.get(name="a")
    assert not accepted.is_replay
    assert accepted.operation.phase == OperationPhase.PENDING
    assert accepted.operation.object_row == row.id
    assert (row.phase, row.uid, row.operation_id) == ("Pending", "", accepted.operation.id)
    assert row.spec["memory"] == "1536Mi"


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_the_hint_is_sent_after_the_commit(cluster: FakeCluster, broker: Broker) -> None:
    accept_create()

    assert broker.hints(Queue.OPERATIONS) == 1


@pytest.mark.django_db
def test_a_replay_with_another_spelling_of_the_same_payload_is_the_same(
    cluster: FakeCluster,
) -> None:
    body = create_body(memory="16Gi", gpu=0, template={})
    first = accept_create(**body)

    again = accept_create(**{**body, "memory": "16384Mi"})

    assert again.is_replay
    assert again.operation.id == first.operation.id
    assert Operation.objects.count() == StockPool.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change", [{"replicas": 3}, {"name": "another"}, {"namespace": "other"}, {"gpu": 1}]
)
def test_a_reused_operation_id_is_an_operation_conflict(
    cluster: FakeCluster, change: dict[str, object]
) -> None:
    body = create_body()
    accept_create(**body)

    with pytest.raises(OperationConflict):
        accept_create(**{**body, **change})

    assert Operation.objects.count() == StockPool.objects.count() == 1


@pytest.mark.django_db
def test_an_operation_id_is_shared_by_all_kinds(cluster: FakeCluster) -> None:
    accept_create(name="a", operationID="op")

    with pytest.raises(OperationConflict):
        accept_update("a", operation_id="op", replicas=3)
    with pytest.raises(OperationConflict):
        accept_delete("a", operation_id="op")

    assert StockPool.objects.get().deletion_requested_at is None


@pytest.mark.django_db
def test_a_name_in_use_leaves_no_operation(cluster: FakeCluster) -> None:
    accept_create(name="a")

    with pytest.raises(NameConflict):
        accept_create(name="a")

    assert Operation.objects.count() == 1


@pytest.mark.django_db
def test_the_same_name_in_another_namespace_is_free(
    cluster: FakeCluster, settings: Settings
) -> None:
    settings.POOL_NAMESPACES = ("runtime-pools", "elsewhere")
    accept_create(name="a")
    accept_create(name="a", namespace="elsewhere")

    assert StockPool.objects.filter(name="a").count() == 2


@pytest.mark.django_db
def test_a_change_or_deletion_of_an_unknown_pool_leaves_no_operation(cluster: FakeCluster) -> None:
    with pytest.raises(NotFound):
        accept_update("no", replicas=1)
    with pytest.raises(NotFound):
        accept_delete("no")

    assert not Operation.objects.exists()


@pytest.mark.django_db
def test_a_pool_that_is_being_deleted_accepts_no_change_and_keeps_its_name(
    cluster: FakeCluster,
) -> None:
    accept_create(name="a")
    accept_delete("a")

    with pytest.raises(PhaseConflict):
        accept_update("a", replicas=1)
    with pytest.raises(NameConflict):
        accept_create(name="a")

    assert StockPool.objects.get().phase == "Terminating"


@pytest.mark.django_db
def test_a_replay_returns_the_operation_after_the_object_is_deleted(cluster: FakeCluster) -> None:
    body = create_body(name="a")
    accept_create(**body)
    accept_update("a", operation_id="up", replicas=5)
    accept_delete("a", operation_id="del")
    StockPool.objects.update(deleted_at="2026-01-31T12:00:00Z")

    replays = [
        accept_create(**body),
        accept_update("a", operation_id="up", replicas=5),
        accept_delete("a", operation_id="del"),
    ]

    assert all(replay.is_replay for replay in replays)
    assert StockPool.objects.count() == 1


@pytest.mark.django_db
def test_without_a_cluster_by_configuration_nothing_is_accepted(settings: Settings) -> None:
    settings.KUBE_MODE = "off"

    with pytest.raises(OperatorUnavailable):
        accept_create()

    assert not Operation.objects.exists()
    assert not StockPool.objects.exists()


@pytest.mark.django_db
def test_nothing_is_accepted_until_recovery(cluster: FakeCluster) -> None:
    ClusterState.objects.filter(id=cluster_state().id).update(recovery_reason="another database")

    with pytest.raises(RecoveryNeeded):
        accept_create()

    assert not Operation.objects.exists()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_32_concurrent_identical_requests_insert_one_operation(cluster: FakeCluster) -> None:
    body = create_body()

    results = at_once([lambda: accept_create(**body)] * 32)

    accepted = [result for result in results if isinstance(result, Accepted)]
    assert len(accepted) == 32, results
    assert Counter(one.is_replay for one in accepted) == {False: 1, True: 31}
    assert len({one.operation.id for one in accepted}) == 1
    assert Operation.objects.count() == StockPool.objects.count() == 1


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_50_concurrent_requests_for_one_name_create_one_pool(
    cluster: FakeCluster,
) -> None:
    results = at_once([lambda: accept_create(name="same")] * 50)

    kinds = Counter(type(result).__name__ for result in results)
    assert kinds == {"Accepted": 1, "NameConflict": 49}
    assert Operation.objects.count() == StockPool.objects.count() == 1


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_of_two_concurrent_payloads_with_one_id_one_is_accepted(cluster: FakeCluster) -> None:
    one, other = create_body(), create_body()
    other["operationID"] = one["operationID"]

    results = at_once([lambda: accept_create(**one), lambda: accept_create(**other)] * 10)

    kinds = Counter(type(result).__name__ for result in results)
    assert kinds == {"Accepted": 10, "OperationConflict": 10}
    assert Operation.objects.count() == StockPool.objects.count() == 1


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_two_concurrent_changes_are_both_applied_in_any_commit_order(
    cluster: FakeCluster,
) -> None:
    """The id is assigned before the commit, but must be in the order of the commits."""
    created = accept_create(name="a").operation
    driver.run(created.id)
    has_number, may_commit = threading.Event(), threading.Event()

    def slow() -> None:
        def wait(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
            answer = execute(sql, params, many, context)
            if "INSERT INTO" in sql and "operations_operation" in sql:
                has_number.set()
                may_commit.wait(0.3)
            return answer

        with connection.execute_wrapper(wait):
            accept_update("a", operation_id="slow", replicas=7)

    def fast() -> None:
        has_number.wait(DEADLINE_SECONDS)
        accept_update("a", operation_id="fast", image="busybox:2")
        driver.run(Operation.objects.get(operation_id="fast").id)
        may_commit.set()

    results = at_once([slow, fast])
    for operation in Operation.objects.order_by("id").exclude(phase="Succeeded"):
        driver.run(operation.id)

    assert results == [None, None]
    spec = cluster.get_pool("a")["spec"]
    assert (spec["replicas"], spec["image"]) == (7, "busybox:2")
