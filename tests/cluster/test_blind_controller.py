"""A controller without a watch sends no heartbeat, and misses nothing afterwards."""

import threading

import pytest

from gpuplatform.kube.kinds import STOCK_POOL, Manifest
from gpuplatform.reconciliation.heartbeats import Part, alive_parts
from inventory.models import StockPool
from tests.cluster.pools import Pools
from tests.fakes.fault_proxy import FaultProxy
from tests.fakes.faults import Refuse, Rule, cut_stream

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]


def sees() -> bool:
    return Part.CONTROLLER in alive_parts()


def pool(pools: Pools, name: str) -> Manifest:
    """Create a pool as with kubectl, without updating the mirror."""
    return pools.cluster.create(
        STOCK_POOL,
        {
            "apiVersion": STOCK_POOL.api_version,
            "kind": STOCK_POOL.kind,
            "metadata": {"name": name, "namespace": pools.namespace},
            "spec": {"specName": "g1.1", "replicas": 0},
        },
    )


def test_a_blind_controller_sends_no_heartbeat_and_misses_nothing(
    pools: Pools, proxy: FaultProxy, watching: threading.Event
) -> None:
    kind = STOCK_POOL.plural
    proxy.add(Rule(cut_stream(1), verbs=("watch",), resource=kind))
    watching.set()
    pools.wait(sees, lambda: "it shows no life")
    refused = Rule(Refuse(503, "ServiceUnavailable"), ("list", "watch"), kind, times=None)
    proxy.add(refused)

    pool(pools, "a")
    pool(pools, "b")
    pools.wait(lambda: not sees(), lambda: "it is blind and shows life")
    made = pool(pools, "c")
    rows = StockPool.objects.filter(namespace=pools.namespace)
    known = set(rows.values_list("name", flat=True))
    proxy.clear()

    assert "c" not in known
    assert refused.hits > 0
    pools.wait(rows.filter(uid=made["metadata"]["uid"]).exists, lambda: "it was missed")
    pools.wait(sees, lambda: "it sees and shows no life")
    assert set(rows.values_list("name", flat=True)) == {"a", "b", "c"}
