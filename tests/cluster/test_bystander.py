"""A unit gets the GPU of its stock although another pod waits; other stock keeps its GPUs.

All GPUs of a node are in stock, and a foreign pod waits for one. Without the unit's priority that
pod would get the released GPU. The planner's tests and the model check that the unit waits for the
end of the stock's pods: this scheduler waits for it, too.
"""

from functools import partial

import pytest

from gpuplatform.kube.kinds import POD
from gpuplatform.planning.ownership import UNIT_LABEL
from tests.cluster.control import Control
from tests.cluster.tenant_units import Units
from tests.cluster.test_unit_cases import OTHER_NODE, on_one_node
from tests.cluster.world import World, condition, container, gpus, pod
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE, UnitRole

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.timeout(400),
    pytest.mark.lasts(seconds=45),
]

ROUNDS = 10
GPUS_OF_THE_NODE = 4


def waits(world: World, name: str) -> bool:
    """Return whether the pod is unschedulable."""
    found = world.get(POD, name)
    return condition(found, "PodScheduled").get("reason") == "Unschedulable"


def bystander(world: World, name: str) -> None:
    """Create a foreign pod that waits for a GPU of the node."""
    waiting = pod(name, container(resources=gpus(1)))
    waiting["spec"]["nodeSelector"] = {"kubernetes.io/hostname": OTHER_NODE}
    world.create(POD, waiting)
    world.until(lambda: waits(world, name))


def stock_pods(units: Units) -> dict[str, str]:
    """Return the UID of each stock unit's pod, by the unit's name."""
    rows = GpuUnit.objects.filter(role=UnitRole.STOCK, deleted_at__isnull=True)
    live = set(rows.values_list("name", flat=True))
    pods = units.cluster.list(POD, namespace=STOCK_NAMESPACE, label_selector=UNIT_LABEL).items
    found = {pod["metadata"]["labels"][UNIT_LABEL]: pod["metadata"]["uid"] for pod in pods}
    return {name: uid for name, uid in found.items() if name in live}


def is_gone(units: Units, name: str) -> bool:
    """Return whether the unit is deleted."""
    return units.row(name).deleted_at is not None


def test_the_unit_gets_the_gpu_and_no_other_stock_is_disturbed(
    installed: World, units: Units, control: Control
) -> None:
    control.node(OTHER_NODE, gpus=GPUS_OF_THE_NODE)
    on_one_node(OTHER_NODE)
    units.seed(GPUS_OF_THE_NODE)

    for number in range(ROUNDS):
        name = f"a-{number}"
        bystander(installed, f"waits-{number}")
        before = stock_pods(units)

        units.create(name)
        row = units.settle(name, "Ready", "UnitReady")

        units.until(lambda: len(stock_pods(units)) == GPUS_OF_THE_NODE - 1)
        after = stock_pods(units)
        assert after == {stock: uid for stock, uid in before.items() if stock != row.source_name}

        installed.delete(POD, f"waits-{number}")
        installed.gone(POD, f"waits-{number}")
        units.delete(name)
        units.until(partial(is_gone, units, name))
        units.seed(1)
