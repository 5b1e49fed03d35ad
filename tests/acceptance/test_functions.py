"""The lifecycle of a function: start from zero workers, read the result, stop the workers."""

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from typing import Any

import pytest

from gpuplatform.dev.embedded.ports import LOOPBACK
from gpuplatform.dev.simulator.kubelet import control
from gpuplatform.images import ECHO_IMAGE
from gpuplatform.kube.kinds import CONFIG_MAP, GPU_UNIT, SECRET, ResourceKind
from tests.acceptance.platform import RunningPlatform
from tests.benchmarks.bench import Api, at_once

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("acceptance"),
]

FUNCTIONS = "/api/v1/serverless/functions"
INVOCATIONS = "/api/v1/serverless/invocations"
STOCK = "/api/v1/operator/stock-units"
TEXT = '{"text": "hello"}'
SECONDS = 120
BURST, CALLERS = 1_000, 8
WAITING, WORKERS = 100, 2
START_SECONDS = 30
ENDED = (
    "SELECT state, attempts, count(*) FROM serverless_invocation"
    " WHERE invocation_id LIKE 'burst-%%' GROUP BY 1, 2"
)
ALL_ENDED_ONCE = [("Succeeded", 1, BURST + WAITING)]


def seed(platform: RunningPlatform, spec_name: str, units: int = 1) -> None:
    """Seed stock and wait until this number of units is ready."""
    number = platform.sql("SELECT count(*) FROM operations_operation")[0][0]
    body = {"operationID": f"seed-{number}", "specName": spec_name, "replicas": units}
    platform.add_spec(spec_name, cpu="1", memory="2Gi")
    assert platform.request("POST", STOCK, body).status == 202
    address = f"{STOCK}?specName={spec_name}&state=ready"
    platform.wait(
        lambda: len(platform.request("GET", address).data) >= units, "the stock", SECONDS
    )


def function(platform: RunningPlatform) -> Any:
    return platform.request("GET", f"{FUNCTIONS}/walk").data


def make(platform: RunningPlatform) -> None:
    """Create the function without workers."""
    body = {
        "operationID": "walk-fn-1",
        "requestID": "walk",
        "specName": "serverless-walk",
        "image": ECHO_IMAGE,
        "idleTimeoutSeconds": 5,
    }
    assert platform.request("POST", FUNCTIONS, body).status == 202
    platform.wait_for_job("walk-fn-1")
    platform.wait(lambda: function(platform)["reason"] == "Idle", "the function to be known")


def result(platform: RunningPlatform, invocation_id: str) -> Any:
    """Wait for the end of an invocation and return it."""
    address = f"{INVOCATIONS}/{invocation_id}"
    platform.wait(
        lambda: bool(platform.request("GET", address).data["completedAt"]), "the result", SECONDS
    )
    return platform.request("GET", address).data


def of_functions(platform: RunningPlatform, kind: ResourceKind) -> list[str]:
    """Return the objects of functions in the cluster."""
    found = platform.cluster().list(kind, namespace="runtime-instance").items
    names = [one["metadata"]["name"] for one in found]
    return [name for name in names if name.startswith("fn-")]


def test_a_sleeping_function_wakes_answers_and_sleeps_again(platform: RunningPlatform) -> None:
    others = {kind: set(of_functions(platform, kind)) for kind in (GPU_UNIT, SECRET)}
    seed(platform, "serverless-walk")
    make(platform)
    asked = {"requestID": "walk", "payload": TEXT}

    accepted = platform.request("POST", INVOCATIONS, {**asked, "invocationID": "walk-1"})
    cold = result(platform, "walk-1")
    url = f"http://{LOOPBACK}:{platform.port}{cold['result']['href']}"
    with urllib.request.urlopen(url, timeout=20) as answer:
        body = answer.read()
    warm = platform.request("POST", INVOCATIONS, {**asked, "mode": "sync"}, seconds=70)

    assert accepted.status == 202
    assert (cold["state"], cold["attempts"], cold["result"]["body"]) == ("Succeeded", 1, TEXT)
    assert body == TEXT.encode()
    assert (warm.status, warm.data["state"]) == (200, "Succeeded")
    assert warm.data["worker"] == cold["worker"]

    asleep = {"ready": 0, "starting": 0, "draining": 0}
    platform.wait(lambda: function(platform)["workers"] == asleep, "the worker to end", SECONDS)
    assert set(of_functions(platform, GPU_UNIT)) <= others[GPU_UNIT]

    assert platform.request("DELETE", f"{FUNCTIONS}/walk?operationID=walk-fn-2").status == 202
    platform.wait_for_job("walk-fn-2")
    assert platform.request("GET", f"{FUNCTIONS}/walk").status == 404
    assert set(of_functions(platform, SECRET)) <= others[SECRET]


def test_a_burst_from_zero_is_answered_once_each_though_workers_start_slowly(
    platform: RunningPlatform,
) -> None:
    seed(platform, "serverless-walk", WORKERS + 1)
    body = {"operationID": "burst-fn", "requestID": "burst", "specName": "serverless-walk"}
    shape = {"image": ECHO_IMAGE, "maxWorkers": WORKERS, "idleTimeoutSeconds": 5}
    assert platform.request("POST", FUNCTIONS, {**body, **shape}).status == 202
    platform.wait_for_job("burst-fn")
    callers = [partial(burst, platform, first) for first in range(CALLERS)]
    callers += [partial(burst_and_wait, platform, number) for number in range(WAITING)]

    with slow_starts(platform):
        statuses = Counter(chain.from_iterable(at_once(callers, len(callers))))
        # Waiting requests get a result or a 202 in time, never a 5xx.
        assert statuses.keys() <= {200, 202}
        assert statuses.total() == BURST + WAITING
        platform.wait(lambda: platform.sql(ENDED) == ALL_ENDED_ONCE, "all results", SECONDS)

    took = "SELECT extract(epoch FROM min(completed_at) - min(accepted_at))"
    took += " FROM serverless_invocation WHERE invocation_id LIKE 'burst-%%'"
    assert platform.sql(took)[0][0] >= START_SECONDS
    started = (
        "SELECT count(*) FROM operations_operation o JOIN serverless_function f"
        " ON o.object_name LIKE 'fn-' || f.id || '-%%'"
        " WHERE f.request_id = 'burst' AND o.kind = 'unit.create'"
    )
    assert platform.sql(started)[0][0] in range(1, WORKERS + 1)


@contextmanager
def slow_starts(platform: RunningPlatform) -> Iterator[None]:
    """Delay the start of each pod on its node by `START_SECONDS`."""
    name = {"namespace": control.NAMESPACE, "name": control.NAME}
    wanted = {control.KEY: json.dumps({"startDelaySeconds": START_SECONDS})}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": wanted}
    cluster = platform.cluster()
    cluster.create(CONFIG_MAP, body)
    try:
        yield
    finally:
        cluster.delete(CONFIG_MAP, **name)


def burst(platform: RunningPlatform, first: int) -> list[int]:
    """Send the invocations of one caller; return the statuses."""
    with closing(Api(platform.port)) as api:
        return [send(api, number, "async") for number in range(first, BURST, CALLERS)]


def burst_and_wait(platform: RunningPlatform, number: int) -> list[int]:
    """Send one invocation and wait for its response; return the status."""
    with closing(Api(platform.port)) as api:
        return [send(api, BURST + number, "sync")]


def send(api: Api, number: int, mode: str) -> int:
    body = {"requestID": "burst", "invocationID": f"burst-{number}", "mode": mode}
    return api("POST", INVOCATIONS, {**body, "payload": TEXT}).status
