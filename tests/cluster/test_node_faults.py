"""Faults of a node at each step of a hand-over and of a seeding.

A unit of the GPU spec needs all GPUs of a node, and two nodes have the label of its placement.
Therefore, each of them has one stock unit, and the fault of a node concerns exactly one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from gpuplatform.kube.kinds import NODE
from gpuplatform.operations.services import Accepted
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import GpuSpec
from tests.cluster.control import GPUS, Control
from tests.cluster.servers import SLICE, SLICES
from tests.cluster.tenant_units import SPEC, Units
from tests.cluster.test_nodes import SECOND, THIRD, products, see
from units.models import GpuUnit
from units.nodes import compare_nodes
from units.phases import UnitPhase, UnitReason
from units.requests import StockSeed
from units.selectors import claimable_stock, stock_withheld
from units.services.stock import stock_seed

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    # Kubernetes deletes the pods of a deleted node after 40 to 60 s.
    pytest.mark.timeout(400),
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

LABEL = "example.com/table"
TAINT = {"key": "maintenance", "effect": "NoSchedule"}


@dataclass(frozen=True)
class NodeFault:
    """A fault of a node: a change of its object, its deletion, or what its kubelet reports."""

    cause: StartupCause
    """The cause for which stock on the node is withheld."""
    change: Mapping[str, Any] | None = None
    control: Mapping[str, Any] | None = None
    is_deletion: bool = False
    """The node fails and is deleted. At the end, a node with the same name is added."""
    labels: Mapping[str, str] | None = None
    """The labels with which a node that failed and was deleted is added again."""


PRESSURE = StartupCause.NODE_UNDER_PRESSURE
FAULTS = {
    "cordoned": NodeFault(StartupCause.NODE_CORDONED, {"spec": {"unschedulable": True}}),
    "tainted": NodeFault(StartupCause.NODE_TAINTED, {"spec": {"taints": [TAINT]}}),
    "relabelled": NodeFault(
        StartupCause.NODE_LABELS_DIFFER, {"metadata": {"labels": {LABEL: "no"}}}
    ),
    "not ready": NodeFault(StartupCause.NODE_NOT_READY, control={"notReady": True}),
    "sick device": NodeFault(StartupCause.GPUS_MISSING, control={"gpus": GPUS - 1}),
    "MemoryPressure": NodeFault(PRESSURE, control={"pressures": ["MemoryPressure"]}),
    "DiskPressure": NodeFault(PRESSURE, control={"pressures": ["DiskPressure"]}),
    "PIDPressure": NodeFault(PRESSURE, control={"pressures": ["PIDPressure"]}),
    "deleted": NodeFault(StartupCause.NODE_MISSING, is_deletion=True),
    "replaced": NodeFault(StartupCause.NODE_LABELS_DIFFER, labels={LABEL: "no"}),
}
STEPS = ("accepted", "created", "reconciled once", "reconciled twice", "bound", "ready")


@pytest.fixture
def faulty(units: Units, control: Control) -> Iterator[Callable[[str, NodeFault | None], None]]:
    """A function that sets the fault of a node, or removes it; all are removed at the end."""

    for name in (SECOND, THIRD):
        restore(units, name)
    placement = {"nodeSelector": {LABEL: "yes"}}
    GpuSpec.objects.create(name=SPEC, gpu=GPUS, placement=placement)
    yield partial(set_fault, units, control)
    for name in (SECOND, THIRD):
        restore(units, name)
    control.clear()
    for name in (SECOND, THIRD):
        metadata = {"labels": {LABEL: None}}
        units.cluster.merge_patch(NODE, name, {"metadata": metadata})


def set_fault(units: Units, control: Control, node: str, fault: NodeFault | None) -> None:
    if fault is None:
        restore(units, node)
        control.clear()
    elif fault.is_deletion:
        control.lose(node)
    elif fault.labels is not None:
        control.replace(node, **fault.labels)
    elif fault.change is not None:
        units.cluster.merge_patch(NODE, node, dict(fault.change))
    else:
        control.node(node, **(fault.control or {}))


def restore(units: Units, node: str) -> None:
    """Restore the fields of a node that the faults change, unless the node is deleted."""
    spec = {"unschedulable": None}
    found = units.cluster.get(NODE, node)
    if found is None:
        return
    if TAINT["key"] in {one["key"] for one in found["spec"].get("taints", [])}:
        spec["taints"] = None
    metadata = {"labels": {LABEL: "yes"}}
    units.cluster.merge_patch(NODE, node, {"metadata": metadata, "spec": spec})


def pass_time(units: Units) -> None:
    """Let the workers and the comparison of the nodes take one turn."""
    compare_nodes(units.cluster)
    units.run_operations()


def advance(units: Units, step: str, accepted: Accepted, is_bound: Callable[[], bool]) -> None:
    """Advance an accepted operation and its units to a step."""
    if step == "accepted":
        return
    units.finish(accepted)
    for _ in range({"reconciled once": 1, "reconciled twice": 2}.get(step, 0)):
        units.tick()
    if step == "bound":
        units.until(is_bound)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_unit_becomes_ready_whatever_happens_to_the_node_of_its_stock(
    units: Units,
    faulty: Callable[[str, NodeFault | None], None],
    fault: str,
    step: str,
) -> None:
    """It starts on the other node, unless its pod has a place on the node already."""
    units.seed(2, gpu=GPUS)
    see(units)
    accepted = units.accept("a")
    place = GpuUnit.objects.get(claimed_by=accepted.operation).node
    advance(units, step, accepted, lambda: has_place(units))
    if step == "ready":
        units.settle("a", "Ready")

    faulty(place, FAULTS[fault])
    is_lost = FAULTS[fault].is_deletion
    row = settled(units, besides=place if is_lost else "")
    assert not row.history.filter(phase=UnitPhase.FAILED).exists()
    assert GpuUnit.objects.get(uid=row.source_uid).consumed_by == row.uid
    is_sick = fault == "sick device" and row.node == place
    assert (row.reason == UnitReason.GPUS_MISSING) == is_sick
    assert sum(one.excess for one in products()) == int(is_sick)
    if step == "ready":
        assert (row.node == place) == (not is_lost)
        assert not row.history.filter(reason=UnitReason.STOPPED).exists()
    if step in {"accepted", "created"}:
        assert row.node != place

    faulty(place, None)
    see(units)
    assert units.row("a").reason == UnitReason.UNIT_READY
    assert sum(one.excess for one in products()) == 0
    if is_lost and step == "ready":
        # The pod of the unit has preempted the stock unit, which has a place again.
        units.until(lambda: claimable_nodes(units) == [place])


@pytest.mark.parametrize("step", STEPS)
def test_lost_slices_do_not_concern_a_unit_with_whole_gpus(
    units: Units,
    faulty: Callable[[str, NodeFault | None], None],
    step: str,
) -> None:
    placement = {"nodeSelector": {LABEL: "yes"}}
    GpuSpec.objects.create(name="mig", gpu=1, resource_name=SLICE, placement=placement)
    units.seed(2, gpu=GPUS)
    units.seed(2 * SLICES, specName="mig")
    see(units)
    accepted = units.accept("a")
    place = GpuUnit.objects.get(claimed_by=accepted.operation).node
    advance(units, step, accepted, lambda: has_place(units))
    if step == "ready":
        units.settle("a", "Ready")

    faulty(place, NodeFault(StartupCause.GPUS_MISSING, control={"resources": {SLICE: 0}}))
    row = settled(units)

    assert (row.node, row.reason) == (place, UnitReason.UNIT_READY)
    assert not stock_withheld(SPEC)
    assert stock_withheld("mig") == {StartupCause.GPUS_MISSING: SLICES}
    assert {one.resource_name: one.excess for one in products()} == {
        GPU_RESOURCE: 0,
        SLICE: SLICES,
    }

    faulty(place, None)
    see(units)
    assert not stock_withheld("mig")


def claimable_nodes(units: Units) -> list[str]:
    pass_time(units)
    return list(claimable_stock(SPEC).values_list("node", flat=True))


def settled(units: Units, *, besides: str = "") -> GpuUnit:
    """Work until the unit is ready on a node that is not `besides`, and return it."""
    compare_nodes(units.cluster)

    def is_ready() -> bool:
        pass_time(units)
        row = units.row("a")
        return row.phase == UnitPhase.READY and row.node not in {"", besides}

    units.until(is_ready)
    pass_time(units)
    units.tick()
    return units.row("a")


def has_place(units: Units) -> bool:
    return any(pod["spec"].get("nodeName") for pod in units.pods(units.row("a")))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", FAULTS)
def test_stock_on_a_faulty_node_is_not_claimable_until_the_fault_ends(
    units: Units,
    faulty: Callable[[str, NodeFault | None], None],
    fault: str,
    step: str,
) -> None:
    body = {"operationID": "seed", "specName": SPEC, "replicas": 2}
    accepted = stock_seed(tenant=units.tenant, body=StockSeed.parse(body))
    rows = accepted.operation.gpu_units

    def are_bound() -> bool:
        compare_nodes(units.cluster)
        return not rows.filter(node="").exists()

    advance(units, step, accepted, are_bound)
    if step == "ready":
        units.until(lambda: not rows.exclude(phase=UnitPhase.READY).exists())
        see(units)

    faulty(THIRD, FAULTS[fault])
    see(units)

    def is_other_claimable() -> bool:
        return claimable_nodes(units) == [SECOND]

    units.until(is_other_claimable)
    if step == "ready":
        assert stock_withheld(SPEC) == {FAULTS[fault].cause: 1}
    units.create("a")
    units.settle("a", "Ready")
    pass_time(units)
    assert units.row("a").node == SECOND

    faulty(THIRD, None)

    def is_recovered() -> bool:
        return claimable_nodes(units) == [THIRD]

    units.until(is_recovered)
    assert not any(row.history.filter(phase=UnitPhase.FAILED).exists() for row in rows.all())
    assert sum(one.excess for one in products()) == 0
