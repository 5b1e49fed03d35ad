"""The driver writes Events asynchronously, so that they do not delay its work."""

import threading
from collections.abc import Iterator

import pytest

from gpuplatform.kube.errors import ClusterError, ClusterForbidden, ClusterUnavailable
from gpuplatform.kube.kinds import DEPLOYMENT, EVENT, STOCK_POOL, Manifest
from gpuplatform.operations import driver as operations
from gpuplatform.reconciliation import driver, event_writer
from gpuplatform.reconciliation.leases import mark_due
from inventory.models import StockPool
from inventory.reconcile import POOLS
from tests.factories.inventory import accept_create, accept_delete
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db

FINISH_SECONDS = 10
WAITING = {"reason": "ErrImagePull", "message": "nowhere/x:1: not found"}
BROKEN = {"containerStatuses": [{"name": "c", "state": {"waiting": WAITING}}]}


@pytest.fixture(autouse=True)
def _speaking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Outages of other tests do not delay Events, and no pending Event remains."""
    monkeypatch.setattr(event_writer._Pause, "until", 0.0)
    yield
    event_writer.finish(FINISH_SECONDS)


@pytest.fixture
def row(cluster: FakeCluster) -> StockPool:
    """A ready pool."""
    operations.run(accept_create(name="a").operation.id)
    made = StockPool.objects.get()
    return passes(cluster, made)


def passes(cluster: FakeCluster, row: StockPool, pods: Manifest | None = None) -> StockPool:
    """Reconcile repeatedly as a sweep does, with the controllers of the cluster in between."""
    for _ in range(4):
        mark_due(StockPool.objects.filter(pk=row.pk))
        driver.run(POOLS, row.id)
        cluster.settle(pods)
    row.refresh_from_db()
    return row


def written(cluster: FakeCluster) -> dict[str, int]:
    """Return type and reason of each Event, with its count."""
    return {f"{one['type']} {one['reason']}": one["count"] for one in events(cluster)}


def events(cluster: FakeCluster) -> list[Manifest]:
    event_writer.finish(FINISH_SECONDS)
    return cluster.list(EVENT, namespace="runtime-pools").items


def message_of(cluster: FakeCluster, reason: str) -> str:
    [message] = [one["message"] for one in events(cluster) if one["reason"] == reason]
    return str(message)


READY = "Normal DeploymentReady"


def test_a_pool_that_becomes_ready_has_one_event(cluster: FakeCluster, row: StockPool) -> None:
    passes(cluster, row)

    assert written(cluster) == {READY: 1}
    [event] = cluster.list(EVENT).items
    assert event["involvedObject"]["uid"] == row.uid


def test_a_failure_has_an_event_and_a_recovery_increases_the_count(
    cluster: FakeCluster, row: StockPool
) -> None:
    cluster.settle(BROKEN)
    passes(cluster, row, BROKEN)

    passes(cluster, row)

    assert "nowhere/x:1: not found" in message_of(cluster, "PodStartupFailed")
    assert written(cluster) == {READY: 2, "Warning PodStartupFailed": 1}


def test_scaling_has_an_event(cluster: FakeCluster, row: StockPool) -> None:
    cluster.put(STOCK_POOL, {**cluster.get_pool("a"), "spec": {"specName": "g1.1", "replicas": 0}})
    passes(cluster, row)

    assert written(cluster) == {
        READY: 1,
        "Normal Scaled": 1,
        "Normal ScaledToZero": 1,
    }


def test_a_rejected_scaling_has_no_event(cluster: FakeCluster, row: StockPool) -> None:
    cluster.put(STOCK_POOL, {**cluster.get_pool("a"), "spec": {"specName": "g1.1", "replicas": 0}})
    cluster.fail("apply", DEPLOYMENT, ClusterForbidden("no such right", status=403))
    mark_due(StockPool.objects.all())
    driver.run(POOLS, row.id)

    assert written(cluster) == {READY: 1, "Warning DeploymentSyncFailed": 1}
    assert "no such right" in message_of(cluster, "DeploymentSyncFailed")


def test_a_deleted_pool_has_an_event(cluster: FakeCluster, row: StockPool) -> None:
    operations.run(accept_delete("a").operation.id)
    driver.run(POOLS, row.id)

    assert written(cluster) == {READY: 1, "Normal Deleted": 1}


@pytest.mark.parametrize(
    "error",
    [ClusterForbidden("events is forbidden", status=403), ClusterUnavailable("refused")],
    ids=["refused", "away"],
)
def test_an_event_that_cannot_be_written_fails_nothing(
    cluster: FakeCluster, error: ClusterError
) -> None:
    operations.run(accept_create(name="a").operation.id)
    cluster.fail("create", EVENT, error, times=100)

    row = passes(cluster, StockPool.objects.get())

    assert (row.phase, row.failures, written(cluster)) == ("Ready", 0, {})


def test_a_hanging_event_delays_nothing(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    create = cluster.create

    def hanging(kind: object, manifest: Manifest) -> Manifest:
        if kind == EVENT:
            released.wait(FINISH_SECONDS)
        return create(kind, manifest)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(cluster, "create", hanging)
    operations.run(accept_create(name="a").operation.id)

    row = passes(cluster, StockPool.objects.get())

    assert row.phase == "Ready"
    assert cluster.list(EVENT).items == []
    released.set()
    assert written(cluster) == {READY: 1}


def test_an_unavailable_cluster_gets_no_more_events(cluster: FakeCluster, row: StockPool) -> None:
    written(cluster)
    cluster.fail("create", EVENT, ClusterUnavailable("refused"))
    operations.run(accept_create(name="b", replicas=0).operation.id)
    passes(cluster, StockPool.objects.get(name="b"))

    operations.run(accept_delete("a").operation.id)
    driver.run(POOLS, row.id)

    assert written(cluster) == {READY: 1}, "what came after the failure was not tried"
