"""The epochs of cluster and database are compared; nothing is written if they differ."""

import threading

import pytest
from django.db import connection
from pytest_django import Settings

from gpuplatform.kube.errors import ClusterForbidden, ClusterUnavailable
from gpuplatform.kube.kinds import CONFIG_MAP, EPOCH_CONFIG_MAP, Manifest
from gpuplatform.operations.services import check_writable
from gpuplatform.process_local import ProcessLocal
from gpuplatform.reconciliation import epoch
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.models import ClusterState
from tests.factories.inventory import accept_create
from tests.fakes.cluster import FakeCluster
from tests.fakes.threads import at_once

pytestmark = pytest.mark.django_db

NAMESPACE = "gpu-platform"


def mark_of(cluster: FakeCluster) -> Manifest:
    found = cluster.get(CONFIG_MAP, EPOCH_CONFIG_MAP, namespace=NAMESPACE)
    assert found is not None
    return found


def change_epoch(cluster: FakeCluster, **data: str) -> None:
    """Change the data of the cluster's epoch."""
    mark = mark_of(cluster)
    cluster.put(CONFIG_MAP, {**mark, "data": {**mark["data"], **data}})


def forget_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as another process."""
    monkeypatch.setattr(epoch, "_COMPARED", ProcessLocal(threading.Event))


def test_the_first_start_writes_the_epoch_into_both(cluster: FakeCluster) -> None:
    assert epoch.compare(cluster) == ""

    state = cluster_state()
    assert state.epoch
    assert state.epoch_is_established
    assert mark_of(cluster)["data"]["epoch"] == state.epoch


def test_comparing_again_writes_nothing(cluster: FakeCluster) -> None:
    epoch.compare(cluster)
    cluster.writes.clear()

    assert epoch.compare(cluster) == ""

    assert cluster.writes == []


def test_a_process_compares_once_and_its_child_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert epoch.matches()
    change_epoch(cluster, epoch="another")
    assert epoch.matches(), "the controller is the one that compares all the time"

    forget_comparison(monkeypatch)

    assert not epoch.matches()


def test_another_database_is_detected_and_writes_nothing(cluster: FakeCluster) -> None:
    epoch.compare(cluster)
    change_epoch(cluster, epoch="another")

    assert "another database" in epoch.compare(cluster)

    assert "another database" in cluster_state().recovery_reason
    assert mark_of(cluster)["data"]["epoch"] == "another"
    assert not epoch.matches()


def test_a_second_platform_does_not_claim_a_cluster(cluster: FakeCluster) -> None:
    epoch.compare(cluster)
    theirs = mark_of(cluster)["data"]
    ClusterState.objects.all().delete()

    assert epoch.compare(cluster)

    assert mark_of(cluster)["data"] == theirs


def test_a_restored_database_is_detected_by_its_operations(cluster: FakeCluster) -> None:
    epoch.compare(cluster)
    change_epoch(cluster, operations=str(epoch.newest_operation() + 1))

    assert "restored" in epoch.compare(cluster)


def test_a_database_ahead_of_the_cluster_matches(cluster: FakeCluster) -> None:
    epoch.compare(cluster)
    accept_create()

    assert epoch.compare(cluster) == ""


def test_the_newest_operation_is_stored_once(cluster: FakeCluster) -> None:
    epoch.compare(cluster)
    accept_create()
    epoch.advance(cluster)
    assert mark_of(cluster)["data"]["operations"] == str(epoch.newest_operation())
    cluster.writes.clear()

    epoch.advance(cluster)

    assert cluster.writes == []


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 5000])
def test_a_malformed_operation_id_is_ignored(cluster: FakeCluster, text: str) -> None:
    epoch.compare(cluster)
    change_epoch(cluster, operations=text)

    epoch.compare(cluster)
    epoch.advance(cluster)


def test_a_deleted_epoch_requires_recovery(cluster: FakeCluster) -> None:
    epoch.compare(cluster)
    cluster.remove(CONFIG_MAP, EPOCH_CONFIG_MAP, namespace=NAMESPACE)

    assert epoch.compare(cluster)

    assert cluster.names(CONFIG_MAP) == []


@pytest.mark.parametrize(
    ("is_dev", "command"), [(True, "'make recover'"), (False, "'manage.py recover'")]
)
def test_the_log_names_the_command_of_the_installation(
    cluster: FakeCluster,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
    is_dev: bool,
    command: str,
) -> None:
    settings.GPUPLATFORM_DEV = is_dev
    epoch.compare(cluster)
    cluster.remove(CONFIG_MAP, EPOCH_CONFIG_MAP, namespace=NAMESPACE)

    epoch.compare(cluster)

    [record] = [one for one in caplog.records if one.levelname == "ERROR"]
    assert command in record.getMessage()


def test_a_difference_that_disappears_is_cleared(cluster: FakeCluster) -> None:
    epoch.compare(cluster)
    right = cluster_state().epoch
    change_epoch(cluster, epoch="another")
    epoch.compare(cluster)

    change_epoch(cluster, epoch=right)

    assert epoch.compare(cluster) == ""
    assert cluster_state().recovery_reason == ""


def test_a_cluster_that_does_not_answer_is_neither_fault_nor_match(cluster: FakeCluster) -> None:
    cluster.fail("get", CONFIG_MAP, ClusterUnavailable("connection refused"))

    assert not epoch.matches()

    assert cluster_state().recovery_reason == ""
    assert cluster_state().failures == 1
    check_writable()


def test_a_cluster_that_forbids_reading_is_not_a_match(cluster: FakeCluster) -> None:
    cluster.fail("get", CONFIG_MAP, ClusterForbidden("no rights", status=403))

    assert not epoch.matches()

    assert cluster_state().recovery_reason == ""


def test_a_lost_response_at_the_first_start_is_not_a_fault(cluster: FakeCluster) -> None:
    lost = ClusterUnavailable("connection reset")
    cluster.fail("create", CONFIG_MAP, lost, acts_first=True)
    with pytest.raises(ClusterUnavailable):
        epoch.compare(cluster)

    assert epoch.compare(cluster) == ""


def test_a_renewed_epoch_matches_and_ids_continue_after_the_clusters(cluster: FakeCluster) -> None:
    epoch.compare(cluster)
    ahead = epoch.newest_operation() + 1000
    change_epoch(cluster, epoch="another", operations=str(ahead))
    epoch.compare(cluster)

    epoch.renew(cluster)

    assert epoch.compare(cluster) == ""
    assert accept_create().operation.id > ahead


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_concurrent_processes_of_one_database_agree(cluster: FakeCluster) -> None:
    results = at_once([lambda: epoch.compare(cluster)] * 8)

    assert results == [""] * 8
    assert mark_of(cluster)["data"]["epoch"] == cluster_state().epoch


def test_no_transaction_is_open_during_a_cluster_call(
    cluster: FakeCluster, django_capture_on_commit_callbacks: object
) -> None:
    depths: list[int] = []
    outer = len(connection.savepoint_ids)
    cluster.on_call = lambda verb, kind: depths.append(len(connection.savepoint_ids) - outer)

    epoch.compare(cluster)

    assert set(depths) == {0}
