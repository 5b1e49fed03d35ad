"""The Events that the driver tells, beside its work and never in its way."""

import threading
from collections.abc import Iterator

import pytest

from gpuplatform.errors import ClusterError, ClusterForbidden, ClusterUnavailable
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
    """No other test's outage keeps Events back, and none is left for the next test."""
    monkeypatch.setattr(event_writer._Silence, "until", 0.0)
    yield
    event_writer.finish(FINISH_SECONDS)


@pytest.fixture
def row(cluster: FakeCluster) -> StockPool:
    """A pool that is ready."""
    operations.run(accept_create(name="a").operation.id)
    made = StockPool.objects.get()
    return passes(cluster, made)


def passes(cluster: FakeCluster, row: StockPool, pods: Manifest | None = None) -> StockPool:
    """Run passes as a sweep would, with the cluster's controllers in between."""
    for _ in range(4):
        mark_due(StockPool.objects.filter(pk=row.pk))
        driver.run(POOLS, row.id)
        cluster.settle(pods)
    row.refresh_from_db()
    return row


def told(cluster: FakeCluster) -> dict[str, int]:
    """Return each thing that was told, with how often."""
    event_writer.finish(FINISH_SECONDS)
    found = cluster.list(EVENT, namespace="default").items
    return {f"{e['type']} {e['reason']}: {e['message']}": e["count"] for e in found}


READY = "Normal DeploymentReady: 2 of 2 pods are available."


def test_a_pool_that_becomes_ready_says_so_once(cluster: FakeCluster, row: StockPool) -> None:
    passes(cluster, row)

    assert told(cluster) == {READY: 1}
    [event] = cluster.list(EVENT).items
    assert event["involvedObject"]["uid"] == row.uid


def test_a_failure_is_told_with_its_cause_and_healing_is_counted_up(
    cluster: FakeCluster, row: StockPool
) -> None:
    cluster.settle(BROKEN)
    passes(cluster, row, BROKEN)
    failed = told(cluster)

    passes(cluster, row)

    [warning] = [words for words in failed if words.startswith("Warning PodStartupFailed")]
    assert "nowhere/x:1: not found" in warning
    assert told(cluster) == {READY: 2, warning: 1}


def test_scaling_is_told(cluster: FakeCluster, row: StockPool) -> None:
    cluster.put(STOCK_POOL, {**cluster.get_pool("a"), "spec": {"specName": "g1.1", "replicas": 0}})
    passes(cluster, row)

    assert told(cluster) == {
        READY: 1,
        "Normal Scaled: Scaled from 2 to 0 pods.": 1,
        "Normal ScaledToZero: The pool is scaled to zero.": 1,
    }


def test_a_scaling_that_is_refused_is_not_told(cluster: FakeCluster, row: StockPool) -> None:
    cluster.put(STOCK_POOL, {**cluster.get_pool("a"), "spec": {"specName": "g1.1", "replicas": 0}})
    cluster.fail("apply", DEPLOYMENT, ClusterForbidden("no such right", status=403))
    mark_due(StockPool.objects.all())
    driver.run(POOLS, row.id)

    [failed] = told(cluster).keys() - {READY}

    assert failed.startswith("Warning DeploymentSyncFailed")
    assert "no such right" in failed


def test_a_pool_that_is_gone_says_so(cluster: FakeCluster, row: StockPool) -> None:
    operations.run(accept_delete("a").operation.id)
    driver.run(POOLS, row.id)

    assert told(cluster) == {READY: 1, "Normal Removed: The stock pool is gone.": 1}


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

    assert (row.phase, row.failures, told(cluster)) == ("Ready", 0, {})


def test_an_event_that_hangs_delays_nothing(
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
    assert told(cluster) == {READY: 1}


def test_a_cluster_that_is_away_is_not_asked_again_and_again(
    cluster: FakeCluster, row: StockPool
) -> None:
    told(cluster)
    cluster.fail("create", EVENT, ClusterUnavailable("refused"))
    operations.run(accept_create(name="b", replicas=0).operation.id)
    passes(cluster, StockPool.objects.get(name="b"))

    operations.run(accept_delete("a").operation.id)
    driver.run(POOLS, row.id)

    assert told(cluster) == {READY: 1}, "what came after the failure was not tried"
