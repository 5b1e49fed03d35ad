"""The lifecycle of a pool: create it, wait until it is ready, send a replay, delete it."""

import subprocess
import threading
from collections import Counter

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, STOCK_POOL
from tests.acceptance.platform import JOBS, POOLS, Answer, RunningPlatform

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("acceptance"),
]


def body(operation_id: str, name: str, **fields: object) -> dict[str, object]:
    return {
        "operationID": operation_id,
        "name": name,
        "specName": "g1.1",
        "gpu": 1,
        "replicas": 1,
        **fields,
    }


def test_a_pool_goes_from_request_to_ready_to_gone(platform: RunningPlatform) -> None:
    accepted = platform.request("POST", POOLS, body("walk-1", "walk"))
    platform.wait_for_job("walk-1")
    ready = platform.wait_for_pool("walk", "Ready")
    seen = subprocess.run(
        ["kubectl", "--kubeconfig", str(platform.kubeconfig), "get", "stockpool", "walk"],
        capture_output=True,
        text=True,
        check=True,
    )
    replay = platform.request("POST", POOLS, body("walk-1", "walk"))
    changed = platform.request("POST", POOLS, body("walk-1", "walk", replicas=2))
    deleted = platform.request("DELETE", f"{POOLS}/walk?operationID=walk-2")
    platform.wait(lambda: platform.pool("walk") is None, "the pool to be gone")
    late_replay = platform.request("POST", POOLS, body("walk-1", "walk"))

    assert accepted.status == 202
    assert accepted.headers["Location"] == f"{JOBS}/walk-1"
    assert ready["availableReplicas"] == 1
    assert "Ready" in seen.stdout
    assert (replay.status, replay.headers["Idempotent-Replayed"]) == (200, "true")
    assert (changed.status, changed.body["error"]["code"]) == (409, "operation_conflict")
    assert deleted.status == 202
    assert (late_replay.status, late_replay.data["phase"]) == (200, "Succeeded")
    assert platform.cluster().get(STOCK_POOL, "walk", namespace="default") is None


def test_a_change_is_applied_and_observed(platform: RunningPlatform) -> None:
    platform.request("POST", POOLS, body("change-1", "change"))
    platform.wait_for_pool("change", "Ready")

    patch = {"operationID": "change-2", "replicas": 0}
    accepted = platform.request("PATCH", f"{POOLS}/change", patch)
    platform.wait_for_pool("change", "Empty")

    assert accepted.status == 202
    deployment = platform.cluster().get(DEPLOYMENT, "pool-change", namespace="default")
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 0


def test_a_pod_that_cannot_start_shows_the_clusters_own_words(platform: RunningPlatform) -> None:
    ends = {"command": ["sh", "-c", "exit 3"]}

    platform.request("POST", POOLS, body("crash-1", "crash", template=ends))
    failed = platform.wait_for_pool("crash", "Failed")

    assert failed["reason"] == "PodStartupFailed"
    assert "exit code 3" in failed["message"]


def test_identical_requests_at_once_make_one_pool(platform: RunningPlatform) -> None:
    barrier = threading.Barrier(32)
    answers: list[Answer] = []

    def ask() -> None:
        barrier.wait()
        answers.append(
            platform.request("POST", POOLS, body("identical-1", "identical", replicas=0))
        )

    threads = [threading.Thread(target=ask) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    platform.wait_for_job("identical-1")

    assert Counter(answer.status for answer in answers) == {202: 1, 200: 31}
    rows = platform.sql(
        "SELECT count(*) FROM operations_operation WHERE operation_id='identical-1'"
    )
    assert rows == [(1,)]
    pools = platform.cluster().list(STOCK_POOL, namespace="default").items
    assert [p["metadata"]["name"] for p in pools].count("identical") == 1


def test_what_kubectl_deletes_is_made_again(platform: RunningPlatform) -> None:
    platform.request("POST", POOLS, body("drift-1", "drift"))
    platform.wait_for_pool("drift", "Ready")
    cluster = platform.cluster()
    before = cluster.get(DEPLOYMENT, "pool-drift", namespace="default")
    assert before is not None

    cluster.delete(DEPLOYMENT, "pool-drift", namespace="default")
    platform.wait(
        lambda: cluster.get(DEPLOYMENT, "pool-drift", namespace="default") not in (None, before),
        "the Deployment to be made again",
    )
    platform.wait_for_pool("drift", "Ready")

    after = cluster.get(DEPLOYMENT, "pool-drift", namespace="default")
    assert after is not None
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
