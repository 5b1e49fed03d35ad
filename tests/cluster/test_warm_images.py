"""Warm images on every server: pullers run on nodes with stock, and claims prefer these nodes."""

from collections.abc import Iterator

import pytest

from gpuplatform.kube.kinds import NODE, POD, Manifest
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec
from tests.cluster.pools import Pools
from tests.cluster.tenant_units import Units
from units.core.pullers import PULLER_LABEL
from units.models import GpuUnit, WarmImage
from units.nodes import compare_nodes
from units.phases import STOCK_NAMESPACE, WarmImageState
from units.pullers import keep_warm_images

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

IMAGE = "registry.example.com/team/model:1"
MISSING = "registry.example.invalid/team/model:1"


@pytest.fixture
def stock(units: Units) -> Iterator[list[GpuUnit]]:
    """Stock units on two nodes, each with all GPUs of its node, oldest first."""
    yield units.seed(2, gpu=8)
    keep(units)
    Pools.wait(lambda: not pullers(units), lambda: "pullers are left", 60)


def pullers(units: Units) -> list[Manifest]:
    selector = PULLER_LABEL
    return units.cluster.list(POD, namespace=STOCK_NAMESPACE, label_selector=selector).items


def keep(units: Units, *images: str) -> None:
    """Set the warm images, and create and delete the pullers."""
    GpuSpec.objects.update(warm_images=list(images))
    keep_warm_images(units.cluster)


def wait_for(units: Units, state: WarmImageState, number: int) -> None:
    def reached() -> bool:
        keep_warm_images(units.cluster)
        return WarmImage.objects.filter(state=state).count() == number

    Pools.wait(reached, lambda: str(list(WarmImage.objects.values())), 60)


def located(units: Units, rows: list[GpuUnit]) -> list[str]:
    """Record the nodes, and return the node of each row."""
    compare_nodes(units.cluster)
    return [GpuUnit.objects.get(pk=row.pk).node for row in rows]


def has_image(units: Units, node: str, image: str) -> bool:
    found = units.cluster.get(NODE, node)
    assert found is not None
    return any(image in one["names"] for one in found["status"].get("images") or [])


def pod_uids(units: Units, rows: list[GpuUnit]) -> list[str]:
    return [pod["metadata"]["uid"] for row in rows for pod in units.pods(row)]


def test_a_claim_takes_the_stock_on_the_node_that_reports_the_image(
    units: Units, stock: list[GpuUnit]
) -> None:
    first, second = located(units, stock)
    image = f"registry.example.com/team/{units.namespace}:1"  # No other test uses it.
    container = {"name": "model", "image": image}
    spec = {"nodeName": second, "containers": [container]}
    pod = {"metadata": {"name": "model", "namespace": units.namespace}, "spec": spec}
    units.cluster.create(POD, {"apiVersion": "v1", "kind": "Pod", **pod})
    Pools.wait(lambda: has_image(units, second, image), lambda: "the node reports no image", 60)
    compare_nodes(units.cluster)

    units.create("a", image=image)
    row = units.settle("a", "Ready")

    assert (first != second, row.source_uid) == (True, stock[1].uid)
    assert GpuUnit.objects.get(pk=stock[1].pk).is_warm_start
    [unit_pod] = units.pods(row)
    assert unit_pod["spec"]["nodeName"] == second


def test_warm_images_come_to_all_nodes_of_stock_without_a_restart(
    units: Units, stock: list[GpuUnit]
) -> None:
    nodes, before = located(units, stock), pod_uids(units, stock)

    keep(units, IMAGE)
    wait_for(units, WarmImageState.PRESENT, 2)

    assert {pod["spec"]["nodeName"] for pod in pullers(units)} == set(nodes)
    assert set(WarmImage.objects.values_list("node", flat=True)) == set(nodes)
    assert pod_uids(units, stock) == before
    assert all(GpuUnit.objects.get(pk=row.pk).phase == "Ready" for row in stock)
    units.create("a", image=IMAGE)
    assert GpuUnit.objects.filter(consumed_by__gt="", is_warm_start=True).count() == 1


def test_a_failed_pull_is_reported_and_stock_stays_claimable(
    units: Units, stock: list[GpuUnit]
) -> None:
    located(units, stock)

    keep(units, MISSING, IMAGE)
    wait_for(units, WarmImageState.FAILED, 2)
    wait_for(units, WarmImageState.PRESENT, 2)

    failed = WarmImage.objects.filter(image=MISSING)
    assert set(failed.values_list("cause", flat=True)) == {StartupCause.IMAGE_PULL_FAILED}
    units.create("a", image=IMAGE)
    units.settle("a", "Ready")


def test_pullers_end_with_the_list(units: Units, stock: list[GpuUnit]) -> None:
    located(units, stock)
    keep(units, IMAGE)
    wait_for(units, WarmImageState.PRESENT, 2)

    keep(units)

    Pools.wait(lambda: not pullers(units), lambda: "pullers are left", 60)
    assert not WarmImage.objects.exists()
