"""Requests for pools, and their results; the pools of one test share a name prefix."""

from gpuplatform.kube.kinds import STOCK_POOL
from tests.acceptance.platform import POOLS, RunningPlatform


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
    """Return the names of the test's pools in the cluster."""
    names = [p["metadata"]["name"] for p in platform.cluster().list(STOCK_POOL).items]
    return sorted(name for name in names if name.startswith(f"{prefix}-"))


def assert_each_made_once(platform: RunningPlatform, prefix: str, count: int) -> None:
    expected = sorted(f"{prefix}-{number}" for number in range(count))
    assert made(platform, prefix) == expected
    rows = platform.sql(
        "SELECT phase, count(*), count(DISTINCT object_uid) FROM operations_operation"
        " WHERE operation_id LIKE %s GROUP BY phase",
        f"{prefix}-%",
    )
    assert rows == [("Succeeded", count, count)]
