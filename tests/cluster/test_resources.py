"""Extended resources other than whole GPUs, and stock pools with a placement, on every server."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import DEPLOYMENT, NODE, POD, STOCK_POOL, Manifest
from gpuplatform.kube.modes import get_cluster
from gpuplatform.samples.capacity import ProductCapacity
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import GpuSpec
from inventory.requests.pools import StockPoolPatch
from inventory.services.pools import pool_update
from tests.cluster.control import Control
from tests.cluster.pools import Pools
from tests.cluster.servers import GPUS, NODES, SLICE, SLICES
from tests.cluster.tenant_units import Units
from tests.cluster.world import World
from units.capacity import capacity
from units.models import GpuUnit
from units.nodes import compare_nodes
from units.phases import UnitReason
from units.requests import StockSeed
from units.services.stock import stock_seed

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

NODE_NAME = "gpu-node-3"
"""The fixture `control` shows on another one that the kubelets have read it."""
ON_THE_NODE = {"nodeSelector": {"kubernetes.io/hostname": NODE_NAME}}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture
def mixed(units: Units) -> Units:
    """Two GPU specs whose units run on one node: whole GPUs, and MIG slices."""
    GpuSpec.objects.create(name="g1.1", gpu=1, placement=ON_THE_NODE)
    GpuSpec.objects.create(name="mig", gpu=1, resource_name=SLICE, placement=ON_THE_NODE)
    return units


@pytest.fixture
def tainted(world: World) -> Iterator[Cluster]:
    """The node has the taint with which providers keep other pods from GPU nodes."""
    world.cluster.merge_patch(NODE, NODE_NAME, {"spec": {"taints": [TAINT]}})
    yield world.cluster
    world.cluster.merge_patch(NODE, NODE_NAME, {"spec": {"taints": None}})


def products() -> dict[str, ProductCapacity]:
    compare_nodes(get_cluster())
    return {product.resource_name: product for product in capacity().products or ()}


def limits(pod: Manifest) -> dict[str, str]:
    found: dict[str, str] = pod["spec"]["containers"][0]["resources"]["limits"]
    return found


def test_mig_slices_and_whole_gpus_of_a_node_are_counted_separately(mixed: Units) -> None:
    whole = mixed.seed(GPUS)
    slices = mixed.seed(SLICES, specName="mig")

    found = products()
    assert (found[GPU_RESOURCE].free, found[GPU_RESOURCE].allocatable) == (
        (NODES - 1) * GPUS,
        NODES * GPUS,
    )
    assert (found[SLICE].free, found[SLICE].allocatable) == ((NODES - 1) * SLICES, NODES * SLICES)
    for row, resource in ((whole[0], GPU_RESOURCE), (slices[0], SLICE)):
        [pod] = mixed.pods(row)
        assert (pod["spec"]["nodeName"], row.resource_name) == (NODE_NAME, resource)
        assert {name for name in limits(pod) if "/" in name} == {resource}


def test_a_unit_has_the_slice_of_its_stock(mixed: Units) -> None:
    mixed.seed(SLICES, specName="mig")

    mixed.create("a", specName="mig")
    row = mixed.settle("a", "Ready")

    [pod] = mixed.pods(row)
    assert limits(pod)[SLICE] == "1"
    assert GPU_RESOURCE not in limits(pod)
    assert products()[SLICE].gpus["active"] == 1


def test_more_slices_than_the_node_has_are_unschedulable(mixed: Units) -> None:
    mixed.seed(SLICES, specName="mig")
    asked = StockSeed.parse({"operationID": "more", "specName": "mig", "replicas": 1})

    operation = mixed.finish(stock_seed(tenant=mixed.tenant, body=asked))
    [extra] = operation.gpu_units.all()
    mixed.until(lambda: GpuUnit.objects.get(pk=extra.pk).phase == "Failed")

    extra.refresh_from_db()
    assert extra.cause == StartupCause.UNSCHEDULABLE


def test_lost_slices_withhold_only_the_stock_that_holds_slices(
    mixed: Units, control: Control
) -> None:
    [whole], [held] = mixed.seed(1), mixed.seed(1, specName="mig")

    def reason(row: GpuUnit) -> str:
        compare_nodes(mixed.cluster)
        mixed.tick()
        return str(GpuUnit.objects.get(pk=row.pk).reason)

    control.node(NODE_NAME, resources={SLICE: 0})
    mixed.until(lambda: reason(held) == UnitReason.STOCK_WITHHELD)
    assert reason(whole) == UnitReason.STOCK_READY

    control.clear()
    mixed.until(lambda: reason(held) == UnitReason.STOCK_READY)


def test_a_changed_catalogue_restarts_no_pod(mixed: Units) -> None:
    [row] = mixed.seed(1, specName="mig")
    [before] = mixed.pods(row)
    generation = mixed.deployment(row)["metadata"]["generation"]

    GpuSpec.objects.update(resource_name=GPU_RESOURCE, resources={"rdma/hca": "1"}, placement={})
    mixed.tick()
    mixed.tick()

    [after] = mixed.pods(row)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert mixed.deployment(row)["metadata"]["generation"] == generation
    row.refresh_from_db()
    assert (row.phase, row.resource_name) == ("Ready", SLICE)


def test_a_pool_runs_on_a_tainted_node_with_the_placement_of_its_spec(
    pools: Pools, tainted: Cluster
) -> None:
    placement = {**ON_THE_NODE, "tolerations": [TOLERATION]}
    GpuSpec.objects.create(name="tainted", gpu=1, resource_name=SLICE, placement=placement)

    pools.create("a", specName="tainted", gpu=1)
    pools.settle("a", "Ready")

    stored = pools.cluster.get(STOCK_POOL, "a", namespace=pools.namespace)
    assert stored is not None
    assert stored["spec"]["placement"] == placement
    assert stored["spec"]["resourceName"] == SLICE
    [pod] = pools.live(POD)
    assert (pod["spec"]["nodeName"], limits(pod)[SLICE]) == (NODE_NAME, "1")

    GpuSpec.objects.update(placement={}, resource_name=GPU_RESOURCE)
    pools.reconcile("a")
    pools.settle("a", "Ready")
    assert [one["metadata"]["uid"] for one in pools.live(POD)] == [pod["metadata"]["uid"]]


def test_a_pool_with_its_own_placement_needs_its_own_toleration(
    pools: Pools, tainted: Cluster
) -> None:
    GpuSpec.objects.create(name="tainted", gpu=1, placement={"tolerations": [TOLERATION]})
    pools.create("a", specName="tainted", gpu=1, placement=ON_THE_NODE)

    row = pools.settle("a", "Failed", "PodStartupFailed")
    assert row.cause == StartupCause.UNSCHEDULABLE

    change: dict[str, Any] = {"placement": {**ON_THE_NODE, "tolerations": [TOLERATION]}}
    accepted = pool_update(
        tenant=pools.tenant,
        namespace=pools.namespace,
        name="a",
        body=StockPoolPatch.parse({"operationID": "tolerate", **change}),
    )
    assert pools.work(accepted).phase == "Succeeded"
    pools.settle("a", "Ready")
    [deployment] = pools.live(DEPLOYMENT)
    assert deployment["spec"]["template"]["spec"]["tolerations"] == [TOLERATION]
