"""The five steps for a pool: claim, observe, plan, apply, record; and their failures."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.kube.errors import (
    ClusterConflict,
    ClusterError,
    ClusterForbidden,
    ClusterRejected,
    ClusterUnavailable,
)
from gpuplatform.kube.kinds import DEPLOYMENT, POD, SERVICE, STOCK_POOL, ResourceKind
from gpuplatform.operations import driver as operations
from gpuplatform.reconciliation import driver
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.leases import mark_due
from gpuplatform.reconciliation.models import ClusterState
from inventory.mirror import POOL_MIRROR
from inventory.models import StockPool
from inventory.reconcile import POOLS
from tests.factories.inventory import HTTP_PORT, accept_create, accept_delete, pool_resource
from tests.fakes.cluster import FakeCluster, Killed

pytestmark = pytest.mark.django_db

AWAY = ClusterUnavailable("connection refused")
FORBIDDEN = ClusterForbidden("pods is forbidden: exceeded quota", status=403)


def made(cluster: FakeCluster, name: str = "a", **spec: Any) -> StockPool:
    """Create a pool through the service and the operations worker."""
    operations.run(accept_create(name=name, **spec).operation.id)
    return StockPool.objects.get(name=name)


def passes(cluster: FakeCluster, row: StockPool, rounds: int = 6) -> StockPool:
    """Reconcile repeatedly as a sweep does, with the controllers of the cluster in between."""
    for _ in range(rounds):
        mark_due(StockPool.objects.filter(pk=row.pk))
        driver.run(POOLS, row.id)
        cluster.settle()
    row.refresh_from_db()
    return row


def lease_is_over() -> None:
    StockPool.objects.update(lease_expires_at=Now() - timedelta(seconds=1))


def test_a_ready_pool_costs_no_write(cluster: FakeCluster) -> None:
    row = passes(cluster, made(cluster, template={"ports": [HTTP_PORT]}))

    assert (row.phase, row.reason, row.available_replicas) == ("Ready", "DeploymentReady", 2)
    assert row.service_name == "pool-a"
    assert row.observed_generation == row.generation
    assert cluster.names(POD) == ["pool-a-0", "pool-a-1"]
    cluster.writes.clear()
    passes(cluster, row, rounds=3)
    assert cluster.writes == []


def test_a_settled_row_is_not_due(cluster: FakeCluster) -> None:
    row = passes(cluster, made(cluster))
    mark_due(StockPool.objects.filter(pk=row.pk))

    assert driver.run(POOLS, row.id) is None

    row.refresh_from_db()
    assert (row.due_at, row.lease_token, row.failures) == (None, None, 0)


def test_a_pool_whose_pods_cannot_start_fails_and_recovers(
    cluster: FakeCluster,
) -> None:
    row = made(cluster)
    driver.run(POOLS, row.id)
    waiting = {"reason": "ErrImagePull", "message": "nowhere/x:1: not found"}
    cluster.settle({"containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]})
    mark_due(StockPool.objects.all())
    driver.run(POOLS, row.id)
    row.refresh_from_db()
    assert (row.phase, row.reason) == ("Failed", "PodStartupFailed")
    assert "nowhere/x:1: not found" in row.message

    cluster.settle()

    assert passes(cluster, row).phase == "Ready"


def test_a_pull_that_fails_once_is_never_shown_as_failed(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = made(cluster)
    driver.run(POOLS, row.id)
    begun = clock.now()
    waiting = {"reason": "ErrImagePull", "message": "registry: connection reset"}
    status = {
        "startTime": clock.rfc3339(begun),
        "containerStatuses": [{"name": "c", "state": {"waiting": waiting}}],
    }
    phases = []

    for seconds in (0, 5, 10, 15, 25):
        monkeypatch.setattr(clock, "now", lambda at=seconds: begun + timedelta(seconds=at))
        cluster.settle(status)
        mark_due(StockPool.objects.all())
        driver.run(POOLS, row.id)
        row.refresh_from_db()
        phases.append(row.phase)

    assert phases == ["Progressing"] * 4 + ["Failed"]
    assert "registry: connection reset" in row.message


def test_a_deleted_object_is_created_again(cluster: FakeCluster) -> None:
    row = passes(cluster, made(cluster, template={"ports": [HTTP_PORT]}))
    cluster.remove(DEPLOYMENT, "pool-a", namespace="runtime-pools")
    cluster.remove(SERVICE, "pool-a", namespace="runtime-pools")

    row = passes(cluster, row)

    assert cluster.names(DEPLOYMENT) == cluster.names(SERVICE) == ["pool-a"]
    assert row.phase == "Ready"


def test_a_foreign_deployment_is_never_changed(
    cluster: FakeCluster,
) -> None:
    foreign = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "pool-a", "namespace": "runtime-pools"},
        "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "theirs"}}}},
    }
    cluster.put(DEPLOYMENT, foreign)
    row = made(cluster)
    for _ in range(3):
        mark_due(StockPool.objects.all())
        driver.run(POOLS, row.id)
    before = cluster.get(DEPLOYMENT, "pool-a", namespace="runtime-pools")
    row.refresh_from_db()
    assert (row.phase, row.reason) == ("Failed", "NameConflict")

    operations.run(accept_delete("a").operation.id)
    driver.run(POOLS, row.id)

    assert cluster.get(DEPLOYMENT, "pool-a", namespace="runtime-pools") == before
    assert cluster.names(STOCK_POOL) == []


def test_a_deleted_pool_closes_its_row(cluster: FakeCluster) -> None:
    row = passes(cluster, made(cluster))
    operations.run(accept_delete("a").operation.id)

    driver.run(POOLS, row.id)

    row.refresh_from_db()
    assert row.deleted_at is not None
    assert row.phase == "Terminating"
    assert cluster.names(DEPLOYMENT) == []


def test_a_successor_of_the_name_gets_its_row(
    cluster: FakeCluster,
) -> None:
    row = made(cluster)
    cluster.remove(STOCK_POOL, "a", namespace="runtime-pools")
    other = cluster.put(STOCK_POOL, pool_resource("a"))
    mark_due(StockPool.objects.all())

    driver.run(POOLS, row.id)

    live = StockPool.objects.get(deleted_at__isnull=True)
    assert live.uid == other["metadata"]["uid"]
    assert StockPool.objects.count() == 2


@pytest.mark.parametrize("kind", [DEPLOYMENT, SERVICE])
@pytest.mark.parametrize("error", [FORBIDDEN, ClusterRejected("quota words", status=422)])
def test_a_rejected_object_is_reported_with_the_clusters_message(
    cluster: FakeCluster, kind: ResourceKind, error: ClusterError
) -> None:
    row = made(cluster, template={"ports": [HTTP_PORT]})
    cluster.fail("apply", kind, error)

    driver.run(POOLS, row.id)

    row.refresh_from_db()
    assert (row.phase, row.reason) == ("Failed", f"{kind.kind}SyncFailed")
    assert str(error) in row.message
    assert row.failures == 1
    assert passes(cluster, row).phase == "Ready"


def test_a_failed_read_deletes_nothing(cluster: FakeCluster) -> None:
    row = passes(cluster, made(cluster, template={"ports": [HTTP_PORT]}))
    cluster.writes.clear()
    cluster.fail("get", SERVICE, FORBIDDEN)
    mark_due(StockPool.objects.all())

    driver.run(POOLS, row.id)

    row.refresh_from_db()
    assert (row.phase, row.reason) == ("Failed", "ServiceSyncFailed")
    assert row.available_replicas == 2
    assert cluster.writes == ["patch StockPool a"]


@pytest.mark.parametrize(
    ("verb", "kind"),
    [("get", STOCK_POOL), ("get", DEPLOYMENT), ("list", POD), ("apply", DEPLOYMENT)],
)
def test_an_unavailable_cluster_changes_no_status_and_closes_the_gate(
    cluster: FakeCluster, verb: str, kind: ResourceKind
) -> None:
    row = made(cluster)
    before = cluster.get_pool("a")
    cluster.fail(verb, kind, AWAY)

    wait = driver.run(POOLS, row.id)

    row.refresh_from_db()
    assert wait is not None
    assert cluster.get_pool("a") == before
    assert (row.phase, row.failures, row.lease_token) == ("Pending", 1, None)
    assert cluster_state().failures == 1
    assert driver.run(POOLS, row.id) is None


@pytest.mark.parametrize(
    "error",
    [
        ClusterConflict("changed", reason="Conflict", status=409),
        ClusterRejected("deleted", reason="NotFound", status=404),
    ],
    ids=["changed", "deleted"],
)
def test_a_conflict_is_retried_soon_and_does_not_count_as_a_failure(
    cluster: FakeCluster, error: ClusterError
) -> None:
    row = made(cluster)
    cluster.fail("patch", STOCK_POOL, error)

    wait = driver.run(POOLS, row.id)

    row.refresh_from_db()
    assert wait is not None
    assert wait < 2
    assert row.failures == 0


@pytest.mark.parametrize("acts_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("verb", "kind"), [("apply", SERVICE), ("apply", DEPLOYMENT), ("patch", STOCK_POOL)]
)
def test_a_worker_killed_at_any_write_is_followed_by_one_that_converges(
    cluster: FakeCluster, verb: str, kind: ResourceKind, acts_first: bool
) -> None:
    row = made(cluster, template={"ports": [HTTP_PORT]})
    cluster.fail(verb, kind, Killed(), acts_first=acts_first)
    with pytest.raises(Killed):
        driver.run(POOLS, row.id)

    assert driver.run(POOLS, row.id) is None, "the lease holds"
    lease_is_over()

    assert passes(cluster, row).phase == "Ready"
    assert cluster.names(DEPLOYMENT) == cluster.names(SERVICE) == ["pool-a"]


def test_a_mark_set_during_a_run_is_not_lost(cluster: FakeCluster) -> None:
    row = passes(cluster, made(cluster))
    mark_due(StockPool.objects.filter(pk=row.pk))

    def mark(verb: str, kind: object) -> None:
        cluster.on_call = None
        mark_due(StockPool.objects.filter(pk=row.pk))

    cluster.on_call = mark

    assert driver.run(POOLS, row.id) == 0

    row.refresh_from_db()
    assert row.due_at is not None
    assert row.lease_token is None


def test_a_record_without_the_lease_is_dropped(cluster: FakeCluster) -> None:
    row = made(cluster)

    def taken_over(verb: str, kind: object) -> None:
        if verb == "patch":
            cluster.on_call = None
            StockPool.objects.update(lease_token="11111111-2222-4333-8444-555555555555")

    cluster.on_call = taken_over
    driver.run(POOLS, row.id)

    row.refresh_from_db()
    assert row.phase == "Pending", "the other worker records"
    assert row.lease_token is not None
    assert row.due_at is not None


def test_a_poison_pool_backs_off_and_delays_no_other(cluster: FakeCluster) -> None:
    poison, sound = made(cluster, "poison"), made(cluster, "sound")
    cluster.fail("get", STOCK_POOL, ZeroDivisionError("a fault of ours"), times=2)
    waits = []
    for _ in range(2):
        waits.append(driver.run(POOLS, poison.id))
        StockPool.objects.filter(pk=poison.pk).update(due_at=Now())

    assert passes(cluster, sound).phase == "Ready"
    poison.refresh_from_db()
    assert poison.failures == 2
    assert waits[0] is not None
    assert waits[1] is not None
    assert waits[1] > waits[0]


def test_a_row_without_a_uid_is_left_to_its_operation(cluster: FakeCluster) -> None:
    accept_create(name="a")
    row = StockPool.objects.get()
    mark_due(StockPool.objects.all())

    assert driver.run(POOLS, row.id) is None

    row.refresh_from_db()
    assert row.lease_token is None


def test_nothing_is_written_while_recovery_is_needed(cluster: FakeCluster) -> None:
    row = made(cluster)
    ClusterState.objects.filter(id=cluster_state().id).update(recovery_reason="another database")
    cluster.writes.clear()

    assert driver.run(POOLS, row.id) is None

    assert cluster.writes == []


def test_an_invalid_pool_of_kubectl_fails_and_is_left_alone(cluster: FakeCluster) -> None:
    found = cluster.put(STOCK_POOL, pool_resource("a", memory="lots"))
    number = POOL_MIRROR.observed(found)
    assert number is not None

    driver.run(POOLS, number)

    row = StockPool.objects.get()
    assert (row.phase, row.reason) == ("Failed", "InvalidSpec")
    assert "spec.memory" in row.message
    assert cluster.names(DEPLOYMENT) == []
