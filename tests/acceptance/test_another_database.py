"""A platform that is started with another database on the same cluster, then the first one."""

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, STOCK_POOL
from tests.acceptance.platform import POOLS, PROCESSES, RunningPlatform

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("another database"),
]

UNITS = "/api/v1/gpu-units"
STOCK = "/api/v1/operator/stock-units"
SEED = {"specName": "g1", "gpu": 1, "cpu": "1", "memory": "1Gi", "replicas": 3}


def unit(name: str) -> dict[str, object]:
    asked = {"operationID": f"create-{name}", "name": name, "specName": "g1"}
    return {**asked, "image": "docker.io/library/python:3.12"}


def restart(platform: RunningPlatform, **further: str) -> None:
    for name in PROCESSES:
        platform.kill(name)
    for name in PROCESSES:
        platform.start(name, further=further)


def what_runs(platform: RunningPlatform) -> list[tuple[str, str, int]]:
    """Return each object of the platform, and the generation of its spec."""
    cluster = platform.cluster()
    return sorted(
        (one["metadata"]["name"], one["metadata"]["uid"], one["metadata"].get("generation", 0))
        for kind in (GPU_UNIT, STOCK_POOL, DEPLOYMENT, POD)
        for one in cluster.list(kind).items
    )


def test_another_database_changes_nothing_and_the_right_one_goes_on(
    own_platform: RunningPlatform,
) -> None:
    platform = own_platform
    platform.add_spec("g1", cpu="1", memory="1Gi")
    assert platform.request("POST", STOCK, {"operationID": "seed", **SEED}).status == 202
    platform.wait_for_job("seed")
    platform.wait(lambda: ready(platform) == 3, "the stock to be ready")
    assert platform.request("POST", UNITS, unit("a")).status == 202
    platform.wait_for_job("create-a")
    platform.wait(lambda: phase(platform, "a") == "Ready", "the unit to be ready")
    before = what_runs(platform)

    platform.sql("CREATE DATABASE another")
    right = platform.environment()["DATABASE_URL"]
    another = f"{right.rpartition('/')[0]}/another"
    platform.run_once("prepare", {"DATABASE_URL": another})
    restart(platform, DATABASE_URL=another)
    platform.wait(lambda: "another database" in str(platform.health()), "it to be noticed")

    refused = [
        platform.request("POST", UNITS, unit("b")),
        platform.request("POST", STOCK, {"operationID": "seed-2", **SEED}),
        platform.request("DELETE", f"{POOLS}/a?operationID=delete"),
    ]
    assert {answer.status for answer in refused} <= {404, 503}
    assert [answer.body["error"]["code"] for answer in refused[:2]] == ["recovery_needed"] * 2
    assert platform.health()["ready"] is False
    assert what_runs(platform) == before

    restart(platform)
    platform.wait_for_life()
    assert what_runs(platform) == before
    assert platform.request("POST", UNITS, unit("b")).status == 202
    platform.wait_for_job("create-b")
    platform.wait(lambda: phase(platform, "b") == "Ready", "a unit to be ready as before")
    assert phase(platform, "a") == "Ready"
    platform.wait(lambda: platform.manage("check_consistency").returncode == 0, "the books")


def ready(platform: RunningPlatform) -> int:
    query = "SELECT count(*) FROM units_gpuunit WHERE role = 'stock' AND phase = 'Ready'"
    return int(platform.sql(query)[0][0])


def phase(platform: RunningPlatform, name: str) -> object:
    return platform.request("GET", f"{UNITS}/{name}").data["phase"]
