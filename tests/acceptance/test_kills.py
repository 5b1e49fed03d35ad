"""Killed processes, lost messages, unavailable servers: the same end state, and clear errors."""

import itertools
import os
import signal

import pytest

from gpuplatform.dev.embedded.layout import http_get
from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.kube.kinds import DEPLOYMENT, STOCK_POOL
from gpuplatform.metrics.server import LIVE_PATH
from gpuplatform.operations.services import OperationTask
from tests.acceptance.platform import POOLS, RunningPlatform
from tests.acceptance.pools import ask, assert_each_made_once, made, open_operations

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("acceptance"),
]

_NUMBERS = itertools.count(1)


@pytest.fixture
def prefix() -> str:
    """Unique names of this test."""
    return f"k{next(_NUMBERS)}"


def test_all_messages_thrown_away_cost_time_only(platform: RunningPlatform, prefix: str) -> None:
    platform.kill("operations")
    for number in range(50):
        assert ask(platform, f"{prefix}-{number}") == 202
    platform.forget_messages()

    platform.start("operations")
    platform.wait(lambda: open_operations(platform, prefix) == 0, "the sweep to do it all")

    assert_each_made_once(platform, prefix, 50)


def test_a_worker_whose_main_loop_is_stuck_is_not_alive(platform: RunningPlatform) -> None:
    port = free_port()
    platform.kill("operations")
    platform.start("operations", further={"GPUPLATFORM_METRICS_PORT": str(port)})

    def answers(status: int) -> bool:
        answer = http_get(port, LIVE_PATH)
        return answer is not None and answer[0] == status

    platform.wait(lambda: answers(200), "the worker to be alive")
    leader = platform.pid_of("operations")
    os.kill(leader, signal.SIGSTOP)
    try:
        platform.wait(lambda: answers(503), "the worker to be reported as stuck")
    finally:
        os.kill(leader, signal.SIGCONT)
    platform.wait(lambda: answers(200), "the worker to be alive again")
    platform.kill("operations")
    platform.start("operations")


def test_the_api_is_killed_and_reconciliation_goes_on(
    platform: RunningPlatform, prefix: str
) -> None:
    name = f"{prefix}-0"
    ask(platform, name, replicas=1)
    platform.wait_for_pool(name, "Ready")
    cluster = platform.cluster()

    platform.kill("web")
    cluster.merge_patch(STOCK_POOL, name, {"spec": {"replicas": 2}}, namespace="default")

    def scaled() -> bool:
        found = cluster.get(DEPLOYMENT, f"pool-{name}", namespace="default")
        return found is not None and found["spec"]["replicas"] == 2

    platform.wait(scaled, "the Deployment to be scaled without an API")
    platform.start("web")
    assert platform.wait_for_pool(name, "Ready")["desiredReplicas"] == 2


def test_the_controller_is_killed_and_the_api_gives_clear_answers(
    platform: RunningPlatform, prefix: str
) -> None:
    platform.kill("controller")

    platform.wait(
        lambda: platform.health()["parts"]["controller"]["ok"] is False,
        "health to say that the controller is down",
        90,
    )
    health = platform.health()
    status = ask(platform, f"{prefix}-0")
    job = platform.wait_for_job(f"{prefix}-0")
    pool = platform.pool(f"{prefix}-0")

    platform.start("controller")
    assert health["ready"] is False
    assert health["parts"]["controller"]["code"] == "no_heartbeat"
    assert status == 202
    assert job["object"]["uid"]
    assert pool["name"] == f"{prefix}-0"


def test_a_cluster_that_is_away_delays_and_refuses_nothing(
    platform: RunningPlatform, prefix: str
) -> None:
    platform.kill("cluster")
    platform.wait(
        lambda: platform.health()["kubernetesConnected"] is False, "health to miss the cluster"
    )

    status = ask(platform, f"{prefix}-0")
    health = platform.health()
    platform.start("cluster")
    platform.wait_for_job(f"{prefix}-0", seconds=90)
    platform.wait_for_life()

    assert status == 202
    assert health["ready"] is False
    assert health["kubeError"]
    assert made(platform, prefix) == [f"{prefix}-0"]


def test_a_broker_that_is_away_delays_and_refuses_nothing(
    platform: RunningPlatform, prefix: str
) -> None:
    platform.kill("valkey")

    status = ask(platform, f"{prefix}-0")
    health = platform.health()
    platform.start("valkey")
    platform.wait_for_job(f"{prefix}-0", seconds=90)
    platform.wait_for_life()

    assert status == 202
    assert health["parts"]["broker"]["ok"] is False
    assert made(platform, prefix) == [f"{prefix}-0"]


def test_a_broker_that_is_killed_in_the_midst_of_work_ends_no_worker(
    platform: RunningPlatform, prefix: str
) -> None:
    name = f"{prefix}-0"
    with platform.paused_children("operations"):
        ask(platform, name, replicas=1)
        platform.wait(
            lambda: platform.is_claimed(OperationTask.RUN), "the worker to claim the work"
        )
        platform.kill("valkey")
    platform.start("valkey")
    platform.wait_for_life()

    assert platform.wait_for_pool(name, "Ready")["availableReplicas"] == 1
    assert made(platform, prefix) == [name]


def test_an_outage_of_the_database_is_reported_and_ends(
    platform: RunningPlatform, prefix: str
) -> None:
    platform.kill("postgres")

    refused = platform.request(
        "POST", POOLS, {"operationID": "db-1", "specName": "g1.1", "replicas": 0}
    )
    health = platform.request("GET", "/api/v1/health")
    alive = platform.request("GET", "/livez")
    platform.start("postgres")
    platform.wait_for_life()
    status = ask(platform, f"{prefix}-0")
    platform.wait_for_job(f"{prefix}-0")

    assert (refused.status, refused.body["error"]["code"]) == (503, "database_unavailable")
    assert int(refused.headers["Retry-After"]) > 0
    assert health.status == 200
    assert health.data["parts"]["database"]["ok"] is False
    assert health.data["stockPoolCount"] is None
    assert alive.status == 200
    assert status == 202
