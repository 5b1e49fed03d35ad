"""Killed processes, lost messages, servers away: the same end state, and clear answers."""

import itertools

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, STOCK_POOL
from tests.acceptance.platform import POOLS, PROCESSES, RunningPlatform

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("acceptance"),
]

OPERATIONS = 500
DONE_BETWEEN_KILLS = 150
_NUMBERS = itertools.count(1)


@pytest.fixture
def prefix() -> str:
    """Names of this test alone."""
    return f"k{next(_NUMBERS)}"


def ask(platform: RunningPlatform, name: str, *, replicas: int = 0) -> int:
    body = {"operationID": name, "name": name, "specName": "g1.1", "replicas": replicas}
    return platform.request("POST", POOLS, body).status


def open_operations(platform: RunningPlatform, prefix: str) -> int:
    rows = platform.sql(
        "SELECT count(*) FROM operations_operation"
        " WHERE operation_id LIKE %s AND phase IN ('Pending', 'Running')",
        f"{prefix}-%",
    )
    return int(rows[0][0])


def made(platform: RunningPlatform, prefix: str) -> list[str]:
    """Return the names of the pools in the cluster that belong to the test."""
    names = [p["metadata"]["name"] for p in platform.cluster().list(STOCK_POOL).items]
    return sorted(name for name in names if name.startswith(f"{prefix}-"))


def live_rows(platform: RunningPlatform, prefix: str) -> int:
    rows = platform.sql(
        "SELECT count(*) FROM inventory_stockpool WHERE name LIKE %s AND deleted_at IS NULL",
        f"{prefix}-%",
    )
    return int(rows[0][0])


def assert_each_made_once(platform: RunningPlatform, prefix: str, count: int) -> None:
    expected = sorted(f"{prefix}-{number}" for number in range(count))
    assert made(platform, prefix) == expected
    rows = platform.sql(
        "SELECT phase, count(*), count(DISTINCT object_uid) FROM operations_operation"
        " WHERE operation_id LIKE %s GROUP BY phase",
        f"{prefix}-%",
    )
    assert rows == [("Succeeded", count, count)]


def test_no_operation_is_lost_or_doubled_when_workers_are_killed(
    platform: RunningPlatform, prefix: str
) -> None:
    platform.kill("reconcile")  # What becomes of the pools is another test's.
    statuses = {ask(platform, f"{prefix}-{number}") for number in range(OPERATIONS)}
    platform.start("operations", role="second operations")
    groups = itertools.cycle(["operations", "second operations"])
    kills = 0

    while (left := open_operations(platform, prefix)) > 0:
        wanted = max(left - DONE_BETWEEN_KILLS, 0)
        platform.wait(
            lambda wanted=wanted: open_operations(platform, prefix) <= wanted,  # type: ignore[misc]
            "the workers to get on",
            90,
        )
        group = next(groups)
        platform.kill(group)
        kills += 1
        platform.start("operations", role=group)
    platform.kill("second operations")

    assert statuses == {202}
    assert kills >= 3
    assert_each_made_once(platform, prefix, OPERATIONS)
    cluster = platform.cluster()
    for name in made(platform, prefix):
        cluster.delete(STOCK_POOL, name, namespace="default")
    platform.start("reconcile")
    platform.wait(lambda: live_rows(platform, prefix) == 0, "the rows to be closed", 120)


def test_all_messages_thrown_away_cost_time_only(platform: RunningPlatform, prefix: str) -> None:
    platform.kill("operations")
    for number in range(50):
        assert ask(platform, f"{prefix}-{number}") == 202
    platform.forget_messages()

    platform.start("operations")
    platform.wait(lambda: open_operations(platform, prefix) == 0, "the sweep to do it all")

    assert_each_made_once(platform, prefix, 50)


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
    assert "no sign of life" in health["parts"]["controller"]["detail"]
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

    assert status == 202
    assert health["parts"]["broker"]["ok"] is False
    assert made(platform, prefix) == [f"{prefix}-0"]


def test_a_database_that_is_away_is_said_and_heals(platform: RunningPlatform, prefix: str) -> None:
    platform.kill("postgres")

    refused = platform.request(
        "POST", POOLS, {"operationID": "db-1", "specName": "g1.1", "replicas": 0}
    )
    health = platform.request("GET", "/api/v1/health")
    alive = platform.request("GET", "/livez")
    platform.start("postgres")
    platform.wait(platform.is_ready, "the platform to heal", 90)
    status = ask(platform, f"{prefix}-0")
    platform.wait_for_job(f"{prefix}-0")

    assert (refused.status, refused.body["error"]["code"]) == (503, "database_unavailable")
    assert int(refused.headers["Retry-After"]) > 0
    assert health.status == 200
    assert health.data["parts"]["database"]["ok"] is False
    assert health.data["stockPoolCount"] is None
    assert alive.status == 200
    assert status == 202

    for part in PROCESSES:  # The next test begins with processes that saw no outage.
        platform.kill(part)
        platform.start(part)
