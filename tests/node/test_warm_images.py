"""Warm images on real nodes: the images that a kubelet reports, and pods that keep them."""

from collections.abc import Callable, Iterator

import pytest

from gpuplatform.formats.image import canonical
from gpuplatform.kube.kinds import POD
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec
from tests.cluster.pools import Pools
from tests.cluster.tenant_units import Units
from tests.cluster.world import World
from tests.node.cluster import NodeCluster
from tests.node.images import BUSYBOX
from tests.node.pods import HTTP
from units.core.pullers import PULLER_LABEL
from units.models import GpuUnit, NodeImages, WarmImage
from units.nodes import compare_nodes
from units.phases import STOCK_NAMESPACE, WarmImageState
from units.pullers import keep_warm_images

pytestmark = [
    pytest.mark.node,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

SECONDS = 60.0
"""A kubelet reports new images with its next status, within ten seconds."""


@pytest.fixture
def stock(units: Units) -> Iterator[list[GpuUnit]]:
    """A stock unit on each node, with all GPUs of the node, oldest first."""
    yield units.seed(2, gpu=8, memory="64Mi")
    keep(units)
    wait(lambda: not pullers(units))


def wait(met: Callable[[], bool]) -> None:
    Pools.wait(met, lambda: str(list(WarmImage.objects.values())), SECONDS)


def pullers(units: Units) -> list[str]:
    found = units.cluster.list(POD, namespace=STOCK_NAMESPACE, label_selector=PULLER_LABEL).items
    return [pod["spec"]["nodeName"] for pod in found]


def keep(units: Units, *images: str) -> None:
    GpuSpec.objects.update(warm_images=list(images))
    keep_warm_images(units.cluster)


def reached(units: Units, state: WarmImageState, image: str, number: int) -> bool:
    keep_warm_images(units.cluster)
    rows = WarmImage.objects.filter(state=state, image=canonical(image))
    return rows.count() == number


def nodes_with(units: Units, image: str) -> set[str]:
    compare_nodes(units.cluster)
    return {row.name for row in NodeImages.objects.all() if canonical(image) in row.images}


def test_a_claim_takes_the_stock_of_the_node_that_has_the_image(
    units: Units, world: World, nodes: NodeCluster, stock: list[GpuUnit]
) -> None:
    image = f"{nodes.registry}/app:one"
    compare_nodes(units.cluster)
    first, second = (GpuUnit.objects.get(pk=row.pk).node for row in stock)
    container = {"name": "app", "image": image}
    spec = {"nodeName": second, "terminationGracePeriodSeconds": 1, "containers": [container]}
    world.create(POD, {"metadata": {"name": "app"}, "spec": spec})
    wait(lambda: nodes_with(units, image) == {second})

    units.create("a", image=image, template=HTTP)
    row = units.settle("a", "Ready", "UnitReady")

    assert (first != second, row.source_uid) == (True, stock[1].uid)
    [pod] = units.pods(row)
    assert pod["spec"]["nodeName"] == second
    assert GpuUnit.objects.get(pk=stock[1].pk).is_warm_start


def test_a_warm_image_comes_to_both_nodes_without_a_restart_of_stock(
    units: Units, nodes: NodeCluster, stock: list[GpuUnit]
) -> None:
    # It contains no program `sleep`, so that the containers of its pullers cannot start.
    image = f"{nodes.registry}/app:two"
    compare_nodes(units.cluster)
    before = [pod["metadata"]["uid"] for row in stock for pod in units.pods(row)]

    keep(units, image, BUSYBOX)
    wait(lambda: reached(units, WarmImageState.PRESENT, image, 2))
    wait(lambda: reached(units, WarmImageState.PRESENT, BUSYBOX, 2))
    wait(lambda: nodes_with(units, image) == {node.name for node in nodes.nodes})

    assert [pod["metadata"]["uid"] for row in stock for pod in units.pods(row)] == before
    units.create("a", image=image, template=HTTP)
    units.settle("a", "Ready", "UnitReady")
    assert GpuUnit.objects.filter(consumed_by__gt="", is_warm_start=True).count() == 1


def test_an_image_that_cannot_be_pulled_is_reported_and_affects_no_stock(
    units: Units, nodes: NodeCluster, stock: list[GpuUnit]
) -> None:
    image = f"{nodes.registry}/missing:1"
    compare_nodes(units.cluster)

    keep(units, image)
    wait(lambda: reached(units, WarmImageState.FAILED, image, 2))

    causes = set(WarmImage.objects.values_list("cause", flat=True))
    assert causes == {StartupCause.IMAGE_PULL_FAILED}
    units.create("a", image=BUSYBOX, template={"command": ["sh", "-c", "sleep 1000"]})
    units.settle("a", "Ready", "UnitReady")
