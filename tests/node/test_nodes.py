"""The nodes themselves: what a kubelet reports, GPUs, pulls, policies."""

import pytest

from gpuplatform.kube.kinds import NODE, POD
from tests.cluster.controlplane.programs import KUBERNETES
from tests.cluster.world import World, condition, is_ready
from tests.node.cluster import NodeCluster
from tests.node.node import GPUS
from tests.node.pods import address, describe, reaches, run_app

pytestmark = pytest.mark.node

POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
HOSTNAME = "kubernetes.io/hostname"


def test_nodes_are_ready_and_offer_their_gpus(world: World, nodes: NodeCluster) -> None:
    found = {node["metadata"]["name"]: node for node in world.cluster.list(NODE).items}

    assert set(found) == {node.name for node in nodes.nodes}
    for node in found.values():
        assert condition(node, "Ready")["status"] == "True"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == str(GPUS)
        version = "v" + ".".join(map(str, KUBERNETES))
        assert node["status"]["nodeInfo"]["kubeletVersion"] == version
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")


def test_an_unhealthy_gpu_cannot_be_allocated(world: World, nodes: NodeCluster) -> None:
    first = nodes.nodes[0]

    def allocatable(count: int) -> bool:
        status = world.get(NODE, first.name)["status"]
        return bool(status["allocatable"]["nvidia.com/gpu"] == str(count))

    first.set_gpu_health(3, is_healthy=False)
    try:
        world.until(lambda: allocatable(GPUS - 1))
    finally:
        first.set_gpu_health(3, is_healthy=True)
    world.until(lambda: allocatable(GPUS))


def test_pods_outlive_a_killed_kubelet(world: World, nodes: NodeCluster) -> None:
    first = nodes.nodes[0]
    pod = run_app(world, "survivor", first.name)

    first.kill("kubelet")
    description = describe(address(pod))
    first.start_kubelet()

    assert description["hostname"] == "survivor"
    late = run_app(world, "late", first.name)
    assert is_ready(world.get(POD, "survivor"))
    assert late["status"]["hostIP"] == first.address
    nodes.wait_until_ready()  # The device plugin has registered again.


def test_an_image_is_pulled_from_the_registry(world: World, nodes: NodeCluster) -> None:
    image = f"{nodes.registry}/app:1"
    container = {"name": "app", "image": image, "imagePullPolicy": "Always"}
    world.create(POD, {"metadata": {"name": "pulled"}, "spec": {"containers": [container]}})

    world.until(lambda: is_ready(world.get(POD, "pulled")))

    [status] = world.get(POD, "pulled")["status"]["containerStatuses"]
    assert status["imageID"].startswith(f"{nodes.registry}/app@sha256:")


@pytest.mark.policies
def test_a_network_policy_is_in_force_on_every_node(world: World, nodes: NodeCluster) -> None:
    first, second = (node.name for node in nodes.nodes)
    server = run_app(world, "server", first, role="server")
    allowed = [run_app(world, f"allowed-{name}", name, role="client") for name in (first, second)]
    other = [run_app(world, f"other-{name}", name, role="other") for name in (first, second)]
    assert all(reaches(pod, server) for pod in [*allowed, *other])

    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "clients"},
        "spec": {
            "podSelector": {"matchLabels": {"role": "server"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"role": "client"}}}]}],
        },
    }
    reply = world.http("POST", POLICIES.format(world.namespace), policy)

    assert reply.status == 201
    world.until(lambda: not any(reaches(pod, server) for pod in other))
    assert all(reaches(pod, server) for pod in allowed)
