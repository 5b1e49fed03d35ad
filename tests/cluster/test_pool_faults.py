"""Stock pools with a failing connection to the API server: same result, no duplicates."""

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, STOCK_POOL
from inventory.reconcile import compare_all
from tests.cluster.pools import Pools
from tests.fakes.fault_proxy import FaultProxy
from tests.fakes.faults import Cut, Fault, Refuse, Rule

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

WRITES = ("create", "update", "patch", "delete")

FAULTS: dict[str, Fault] = {
    "lost before the server knew": Cut(),
    "lost after the server acted": Cut(is_after=True),
    "answered with 500": Refuse(500, "InternalError"),
    "answered with 503": Refuse(503, "ServiceUnavailable"),
    "answered with 429": Refuse(429, "TooManyRequests", retry_after=1),
    "answered with 409": Refuse(409, "Conflict"),
}
QUICK = "lost after the server acted"
"""The faults of each call in the short tests; the long tests have the others."""
CALLS = {
    "the read of the pool": ("get", "stockpools"),
    "the POST of the pool": ("create", "stockpools"),
    "the read of the Deployment": ("get", "deployments"),
    "the apply of the Deployment": ("patch", "deployments"),
    "the apply of the Service": ("patch", "services"),
    "the list of the pods": ("list", "pods"),
    "the write of the status": ("patch", "stockpools"),
}


def test_settled_pools_cost_no_write_at_the_server(pools: Pools, proxy: FaultProxy) -> None:
    for name in ("one", "two", "three"):
        pools.create(name, gpu=1, template={"ports": [{"name": "http", "port": 80}]})
        pools.settle(name, "Ready")
        pools.reconcile(name)
    before = {verb: proxy.count(verb) for verb in WRITES}
    reads = proxy.count("get")

    for name in ("one", "two", "three"):
        pools.reconcile(name)
    compare_all(pools.platform())

    assert {verb: proxy.count(verb) for verb in WRITES} == before
    assert proxy.count("get") > reads


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "fault",
    [name if name == QUICK else pytest.param(name, marks=pytest.mark.long) for name in FAULTS],
)
def test_one_call_that_fails_changes_nothing_in_the_end(
    pools: Pools, proxy: FaultProxy, call: str, fault: str
) -> None:
    verb, resource = CALLS[call]
    rule = Rule(FAULTS[fault], verbs=(verb,), resource=resource)
    proxy.add(rule)

    operation = pools.create("fault", template={"ports": [{"name": "http", "port": 80}]})
    ended = pools.finish(operation)
    pools.settle("fault", "Ready")

    found = [p["metadata"]["uid"] for p in pools.live(STOCK_POOL)]
    assert rule.hits == 1
    assert ended.phase == "Succeeded"
    assert found == [ended.object_uid]
    assert len(pools.live(DEPLOYMENT)) == 1
