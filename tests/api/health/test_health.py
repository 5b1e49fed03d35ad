"""Health: always a quick 200; `ready` if all parts are healthy; unknown counts are null."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from pytest_django import Settings

from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.health import HealthCode
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.observability.readiness import Unready
from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.heartbeats import Part, delete_heartbeat, report_heartbeat
from gpuplatform.reconciliation.models import ClusterState, ProcessHeartbeat
from tests.factories.inventory import accept_create, create_body, pool_row
from tests.fakes.api import POOLS, Answer, Api
from tests.fakes.broken import broker_away
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import Broker
from tests.fakes.queue_server import QueueServer

HEALTH = "/api/v1/health"

COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)
"""Health reads in other threads, which read only committed rows."""


@contextmanager
def database_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Configure an unused port for new connections to the database."""
    with monkeypatch.context() as patch:
        connection.close()
        patch.setitem(connection.settings_dict, "PORT", str(free_port()))
        yield
        connection.close()


@contextmanager
def database_read_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Configure new sessions as read-only, as a standby server does after a fail-over."""
    with monkeypatch.context() as patch:
        connection.close()
        options = dict(connection.settings_dict["OPTIONS"])
        options["options"] = f"{options.get('options', '')} -c default_transaction_read_only=on"
        patch.setitem(connection.settings_dict, "OPTIONS", options)
        yield
        connection.close()


def everything_lives() -> None:
    for part in Part:
        report_heartbeat(part)


def codes(document: dict[str, Any]) -> dict[str, HealthCode]:
    """Return the code of each part that is not healthy."""
    return {
        name: HealthCode(part["code"])
        for name, part in document["parts"].items()
        if part["code"] != HealthCode.HEALTHY
    }


def asked(api: Api) -> Answer:
    """Request the health document, which must arrive in time."""
    started = time.monotonic()
    answer = api.get(HEALTH)

    assert answer.status == 200
    assert time.monotonic() - started < 5, "2 s, and a slow machine"
    return answer


@COMMITTING
def test_ready_exactly_when_every_part_works(
    api: Api, cluster: FakeCluster, broker: Broker, queue_server: QueueServer
) -> None:
    everything_lives()
    assert asked(api).data["ready"] is True

    for part in Part:
        delete_heartbeat(part)
        found = asked(api).data
        assert found["ready"] is False
        assert codes(found)[part] is HealthCode.NOT_RUNNING
        report_heartbeat(part)

    queue_server.kill()
    found = asked(api).data
    assert found["ready"] is False
    assert codes(found)["queue"] is HealthCode.UNREACHABLE


@COMMITTING
def test_without_a_queue_the_processes_of_functions_are_off(
    api: Api, cluster: FakeCluster, broker: Broker
) -> None:
    everything_lives()
    delete_heartbeat(Part.ACTIVATOR)
    delete_heartbeat(Part.RESULTS)

    found = asked(api).data

    assert found["ready"] is True
    assert codes(found) == dict.fromkeys(("queue", "activator", "results"), HealthCode.OFF)


@COMMITTING
def test_the_document_has_the_published_fields(
    api: Api, cluster: FakeCluster, broker: Broker
) -> None:
    pool_row()
    accept_create()
    ClusterState.objects.filter(id=cluster_state().id).update(node_count=3, ready_node_count=2)

    found = asked(api).data

    assert (found["nodeCount"], found["readyNodeCount"], found["stockPoolCount"]) == (3, 2, 2)
    assert (found["pendingOperations"], found["stockUnitCount"], found["activeUnitCount"]) == (
        1,
        0,
        0,
    )
    assert found["oldestPendingSeconds"] >= 0
    assert found["kubernetesConnected"] is True
    assert found["kubeError"] == ""
    assert found["uptimeSeconds"] >= 0


@COMMITTING
def test_an_old_heartbeat_does_not_count(api: Api, cluster: FakeCluster, broker: Broker) -> None:
    everything_lives()
    ProcessHeartbeat.objects.filter(part=Part.BEAT).update(seen_at="2026-01-01T00:00:00Z")

    assert codes(asked(api).data)["beat"] is HealthCode.NO_HEARTBEAT


@COMMITTING
def test_processes_that_need_the_cluster_wait_while_it_is_away(
    api: Api, cluster: FakeCluster, broker: Broker
) -> None:
    everything_lives()
    delete_heartbeat(Part.CONTROLLER)
    ClusterState.objects.filter(id=cluster_state().id).update(failures=1)

    assert codes(asked(api).data)["controller"] is HealthCode.WAITING_FOR_CLUSTER


@pytest.mark.django_db
def test_a_cluster_that_does_not_answer_is_unreachable(
    api: Api, cluster: FakeCluster, broker: Broker
) -> None:
    cluster.fail("version", None, ClusterUnavailable("connection refused"))

    found = asked(api).data

    assert (found["ready"], found["kubernetesConnected"]) == (False, False)
    assert codes(found)["cluster"] is HealthCode.UNREACHABLE
    assert found["kubeError"] == found["parts"]["cluster"]["detail"] == "connection refused"


@COMMITTING
def test_a_cluster_without_a_ready_node_is_not_ready(
    api: Api, cluster: FakeCluster, broker: Broker
) -> None:
    everything_lives()
    nodes = {"node_count": 3, "ready_node_count": 0, "seen_at": Now()}
    ClusterState.objects.filter(id=cluster_state().id).update(**nodes)

    found = asked(api).data

    assert found["ready"] is False
    assert codes(found)["cluster"] is HealthCode.NO_READY_NODE
    assert (found["kubernetesConnected"], found["kubeError"]) == (True, "")


@COMMITTING
def test_a_database_of_another_cluster_needs_recovery(
    api: Api, cluster: FakeCluster, broker: Broker
) -> None:
    everything_lives()
    ClusterState.objects.filter(id=cluster_state().id).update(recovery_reason="another database")

    found = asked(api).data

    assert found["ready"] is False
    assert found["parts"]["cluster"] == {
        "ok": False,
        "code": HealthCode.RECOVERY_NEEDED,
        "detail": "another database",
    }


@pytest.mark.django_db
def test_a_platform_configured_without_a_cluster_is_ok(
    api: Api, settings: Settings, broker: Broker
) -> None:
    settings.KUBE_MODE = "off"

    found = asked(api).data

    assert codes(found)["cluster"] is HealthCode.OFF
    assert found["parts"]["cluster"]["ok"] is True
    assert found["kubernetesConnected"] is False
    assert found["kubeError"] == ""


@COMMITTING
def test_without_the_database_counts_are_null_and_livez_answers(
    api: Api, cluster: FakeCluster, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_away(monkeypatch):
        found = asked(api).data
        lives = api.get("/livez").status

    assert codes(found)["database"] is HealthCode.UNREACHABLE
    assert codes(found)["beat"] is HealthCode.UNKNOWN
    assert found["parts"]["broker"]["ok"] is True
    assert (found["stockPoolCount"], found["pendingOperations"]) == (None, None)
    assert found["ready"] is False
    assert lives == 200


@COMMITTING
def test_without_the_database_every_other_route_is_a_503_until_it_returns(
    api: Api, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_away(monkeypatch):
        answers = [api.get(POOLS), api.post(POOLS, create_body()), api.get(f"{POOLS}/a")]
        ready = api.get("/readyz")
    again = [api.get(POOLS).status, api.get("/readyz").status]

    for answer in answers:
        assert (answer.status, answer.code) == (503, "database_unavailable")
        assert int(answer.headers["Retry-After"]) >= 1
    assert (ready.status, ready.json["ok"]) == (503, False)
    assert ready.json["cause"] == Unready.DATABASE_UNAVAILABLE
    assert again == [200, 200]
    assert not Operation.objects.exists()


@COMMITTING
@pytest.mark.usefixtures("catalogue")
def test_without_the_broker_a_create_is_accepted_quickly(
    api: Api, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broker_away(monkeypatch):
        started = time.monotonic()
        answers = [api.post(POOLS, create_body()).status for _ in range(3)]
        took = time.monotonic() - started
        found = asked(api).data

    assert answers == [202, 202, 202]
    assert took < 10, "the broker is tried once, and not for long"
    assert codes(found)["broker"] is HealthCode.UNREACHABLE
    assert found["pendingOperations"] == 3


@COMMITTING
@pytest.mark.usefixtures("catalogue")
def test_a_write_to_a_read_only_database_is_a_503(
    api: Api, cluster: FakeCluster, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_read_only(monkeypatch):
        refused = api.post(POOLS, create_body())
    accepted = api.post(POOLS, create_body())

    assert (refused.status, refused.code) == (503, "database_unavailable")
    assert int(refused.headers["Retry-After"]) >= 1
    assert accepted.status == 202


@COMMITTING
def test_a_read_only_database_is_not_ready(
    api: Api, cluster: FakeCluster, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything_lives()
    cluster_state()
    with database_read_only(monkeypatch):
        found = asked(api).data

    assert found["ready"] is False
    assert codes(found)["database"] is HealthCode.READ_ONLY
    assert found["pendingOperations"] == 0
