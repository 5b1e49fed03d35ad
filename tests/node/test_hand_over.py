"""The hand-over on real nodes: when the pod of a unit may start, and where."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import NODE, POD, Manifest
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.start_steps import StartStep
from tests.cluster.tenant_units import Units
from tests.node.cluster import NodeCluster
from tests.node.images import APP
from tests.node.node import Node
from tests.node.pod_events import PodEvents, following, has_ended
from tests.node.pods import HTTP
from units.models import GpuUnit

pytestmark = [
    pytest.mark.node,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

MEMORY = "64Mi"
FINALIZER = "test.example.com/keep"


@pytest.fixture
def events(cluster: Cluster) -> Iterator[PodEvents]:
    """The events of pods during the test."""
    with following(cluster) as found:
        yield found


def stock_pod(units: Units, stock: GpuUnit) -> Manifest:
    """Return the pod of a stock unit."""
    [pod] = units.pods(stock)
    return pod


def node_of(nodes: NodeCluster, pod: Manifest) -> Node:
    """Return the node of a pod."""
    return next(node for node in nodes.nodes if node.name == pod["spec"]["nodeName"])


def is_in_order(events: PodEvents, stock: GpuUnit, unit: str) -> bool:
    """Return whether the pod of the unit was created after the pod of its stock had ended."""
    ended, created = events.ended(stock.name), events.created(unit)
    assert ended is not None
    assert created is not None
    return ended < created


def test_a_unit_starts_while_the_ended_pod_of_its_stock_exists(
    units: Units, events: PodEvents
) -> None:
    [stock] = units.seed(1, memory=MEMORY)
    pod = stock_pod(units, stock)
    kept = {"metadata": {"finalizers": [FINALIZER]}}
    name, place = pod["metadata"]["name"], pod["metadata"]["namespace"]
    units.cluster.merge_patch(POD, name, kept, namespace=place)

    units.create("a", image=APP, template=HTTP)
    units.settle("a", "Ready", "UnitReady")

    assert has_ended(stock_pod(units, stock))
    assert is_in_order(events, stock, "a")
    free = {"metadata": {"finalizers": None}}
    units.cluster.merge_patch(POD, name, free, namespace=place)


def test_a_unit_waits_for_a_stock_pod_that_ignores_sigterm(
    units: Units, nodes: NodeCluster, events: PodEvents
) -> None:
    [stock] = units.seed(1, memory=MEMORY)
    pod = stock_pod(units, stock)
    # A stopped process handles no signal until SIGKILL.
    node_of(nodes, pod).signal_container(pod, "STOP")

    units.create("a", image=APP, template=HTTP)
    units.settle("a", "Ready", "UnitReady")

    assert is_in_order(events, stock, "a")
    killed = [
        status["state"]["terminated"]["exitCode"]
        for ended in events.pods_of(stock.name)
        if has_ended(ended)
        for status in ended["status"]["containerStatuses"]
    ]
    assert killed[-1] == 137


def test_a_unit_waits_while_the_kubelet_of_its_stock_is_down(
    units: Units, nodes: NodeCluster, events: PodEvents
) -> None:
    [stock] = units.seed(1, memory=MEMORY)
    node = node_of(nodes, stock_pod(units, stock))

    node.kill("kubelet")
    try:
        units.create("a", image=APP, template=HTTP)
        units.until(lambda: stock_pod(units, stock)["metadata"].get("deletionTimestamp"))
        units.settle("a", "Progressing", "WaitingForStock")
        assert units.pods(units.row("a")) == []
    finally:
        node.start_kubelet()
    units.settle("a", "Ready", "UnitReady")

    assert is_in_order(events, stock, "a")
    nodes.wait_until_ready()  # The device plugin has registered again.


def test_a_slow_pull_is_a_step_of_the_start(units: Units, nodes: NodeCluster) -> None:
    units.seed(1, memory=MEMORY)

    units.create("a", image=f"{nodes.registry}/slow/large:1", template=HTTP)
    units.until(lambda: _steps(units.row("a"))[-1:] == [StartStep.IMAGE_PULL])
    in_progress = units.row("a")
    row = units.settle("a", "Ready", "UnitReady")

    assert in_progress.start_steps[-1].get("seconds") is None
    assert _steps(row) == list(StartStep)
    pull = row.start_steps[1]
    assert pull["seconds"] >= 2
    assert "Image size" in pull["message"]


def test_a_unit_starts_on_another_node_if_its_node_cannot_pull_the_image(
    units: Units, nodes: NodeCluster
) -> None:
    with_image, without = nodes.nodes
    image = f"{nodes.registry}/half:1"
    assert with_image.run("ctr", "-n", "k8s.io", "images", "tag", APP, image).returncode == 0
    with cordoned(units.cluster, with_image):
        [first] = units.seed(1, memory=MEMORY)
    with cordoned(units.cluster, without):
        [second, third] = units.seed(2, memory=MEMORY)

    with cordoned(units.cluster, with_image):
        units.create("a", image=image, template=HTTP)
        units.until(lambda: units.pods(units.row("a")))
    row = units.settle_elsewhere("a", "Ready")

    assert row.avoided_node == without.name
    assert node_of(nodes, units.pods(row)[0]) is with_image
    assert [_consumer(stock) for stock in (first, second, third)] == [row.uid, row.uid, ""]


def test_a_pull_that_fails_on_a_second_node_is_a_failure(units: Units, nodes: NodeCluster) -> None:
    first, second = nodes.nodes
    with cordoned(units.cluster, second):
        units.seed(1, memory=MEMORY)
    with cordoned(units.cluster, first):
        units.seed(2, memory=MEMORY)

    with cordoned(units.cluster, second):
        units.create("a", image=f"{nodes.registry}/missing:2")
        units.until(lambda: units.pods(units.row("a")))
    row = units.settle_elsewhere("a", "Failed")

    assert (row.cause, row.avoided_node) == (StartupCause.IMAGE_PULL_FAILED, first.name)
    assert node_of(nodes, units.pods(row)[0]) is second
    assert GpuUnit.objects.filter(role="stock", consumed_by="", deleted_at=None).count() == 1


def _steps(row: GpuUnit) -> list[str]:
    return [step["step"] for step in row.start_steps]


def _consumer(stock: GpuUnit) -> str:
    stock.refresh_from_db()
    return stock.consumed_by


@contextmanager
def cordoned(cluster: Cluster, node: Node) -> Iterator[None]:
    """Let no pod be placed on the node during the block."""
    cluster.merge_patch(NODE, node.name, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        cluster.merge_patch(NODE, node.name, {"spec": {"unschedulable": None}})
