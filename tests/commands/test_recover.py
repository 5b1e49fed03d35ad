"""`recover` imports the cluster into the database while no process runs, and sets a new epoch."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from pytest_django import Settings

from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import STOCK_POOL, Manifest
from gpuplatform.locks import Lock
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import (
    HASH_VERSION_ANNOTATION,
    OPERATION_ID_ANNOTATION,
    REQUEST_HASH_ANNOTATION,
    TENANT_ANNOTATION,
)
from gpuplatform.reconciliation import driver as reconciliation
from gpuplatform.reconciliation import epoch
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.heartbeats import Part, report_heartbeat
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import NodeDrain, StockPool
from inventory.reconcile import POOLS
from inventory.requests.drains import NodeDrainBody
from inventory.services.drains import node_drain
from inventory.tasks import reconcile_all
from tests.commands.conftest import Hold
from tests.factories.inventory import accept_create, create_body, pool_resource
from tests.factories.node_rows import node_row
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db


def recover(*arguments: str) -> str:
    output = StringIO()
    call_command("recover", *arguments, stdout=output)
    return output.getvalue()


def lose_the_database() -> None:
    StockPool.objects.all().delete()
    Operation.objects.all().delete()
    ClusterState.objects.all().delete()


def made(**changes: Any) -> dict[str, Any]:
    """Create a pool and return the body of its request."""
    body = create_body(**changes)
    driver.run(accept_create(**body).operation.id)
    return body


def marked(**marks: str) -> Manifest:
    """Return a pool with these annotations."""
    full = {
        TENANT_ANNOTATION: "default",
        OPERATION_ID_ANNOTATION: "op-x",
        REQUEST_HASH_ANNOTATION: "0" * 64,
        HASH_VERSION_ANNOTATION: "1",
    }
    return pool_resource("marked", metadata={"annotations": {**full, **marks}})


@pytest.mark.parametrize("part", Part)
def test_it_rejects_while_any_part_runs(cluster: FakeCluster, part: Part) -> None:
    report_heartbeat(part)

    with pytest.raises(CommandError, match=str(part)):
        recover()


def test_it_waits_for_another_recovery(cluster: FakeCluster, hold: Hold) -> None:
    made(name="a")
    lose_the_database()

    with hold(Lock.RECOVERY, recover):
        assert not StockPool.objects.exists()
        assert epoch.compare(cluster)

    assert StockPool.objects.exists()
    assert not epoch.compare(cluster)


def test_a_lost_database_is_rebuilt_and_a_replay_returns_the_same_response(
    cluster: FakeCluster,
) -> None:
    body = made(name="a", memory="16Gi")
    made(name="b")
    uid = cluster.get_pool("a")["metadata"]["uid"]
    lose_the_database()
    assert epoch.compare(cluster)

    recover()

    assert epoch.compare(cluster) == ""
    assert set(StockPool.objects.values_list("name", flat=True)) == {"a", "b"}
    replay = accept_create(**{**body, "memory": "16384Mi"})
    assert replay.is_replay
    assert (replay.operation.phase, replay.operation.object_uid) == ("Succeeded", uid)
    assert StockPool.objects.get(name="a").operation == replay.operation


def test_a_dry_run_prints_the_actions_and_changes_nothing(cluster: FakeCluster) -> None:
    made(name="a")
    lose_the_database()
    cluster.writes.clear()

    output = recover("--dry-run")

    assert "runtime-pools/a" in output
    assert "Nothing was changed." in output
    assert not Operation.objects.exists()
    assert not StockPool.objects.exists()
    assert cluster.writes == []


def test_a_dry_run_is_possible_while_processes_run(cluster: FakeCluster) -> None:
    report_heartbeat(Part.BEAT)

    assert "Nothing was changed." in recover("--dry-run")


def test_pools_created_by_hand_are_imported_and_reported(cluster: FakeCluster) -> None:
    cluster.put(STOCK_POOL, pool_resource("by-hand"))

    assert "by-hand: not created by an operation" in recover()

    assert StockPool.objects.get().operation is None
    assert cluster.names(STOCK_POOL) == ["by-hand"]


def test_drains_end_because_they_may_have_been_cancelled_since(cluster: FakeCluster) -> None:
    node_row("gpu-node-1")
    body = NodeDrainBody.parse({"operationID": "drain"})
    node_drain(tenant=tenant_by_name(), name="gpu-node-1", body=body)

    assert "gpu-node-1" in recover("--dry-run")
    assert NodeDrain.objects.exists()
    recover()

    assert not NodeDrain.objects.exists()


def test_a_second_run_changes_nothing_more(cluster: FakeCluster) -> None:
    made(name="a")
    lose_the_database()
    recover()

    recover()

    assert Operation.objects.count() == StockPool.objects.count() == 1


def test_a_pool_that_the_cluster_does_not_have_is_closed_by_the_next_pass(
    cluster: FakeCluster,
) -> None:
    made(name="a")
    cluster.remove(STOCK_POOL, "a", namespace="runtime-pools")

    assert "runtime-pools/a: not in the cluster" in recover()
    reconciliation.run(POOLS, StockPool.objects.get().id)

    assert StockPool.objects.get().deleted_at is not None


def test_a_new_cluster_with_lower_versions_is_imported(
    cluster: FakeCluster,
) -> None:
    """Resource versions of another cluster cannot be compared with the versions in the rows."""
    made(name="a")
    made(name="b")
    StockPool.objects.update(resource_version=1_000_000, phase="Ready")
    kept = StockPool.objects.get(name="b")
    cluster.remove(STOCK_POOL, "a", namespace="runtime-pools")
    recover()

    for row in StockPool.objects.filter(due_at__isnull=False):
        reconciliation.run(POOLS, row.id)

    assert StockPool.objects.get(name="a").deleted_at is not None
    kept.refresh_from_db()
    assert kept.resource_version < 1_000_000
    assert kept.phase == "Progressing"


def test_a_pool_that_a_restored_cluster_brings_back_counts_again(cluster: FakeCluster) -> None:
    made(name="a")
    backed_up = cluster.get_pool("a")
    cluster.remove(STOCK_POOL, "a", namespace="runtime-pools")
    StockPool.objects.update(due_at=Now())
    reconciliation.run(POOLS, StockPool.objects.get().id)
    assert StockPool.objects.get().deleted_at is not None
    cluster.put(STOCK_POOL, backed_up)

    assert "runtime-pools/a: its row was closed; it is opened again" in recover()

    row = StockPool.objects.get()
    assert (row.deleted_at, row.deletion_requested_at) == (None, None)
    assert row.resource_version > 0


def test_a_restored_pool_waits_for_an_open_create_of_its_name(
    cluster: FakeCluster,
) -> None:
    made(name="a")
    backed_up = cluster.get_pool("a")
    StockPool.objects.update(deleted_at=Now())
    accept_create(**create_body(name="a"))
    cluster.put(STOCK_POOL, backed_up)

    assert "runtime-pools/a: an open operation uses its name" in recover()

    assert StockPool.objects.filter(deleted_at=None).get().uid == ""


def test_a_cluster_that_cannot_be_read_decides_nothing(cluster: FakeCluster) -> None:
    made(name="a")
    lose_the_database()
    cluster.fail("list", STOCK_POOL, ClusterUnavailable("connection refused"))

    with pytest.raises(CommandError, match="connection refused"):
        recover()

    assert not StockPool.objects.exists()
    assert not cluster_state().epoch_is_established


@pytest.mark.parametrize(
    "marks",
    [
        {OPERATION_ID_ANNOTATION: "x" * 5000},
        {OPERATION_ID_ANNOTATION: "a b\n"},
        {TENANT_ANNOTATION: "x" * 200},
        {REQUEST_HASH_ANNOTATION: "x" * 5000},
        {HASH_VERSION_ANNOTATION: "9" * 40},
        {HASH_VERSION_ANNOTATION: "70000"},
        {HASH_VERSION_ANNOTATION: "x"},
    ],
    ids=lambda marks: str(marks)[22:60],
)
def test_invalid_annotations_do_not_stop_it(cluster: FakeCluster, marks: dict[str, str]) -> None:
    made(name="a")
    cluster.put(STOCK_POOL, marked(**marks))
    lose_the_database()

    recover()

    assert "a" in StockPool.objects.values_list("name", flat=True)
    assert epoch.compare(cluster) == ""


def test_a_replay_of_a_request_hashed_by_another_release_is_a_conflict_and_no_crash(
    cluster: FakeCluster,
) -> None:
    cluster.put(STOCK_POOL, marked(**{HASH_VERSION_ANNOTATION: "7"}))
    recover()

    with pytest.raises(Exception, match="operationID") as caught:
        accept_create(name="marked", operationID="op-x")

    assert type(caught.value).__name__ == "OperationConflict"


def test_open_operations_of_the_backup_find_the_objects_that_they_created(
    cluster: FakeCluster,
) -> None:
    body = made(name="a")
    Operation.objects.update(phase="Pending", due_at=Now(), ended_at=None, object_uid="")
    StockPool.objects.update(uid="", resource_version=0)
    recover()

    driver.run(Operation.objects.get().id)

    assert Operation.objects.get().phase == "Succeeded"
    assert StockPool.objects.get().uid == cluster.get_pool("a")["metadata"]["uid"]
    assert accept_create(**body).is_replay


def test_it_reports_a_missing_cluster(settings: Settings) -> None:
    settings.KUBE_MODE = "off"

    with pytest.raises(CommandError, match="KUBE_MODE"):
        recover()


def test_after_it_everything_is_compared_and_works(cluster: FakeCluster, broker: object) -> None:
    made(name="a")
    lose_the_database()
    recover()

    reconcile_all()
    for _ in range(5):
        StockPool.objects.update(due_at=Now())
        reconciliation.run(POOLS, StockPool.objects.get().id)
        cluster.settle()

    assert StockPool.objects.get().phase == "Ready"
