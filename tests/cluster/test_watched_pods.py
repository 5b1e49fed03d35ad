"""What the controller sees of pods and nodes reaches the rows that it is about."""

import itertools
import threading
from functools import partial

import pytest
from django.db.models import QuerySet

from gpuplatform.kube.kinds import POD
from gpuplatform.planning.ownership import POOL_LABEL, UNIT_LABEL
from inventory.models import StockPool
from tests.cluster.control import Control
from tests.cluster.pools import Pools
from tests.cluster.tenant_units import Units
from tests.cluster.world import World
from units.models import GpuUnit
from units.services.names import UnitTask

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

NUMBERS = itertools.count(1)


def is_marked_by_its_pod(
    pools: Pools, rows: QuerySet[StockPool] | QuerySet[GpuUnit], label: str
) -> bool:
    """Have something happen to the pod that changes nothing else; say whether the row is due."""
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
    pools.create("a")
    pools.settle("a", "Ready")
    units.seed(1)
    units.create("b")
    units.settle("b", "Ready")
    watching.set()

    # Resources that earlier tests left get rows, too: the names alone do not tell them apart.
    here = {"namespace": pools.namespace}
    for rows, label in (
        (StockPool.objects.filter(name="a", **here), POOL_LABEL),
        (GpuUnit.objects.filter(name="b", **here), UNIT_LABEL),
    ):
        Pools.wait(
            partial(is_marked_by_its_pod, pools, rows, label), lambda: "it was never marked"
        )
        # The lists with which the watch begins mark, too: only what follows is proof.
        assert [is_marked_by_its_pod(pools, rows, label) for _ in range(3)] == [True] * 3


def test_when_a_node_loses_gpus_the_nodes_are_compared(
    installed: World,
    control: Control,
    watching: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        "gpuplatform.processes.controller.enqueue", lambda task, *_, **__: told.append(task)
    )
    watching.set()
    installed.until(lambda: told.count(UnitTask.COMPARE_NODES) == 1)  # The first list.

    control.node("gpu-node-3", gpus=2)

    installed.until(lambda: told.count(UnitTask.COMPARE_NODES) > 1)
