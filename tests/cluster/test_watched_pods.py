"""Watch events of pods and nodes mark the rows that they affect."""

import itertools
import threading
from functools import partial

import pytest
from django.db.models import QuerySet

from gpuplatform.kube.kinds import POD
from gpuplatform.planning.ownership import POOL_LABEL, UNIT_LABEL
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import Node, StockPool
from tests.cluster.control import Control
from tests.cluster.pools import Pools
from tests.cluster.tenant_units import Units
from tests.cluster.world import World
from units.models import GpuUnit

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

NUMBERS = itertools.count(1)


def is_marked_by_its_pod(
    pools: Pools, rows: QuerySet[StockPool] | QuerySet[GpuUnit], label: str
) -> bool:
    """Change only the pod; return whether the row becomes due."""
    row = rows.get()
    rows.update(due_at=None)
    selector = f"{label}={row.name}"
    [pod] = pools.cluster.list(POD, namespace=row.namespace, label_selector=selector).items
    touched = {"metadata": {"annotations": {"example.com/touched": str(next(NUMBERS))}}}
    pools.cluster.merge_patch(POD, pod["metadata"]["name"], touched, namespace=row.namespace)
    marked = rows.filter(due_seq__gt=row.due_seq, due_at__isnull=False)
    pause = threading.Event()
    return any(marked.exists() or pause.wait(0.05) for _ in range(40))


@pytest.mark.long
def test_a_pods_event_marks_its_unit_and_its_pool(
    pools: Pools, units: Units, watching: threading.Event
) -> None:
    # The API creates no pool in the namespace of a tenant.
    pools.by_hand("a", {"specName": "g1.1", "replicas": 1})
    pools.settle("a", "Ready")
    units.seed(1)
    units.create("b")
    units.settle("b", "Ready")
    watching.set()

    # Resources of earlier tests get rows, too: names alone do not identify a row.
    here = {"namespace": pools.namespace}
    for rows, label in (
        (StockPool.objects.filter(name="a", **here), POOL_LABEL),
        (GpuUnit.objects.filter(name="b", **here), UNIT_LABEL),
    ):
        Pools.wait(
            partial(is_marked_by_its_pod, pools, rows, label), lambda: "it was never marked"
        )
        # The initial lists of the watch mark rows, too: only later marks count.
        assert [is_marked_by_its_pod(pools, rows, label) for _ in range(3)] == [True] * 3


def test_a_node_that_loses_gpus_is_recorded_at_once(
    installed: World, control: Control, watching: threading.Event
) -> None:
    def gpus() -> str:
        found = Node.objects.filter(name="gpu-node-3").values_list("allocatable", flat=True)
        return str((found.first() or {}).get(GPU_RESOURCE, ""))

    watching.set()
    installed.until(lambda: gpus() == "8")

    control.node("gpu-node-3", gpus=2)

    installed.until(lambda: gpus() == "2")
