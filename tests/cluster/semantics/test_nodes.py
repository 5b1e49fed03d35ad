"""Failed nodes and their pods, on every server."""

import json
import urllib.request

import pytest

from gpuplatform.dev.simulator.kubelet.behaviour import ECHO_IMAGE
from gpuplatform.dev.simulator.kubelet.echo import LOCAL_ADDRESS
from gpuplatform.kube.kinds import LEASE, NODE, POD
from tests.cluster.control import Control
from tests.cluster.world import World, condition, container, is_ready, pod

pytestmark = pytest.mark.cluster
NODE_NAME = "gpu-node-3"
GONE_SECONDS = 120.0
"""A real server waits for 40 seconds and checks every 20 seconds."""


def on_the_node(world: World, name: str) -> None:
    world.create(POD, pod(name, nodeSelector={"kubernetes.io/hostname": NODE_NAME}))
    world.until(lambda: is_ready(world.get(POD, name)))


def taints(world: World) -> set[str]:
    return {taint["key"] for taint in world.get(NODE, NODE_NAME)["spec"].get("taints") or []}


def test_a_node_has_gpus_a_product_and_a_lease(world: World) -> None:
    node = world.get(NODE, NODE_NAME)
    lease = world.cluster.get(LEASE, NODE_NAME, namespace="kube-node-lease")

    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert condition(node, "Ready")["reason"] == "KubeletReady"
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == NODE_NAME


@pytest.mark.lasts(seconds=20)
@pytest.mark.real_only(reason="the simulator watches no leases: its nodes say that they fail")
def test_a_failed_node_becomes_unknown_and_tainted(world: World, control: Control) -> None:
    on_the_node(world, "one")

    control.node(NODE_NAME, failed=True)

    world.until(
        lambda: condition(world.get(NODE, NODE_NAME), "Ready")["status"] == "Unknown", seconds=60
    )
    world.until(lambda: "node.kubernetes.io/unreachable" in taints(world))
    world.until(lambda: not is_ready(world.get(POD, "one")))
    assert world.get(POD, "one")["status"]["phase"] == "Running"


def test_a_pod_on_a_failed_node_stays_terminating(world: World, control: Control) -> None:
    on_the_node(world, "one")
    control.node(NODE_NAME, failed=True)

    world.delete(POD, "one")

    assert "deletionTimestamp" in world.get(POD, "one")["metadata"]
    control()
    world.gone(POD, "one")


@pytest.mark.lasts(seconds=60)
@pytest.mark.timeout(400)
def test_pods_of_a_deleted_node_are_deleted(world: World, control: Control) -> None:
    on_the_node(world, "one")
    on_the_node(world, "two")
    control.lose(NODE_NAME)
    world.delete(POD, "two")

    assert "deletionTimestamp" in world.get(POD, "two")["metadata"]
    assert world.get(POD, "one")["status"]["phase"] == "Running"
    world.until(lambda: not world.list(POD), seconds=GONE_SECONDS)


def test_pods_of_a_node_without_memory_are_evicted(world: World, control: Control) -> None:
    on_the_node(world, "one")

    control.node(NODE_NAME, evict=True)

    world.until(lambda: world.get(POD, "one")["status"]["phase"] == "Failed")
    found = world.get(POD, "one")["status"]
    assert found["reason"] == "Evicted"
    assert "The node was low on resource: memory" in found["message"]
    world.until(lambda: "node.kubernetes.io/memory-pressure" in taints(world))


def test_a_new_pod_of_a_node_without_memory_is_evicted(world: World, control: Control) -> None:
    control.node(NODE_NAME, evict=True)
    world.until(lambda: "node.kubernetes.io/memory-pressure" in taints(world))

    world.create(POD, pod("one", nodeName=NODE_NAME))

    world.until(lambda: world.get(POD, "one")["status"]["phase"] == "Failed")
    found = world.get(POD, "one")["status"]
    assert found["reason"] == "Evicted"
    assert not found.get("containerStatuses")


def test_terminating_pods_can_be_held(world: World, control: Control) -> None:
    on_the_node(world, "one")
    on_the_node(world, "witness")
    control(holdTerminating=True, startDelaySeconds=0)
    on_the_node(world, "later")

    world.delete(POD, "one")

    assert "deletionTimestamp" in world.get(POD, "one")["metadata"]
    control()
    world.gone(POD, "one")


def test_the_echo_image_responds_on_its_local_address(world: World) -> None:
    world.create(POD, pod("one", container(image=ECHO_IMAGE)))
    address = world.until(
        lambda: (world.get(POD, "one")["metadata"].get("annotations") or {}).get(LOCAL_ADDRESS)
    )

    with urllib.request.urlopen(f"http://{address}/some/path", timeout=5) as response:
        received = json.load(response)

    assert received["pod"] == f"{world.namespace}/one"
    assert (received["method"], received["path"]) == ("GET", "/some/path")
