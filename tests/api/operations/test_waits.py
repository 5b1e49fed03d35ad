"""Why an open operation waits: also if no worker could claim it."""

from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase, OperationWait
from gpuplatform.reconciliation import gate
from gpuplatform.reconciliation.models import ClusterState
from tests.factories.inventory import accept_create, accept_delete
from tests.fakes.api import JOBS, POOLS, Api
from tests.fakes.cluster import FakeCluster

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]

UNREACHABLE = ClusterUnavailable("The API server does not respond.")


def waiting(api: Api, operation_id: str) -> Any:
    return api.get(f"{JOBS}/{operation_id}").data["waiting"]


def test_an_operation_without_a_worker_waits_since_its_acceptance(
    api: Api, cluster: FakeCluster
) -> None:
    accept_create(name="a", operationID="first")
    accept_delete("a", operation_id="second")

    job = api.get(f"{JOBS}/first").data

    assert job["waiting"]["reason"] == OperationWait.NO_WORKER
    assert job["waiting"]["since"] == job["createdAt"]
    assert waiting(api, "second")["reason"] == OperationWait.EARLIER_OPERATION
    assert "first" in waiting(api, "second")["message"]


def test_an_operation_reports_that_the_cluster_does_not_respond(
    api: Api, cluster: FakeCluster
) -> None:
    accept_create(name="a", operationID="first")

    gate.close(UNREACHABLE)

    found = waiting(api, "first")
    assert (found["reason"], found["message"]) == (
        OperationWait.CLUSTER_UNAVAILABLE,
        str(UNREACHABLE),
    )
    ClusterState.objects.update(recovery_reason="Another epoch.")
    assert waiting(api, "first")["reason"] == OperationWait.RECOVERY_NEEDED


def test_the_reason_that_a_worker_recorded_has_its_time(api: Api, cluster: FakeCluster) -> None:
    operation = accept_create(name="a", operationID="first").operation
    cluster.fail("create", STOCK_POOL, ClusterUnavailable("Too many requests.", status=429))

    driver.run(operation.pk)

    operation.refresh_from_db()
    found = waiting(api, "first")
    assert (found["reason"], found["message"]) == ("ClusterUnavailable", "Too many requests.")
    assert operation.reason_since is not None
    assert found["since"] == api.get(f"{JOBS}/first").data["updatedAt"]


@pytest.mark.parametrize("phase", set(OperationPhase) - {OperationPhase.PENDING})
def test_an_operation_that_is_executed_or_has_ended_does_not_wait(
    api: Api, cluster: FakeCluster, phase: OperationPhase
) -> None:
    accept_create(name="a", operationID="first")
    ended = {} if phase == OperationPhase.RUNNING else {"due_at": None, "ended_at": Now()}
    failed = {"error_code": "invalid_request"} if phase == OperationPhase.FAILED else {}
    Operation.objects.update(phase=phase, **ended, **failed)

    assert waiting(api, "first") is None


def test_a_new_operation_does_not_wait_and_its_replay_does(api: Api, cluster: FakeCluster) -> None:
    body = {"operationID": "first", "name": "a", "specName": "g1.1", "replicas": 1}

    new, replay = api.post(POOLS, body), api.post(POOLS, body)

    assert new.data["waiting"] is None
    assert replay.data["waiting"]["reason"] == OperationWait.NO_WORKER


def test_a_pool_that_is_being_deleted_explains_what_the_deletion_waits_for(
    api: Api, cluster: FakeCluster
) -> None:
    driver.run(accept_create(name="a").operation.pk)
    accept_delete("a")

    gate.close(UNREACHABLE)

    pool = api.get(f"{POOLS}/a").data
    assert (pool["phase"], pool["reason"]) == ("Terminating", "")
    assert pool["message"].endswith(str(UNREACHABLE))
    assert [one["message"] for one in api.get(POOLS).data] == [pool["message"]]
