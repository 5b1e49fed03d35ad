"""A status that is incomplete or odd ends no process, and everything goes on."""

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, NODE, POD, REPLICA_SET, Manifest, ResourceKind
from tests.cluster.odd_statuses import Statuses
from tests.cluster.servers import GPUS
from tests.cluster.world import MERGE, World, deployment, is_ready, pod

pytestmark = pytest.mark.cluster

ROUNDS = 25
NODE_NAME = "gpu-node-1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
EVENTS = ResourceKind("", "v1", "Event", "events")


def write(world: World, kind: ResourceKind, name: str, status: Manifest) -> int:
    """Write a status, which the server can reject, and return the code of the response."""
    reply = world.http("PATCH", world.path(kind, name, "status"), {"status": status}, MERGE)
    assert reply.status in {200, 400, 409, 422}, (status, reply.body)
    return reply.status


def tables_are_shown(world: World) -> None:
    for kind in (POD, NODE, DEPLOYMENT, REPLICA_SET, EVENTS):
        reply = world.http("GET", world.path(kind), accept=TABLE)
        assert (reply.status, reply.body["kind"]) == (200, "Table"), reply.body


def everything_goes_on(world: World, name: str) -> None:
    """Check the API server, the controllers, the scheduler and the kubelet of a node."""
    selector = {"kubernetes.io/hostname": NODE_NAME}
    world.until(lambda: is_ready(world.get(NODE, NODE_NAME)))
    manifest = deployment(name)
    manifest["spec"]["template"]["spec"]["nodeSelector"] = selector
    world.create(DEPLOYMENT, manifest)
    world.until(
        lambda: (world.get(DEPLOYMENT, name).get("status") or {}).get("availableReplicas") == 1
    )
    tables_are_shown(world)
    world.delete(DEPLOYMENT, name)
    world.until(lambda: not world.list(POD, f"app={name}"))


def test_odd_statuses_of_pods_end_nothing(world: World) -> None:
    statuses = Statuses(seed=1)
    world.create(POD, pod("one", nodeName=NODE_NAME))
    world.create(POD, pod("starts", nodeName=NODE_NAME))
    codes = set()

    for _ in range(ROUNDS):
        status = statuses.pod()
        codes |= {write(world, POD, name, status) for name in ("one", "starts")}
        codes.add(write(world, POD, "one", statuses.odd(status)))

    assert 200 in codes
    tables_are_shown(world)
    world.until(lambda: is_ready(world.get(POD, "one")))
    everything_goes_on(world, "later")


def test_a_container_status_that_is_null_ends_nothing(world: World) -> None:
    world.create(POD, pod("one", nodeName=NODE_NAME))
    world.until(lambda: is_ready(world.get(POD, "one")))

    odd: tuple[object, ...] = ([None], [{}], None)
    for statuses in odd:
        write(world, POD, "one", {"containerStatuses": statuses})
        world.until(lambda: is_ready(world.get(POD, "one")))

    everything_goes_on(world, "later")


def test_odd_statuses_of_nodes_end_nothing(world: World) -> None:
    statuses = Statuses(seed=2)
    world.create(POD, pod("one", nodeName=NODE_NAME))
    codes = set()

    for _ in range(ROUNDS):
        status = statuses.node()
        codes.add(write(world, NODE, NODE_NAME, status))
        codes.add(write(world, NODE, NODE_NAME, statuses.odd(status)))

    assert 200 in codes
    everything_goes_on(world, "later")
    allocatable = world.get(NODE, NODE_NAME)["status"]["allocatable"]
    assert allocatable["nvidia.com/gpu"] == str(GPUS)


@pytest.mark.parametrize("kind", [DEPLOYMENT, REPLICA_SET], ids=["Deployment", "ReplicaSet"])
def test_odd_statuses_of_workloads_end_nothing(world: World, kind: ResourceKind) -> None:
    statuses = Statuses(seed=3)
    world.create(DEPLOYMENT, deployment("web"))
    owned = world.until(lambda: world.list(REPLICA_SET, "app=web"))[0]["metadata"]["name"]
    name = "web" if kind is DEPLOYMENT else owned
    codes = set()

    for _ in range(ROUNDS):
        status = statuses.workload()
        codes.add(write(world, kind, name, status))
        codes.add(write(world, kind, name, statuses.odd(status)))

    assert 200 in codes
    world.patch(DEPLOYMENT, "web", {"spec": {"replicas": 2}})
    world.until(
        lambda: (world.get(DEPLOYMENT, "web").get("status") or {}).get("availableReplicas") == 2
    )
    everything_goes_on(world, "later")
