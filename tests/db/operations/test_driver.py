"""Execution of one operation: outcomes, waits, order, lost leases and killed workers."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.errors import (
    ClusterConflict,
    ClusterError,
    ClusterForbidden,
    ClusterRejected,
    ClusterUnavailable,
)
from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.operations import driver
from gpuplatform.operations.interventions import operation_cancel
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.provenance import (
    OPERATION_ID_ANNOTATION,
    REQUEST_HASH_ANNOTATION,
    TENANT_ANNOTATION,
)
from gpuplatform.operations.registry import kind_names
from gpuplatform.operations.selectors import operations_due
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.models import ClusterState
from inventory.models import StockPool
from tests.factories.inventory import (
    WRITTEN_BY_PLATFORM,
    accept_create,
    accept_delete,
    accept_update,
    pool_resource,
)
from tests.fakes.cluster import FakeCluster, Killed

pytestmark = pytest.mark.django_db

UNREACHABLE = ClusterUnavailable("connection refused")
BUSY = ClusterUnavailable("too many requests", status=429, retry_after=3)


def state(operation: Operation) -> Operation:
    return Operation.objects.get(pk=operation.pk)


def lease_is_over(operation: Operation) -> None:
    """Let the lease of a dead worker expire."""
    Operation.objects.filter(pk=operation.pk).update(lease_expires_at=Now() - timedelta(seconds=1))


def is_due(operation: Operation) -> None:
    Operation.objects.filter(pk=operation.pk).update(due_at=Now())


def opened() -> None:
    """Open the gate, as a sweep does when the cluster responds."""
    ClusterState.objects.update(failures=0, closed_until=None)


def test_a_create_ends_succeeded_with_the_uid_in_operation_and_row(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation

    assert driver.run(operation.id) is None

    made = cluster.get_pool("a")
    ended, row = state(operation), StockPool.objects.get()
    assert ended.phase == "Succeeded"
    assert ended.object_uid == row.uid == made["metadata"]["uid"]
    assert (ended.progress_done, ended.starts, ended.lease_token) == (1, 0, None)
    assert row.due_at is not None, "the reconciler has work"
    assert row.phase == "Pending"


def test_a_created_resource_names_its_operation(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation

    driver.run(operation.id)

    marks = cluster.get_pool("a")["metadata"]["annotations"]
    assert marks[TENANT_ANNOTATION] == "default"
    assert marks[OPERATION_ID_ANNOTATION] == operation.operation_id
    assert marks[REQUEST_HASH_ANNOTATION] == operation.request_hash


def test_an_ended_operation_is_not_executed_again(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation
    driver.run(operation.id)
    cluster.remove(STOCK_POOL, "a", namespace="runtime-pools")

    driver.run(operation.id)

    assert cluster.names(STOCK_POOL) == []


def test_operations_on_one_object_run_in_the_order_of_their_acceptance(
    cluster: FakeCluster,
) -> None:
    first = accept_create(name="a").operation
    second = accept_update("a", replicas=5).operation
    third = accept_delete("a").operation

    assert operations_due(10, kind_names()) == [first.id]
    driver.run(third.id)
    driver.run(second.id)
    assert cluster.names(STOCK_POOL) == []

    for operation in (first, second, third):
        driver.run(operation.id)
    assert [state(o).phase for o in (first, second, third)] == ["Succeeded"] * 3
    assert cluster.names(STOCK_POOL) == []


def test_a_waiting_operation_blocks_later_ones_on_its_object_only(
    cluster: FakeCluster,
) -> None:
    first = accept_create(name="a").operation
    accept_delete("a")
    other = accept_create(name="b").operation
    cluster.fail("create", STOCK_POOL, BUSY)
    driver.run(first.id)

    assert operations_due(10, kind_names()) == [other.id]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BUSY, "ClusterUnavailable"),
        (ClusterUnavailable("internal error", status=500), "ClusterUnavailable"),
        (ClusterForbidden("exceeded quota", status=403), "ClusterForbidden"),
        (ClusterConflict("changed", reason="Conflict", status=409), "Conflict"),
        (UNREACHABLE, "ClusterUnavailable"),
    ],
)
def test_a_temporary_error_makes_an_operation_wait_and_then_succeed(
    cluster: FakeCluster, error: ClusterError, reason: str
) -> None:
    operation = accept_create(name="a").operation
    cluster.fail("create", STOCK_POOL, error)

    wait = driver.run(operation.id)

    waiting = state(operation)
    assert wait is not None
    assert wait > 0
    assert (waiting.phase, waiting.reason, waiting.failures) == ("Pending", reason, 1)
    assert str(error) in waiting.message
    assert waiting.due_at is not None
    assert driver.run(operation.id) is None, "not before its time"

    opened()
    is_due(operation)
    driver.run(operation.id)
    assert state(operation).phase == "Succeeded"
    assert state(operation).reason == ""


def test_the_wait_is_the_servers_retry_after(cluster: FakeCluster) -> None:
    operation = accept_create().operation
    cluster.fail("create", STOCK_POOL, BUSY)

    assert driver.run(operation.id) == 3


def test_a_deterministic_rejection_ends_the_operation(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation
    cluster.fail("create", STOCK_POOL, ClusterRejected("spec.replicas: Invalid", status=422))

    driver.run(operation.id)

    failed = state(operation)
    assert (failed.phase, failed.error_code) == ("Failed", "invalid_request")
    assert "spec.replicas" in failed.error_message
    assert StockPool.objects.get().deleted_at is not None


def test_an_unreachable_cluster_closes_the_gate(cluster: FakeCluster) -> None:
    first, second = accept_create().operation, accept_create().operation
    cluster.fail("get", STOCK_POOL, UNREACHABLE)
    driver.run(first.id)

    driver.run(second.id)

    assert cluster_state().failures == 1
    assert state(second).phase == "Pending"
    assert state(second).failures == 0, "it was not even tried"


def test_no_operation_ends_while_recovery_is_needed(
    cluster: FakeCluster,
) -> None:
    waits = accept_create().operation
    cancel = operation_cancel(operation=waits, operation_id="cancel-1").operation
    ClusterState.objects.update_or_create(defaults={"recovery_reason": "another database"})

    driver.run(cancel.id)

    assert state(cancel).phase == "Pending"


def test_one_server_error_does_not_close_the_gate(cluster: FakeCluster) -> None:
    operation = accept_create().operation
    cluster.fail("create", STOCK_POOL, ClusterUnavailable("boom", status=500))

    driver.run(operation.id)

    assert cluster_state().failures == 0


def test_a_pool_of_another_creator_is_a_name_conflict_and_is_copied(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation
    theirs = cluster.put(STOCK_POOL, pool_resource("a"))

    driver.run(operation.id)

    assert state(operation).error_code == "name_conflict"
    assert cluster.get_pool("a") == theirs
    shown = StockPool.objects.get(deleted_at__isnull=True)
    assert (shown.uid, shown.operation_id) == (theirs["metadata"]["uid"], None)


@pytest.mark.parametrize("acts_first", [False, True], ids=["before the call", "after the call"])
def test_after_a_worker_is_killed_at_a_create_another_finishes_it(
    cluster: FakeCluster, acts_first: bool
) -> None:
    operation = accept_create(name="a").operation
    cluster.fail("create", STOCK_POOL, Killed(), acts_first=acts_first)
    with pytest.raises(Killed):
        driver.run(operation.id)

    assert driver.run(operation.id) is None
    assert state(operation).phase == "Running", "the lease holds"
    lease_is_over(operation)
    driver.run(operation.id)

    assert state(operation).phase == "Succeeded"
    assert [w for w in cluster.writes if "StockPool" in w] == ["create StockPool a"]


@pytest.mark.parametrize("acts_first", [False, True], ids=["before the call", "after the call"])
@pytest.mark.parametrize(("verb", "ask"), [("patch", "update"), ("delete", "delete")])
def test_after_a_worker_is_killed_at_a_change_another_finishes_it(
    cluster: FakeCluster, acts_first: bool, verb: str, ask: str
) -> None:
    driver.run(accept_create(name="a").operation.id)
    accepted = accept_update("a", replicas=9) if ask == "update" else accept_delete("a")
    cluster.fail(verb, STOCK_POOL, Killed(), acts_first=acts_first)
    with pytest.raises(Killed):
        driver.run(accepted.operation.id)

    lease_is_over(accepted.operation)
    driver.run(accepted.operation.id)

    assert state(accepted.operation).phase == "Succeeded"
    assert len([w for w in cluster.writes if w == f"{verb} StockPool a"]) == 1
    if ask == "update":
        assert cluster.get_pool("a")["spec"]["replicas"] == 9
    else:
        assert cluster.names(STOCK_POOL) == []


def test_a_create_whose_response_was_lost_does_not_conflict_with_itself(
    cluster: FakeCluster,
) -> None:
    operation = accept_create(name="a").operation
    cluster.fail("create", STOCK_POOL, UNREACHABLE, acts_first=True)
    driver.run(operation.id)

    opened()
    is_due(operation)
    driver.run(operation.id)

    assert state(operation).phase == "Succeeded"
    assert state(operation).object_uid == cluster.get_pool("a")["metadata"]["uid"]


def test_an_outcome_after_the_lease_was_lost_is_dropped(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation

    def taken_over(verb: str, kind: object) -> None:
        if verb == "create":
            cluster.on_call = None
            lease_is_over(operation)
            driver.run(operation.id)

    cluster.on_call = taken_over
    driver.run(operation.id)

    ended = state(operation)
    assert ended.phase == "Succeeded"
    assert ended.object_uid == cluster.get_pool("a")["metadata"]["uid"]
    assert StockPool.objects.get().uid == ended.object_uid


def test_ten_consecutive_kills_end_an_operation(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation
    for _ in range(driver.MAX_STARTS):
        cluster.fail("create", STOCK_POOL, Killed())
        with pytest.raises(Killed):
            driver.run(operation.id)
        lease_is_over(operation)

    driver.run(operation.id)

    failed = state(operation)
    assert (failed.phase, failed.error_code, failed.error_retryable) == (
        "Failed",
        "internal_error",
        True,
    )
    assert StockPool.objects.get().deleted_at is not None, "the name is free again"


def test_waits_do_not_count_as_starts_without_outcome(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation
    for _ in range(driver.MAX_STARTS + 2):
        cluster.fail("create", STOCK_POOL, BUSY)
        driver.run(operation.id)
        is_due(operation)

    driver.run(operation.id)

    assert state(operation).phase == "Succeeded"


def test_an_operation_of_an_unknown_kind_is_not_claimed(
    cluster: FakeCluster,
) -> None:
    operation = accept_create(name="a").operation
    Operation.objects.update(kind="stockpool.from-the-future")

    assert driver.run(operation.id) is None

    assert (state(operation).phase, state(operation).starts) == ("Pending", 0)


def test_a_deletion_deletes_only_the_object_that_the_create_created(
    cluster: FakeCluster,
) -> None:
    driver.run(accept_create(name="a").operation.id)
    cluster.remove(STOCK_POOL, "a", namespace="runtime-pools")
    other = cluster.put(STOCK_POOL, pool_resource("a"))
    deletion = accept_delete("a").operation

    driver.run(deletion.id)

    assert state(deletion).phase == "Succeeded"
    assert cluster.get_pool("a")["metadata"]["uid"] == other["metadata"]["uid"]


def test_a_change_of_a_deleted_object_fails_with_not_found(cluster: FakeCluster) -> None:
    driver.run(accept_create(name="a").operation.id)
    change = accept_update("a", replicas=1).operation
    cluster.remove(STOCK_POOL, "a", namespace="runtime-pools")

    driver.run(change.id)

    assert (state(change).phase, state(change).error_code) == ("Failed", "not_found")


def test_a_change_is_not_lost_to_a_concurrent_edit(
    cluster: FakeCluster,
) -> None:
    driver.run(accept_create(name="a").operation.id)
    change = accept_update("a", replicas=5).operation

    def edit(verb: str, kind: object) -> None:
        if verb == "patch":
            cluster.on_call = None
            pool = cluster.get_pool("a")
            pool["spec"]["image"] = "by-hand:1"
            cluster.put(STOCK_POOL, pool)

    cluster.on_call = edit
    driver.run(change.id)
    assert state(change).phase == "Pending"
    is_due(change)
    driver.run(change.id)

    spec = cluster.get_pool("a")["spec"]
    assert (spec["image"], spec["replicas"]) == ("by-hand:1", 5)


def test_a_change_removes_a_template(cluster: FakeCluster) -> None:
    template = {"envs": [{"name": "A", "value": "1"}], "args": ["x"]}
    driver.run(accept_create(name="a", template=template).operation.id)

    driver.run(accept_update("a", template={"args": ["y"]}).operation.id)
    assert cluster.get_pool("a")["spec"]["template"] == {"args": ["y"]}
    driver.run(accept_update("a", template={}).operation.id)

    assert "template" not in cluster.get_pool("a")["spec"]


def test_a_create_waits_for_the_deletion_of_a_leftover(cluster: FakeCluster) -> None:
    earlier = accept_create(name="a").operation
    driver.run(earlier.id)
    driver.run(accept_delete("a").operation.id)
    StockPool.objects.update(deleted_at=Now())
    late = pool_resource("a")
    late["metadata"]["annotations"] = {
        TENANT_ANNOTATION: "default",
        OPERATION_ID_ANNOTATION: earlier.operation_id,
    }
    late["metadata"]["managedFields"] = WRITTEN_BY_PLATFORM
    cluster.put(STOCK_POOL, late)
    operation = accept_create(name="a").operation

    driver.run(operation.id)

    assert (state(operation).phase, state(operation).reason) == ("Pending", "LeftoverConflict")
    cluster.remove(STOCK_POOL, "a", namespace="runtime-pools")
    is_due(operation)
    driver.run(operation.id)
    assert state(operation).phase == "Succeeded"


def test_nothing_is_claimed_while_recovery_is_needed(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation
    ClusterState.objects.filter(id=cluster_state().id).update(recovery_reason="another database")

    assert driver.run(operation.id) is None

    assert cluster.writes == []
    assert state(operation).phase == "Pending"


@pytest.mark.parametrize("ask", ["update", "delete"])
def test_a_stale_read_without_the_pool_does_not_count_as_its_deletion(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    driver.run(accept_create(name="a").operation.id)
    accepted = accept_update("a", replicas=9) if ask == "update" else accept_delete("a")
    with monkeypatch.context() as old:
        old.setattr(cluster, "get", lambda *_, **__: None)
        driver.run(accepted.operation.id)

    assert state(accepted.operation).reason == "Conflict"
    assert state(accepted.operation).ended_at is None

    is_due(accepted.operation)
    driver.run(accepted.operation.id)

    assert state(accepted.operation).phase == OperationPhase.SUCCEEDED
