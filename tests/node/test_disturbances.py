"""Units on nodes that evict pods."""

import pytest
import urllib3

from gpuplatform.kube.kinds import NODE, POD, Manifest
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.startup import POD_STARTUP_FAILED
from tests.cluster.tenant_units import Units
from tests.cluster.world import World
from tests.node.cluster import NodeCluster
from tests.node.images import APP
from tests.node.pods import HTTP, address

pytestmark = [
    pytest.mark.node,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

MEMORY = "64Mi"
SCRATCH = {"size": "16Mi", "mountPath": "/data"}
TOO_LARGE = 64 * 2**20


def running(units: Units, **template: object) -> Manifest:
    """Run the unit `a`, and return its pod."""
    units.seed(1, memory=MEMORY)
    units.create("a", image=APP, template={**HTTP, **template})
    [pod] = units.pods(units.settle("a", "Ready", "UnitReady"))
    return pod


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("code", "reported"), [(0, ""), (143, "scratch")])
def test_an_evicted_unit_reports_the_reason_and_starts_again(
    code: int, reported: str, installed: World, units: Units, nodes: NodeCluster
) -> None:
    """A kubelet evicts a pod beyond its disk limit as it does under node pressure.

    It reports no reason if the program exits with exit code 0.
    """
    pod = running(units, scratch=SCRATCH, envs=[{"name": "STOP_CODE", "value": str(code)}])
    for node in nodes.nodes:  # The replacement waits, so that the failure can be read.
        installed.patch(NODE, node.name, {"spec": {"unschedulable": True}})
    try:
        query = {"path": "/data/file", "bytes": str(TOO_LARGE)}
        urllib3.PoolManager(timeout=30).request("GET", f"{address(pod)}/write", fields=query)

        row = units.settle("a", "Failed", POD_STARTUP_FAILED)
    finally:
        for node in nodes.nodes:
            installed.patch(NODE, node.name, {"spec": {"unschedulable": False}})

    assert row.cause == StartupCause.EVICTED
    assert reported in row.message
    units.settle("a", "Ready", "UnitReady")


def test_an_eviction_through_the_api_replaces_the_pod(installed: World, units: Units) -> None:
    pod = running(units)
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": installed.namespace},
    }

    reply = installed.http("POST", installed.path(POD, name, "eviction"), eviction)

    assert reply.status == 201

    def is_replaced() -> bool:
        pods = units.pods(units.row("a"))
        return units.row("a").phase == "Ready" and uid not in {
            one["metadata"]["uid"] for one in pods
        }

    units.until(is_replaced)
