"""Stock is withheld if its node would not accept a unit; a unit without GPUs is degraded."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import EventType, Plan
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.holders import NodeRecord
from gpuplatform.workloads.owner import FAILED_SECONDS
from tests.factories.nodes import L40S, SLICE, gpu_pod, node_manifest, record, records
from tests.factories.planned_units import (
    SOURCE,
    UNIT_UID,
    observed_unit,
    stock_resource,
    unit_deployment,
    unit_pod,
    unit_resource,
    unit_service,
)
from units.core.plan import plan_unit
from units.core.shortage import Shortage, shortages
from units.core.sources import SourceUnread
from units.phases import UnitPhase, UnitReason

STOCK_POD = gpu_pod("stock", unit=SOURCE.uid)
UNIT_POD = gpu_pod("unit", unit=UNIT_UID)


def stock_plan(node: NodeRecord | None, **spec: Any) -> Plan:
    """Return the plan of a stock unit whose pod is ready on a node."""
    stock = stock_resource(**spec)
    return plan_unit(
        stock, observed_unit(unit_deployment(stock), pods=[unit_pod(stock)], node=node)
    )


def unit_plan(node: NodeRecord | None) -> Plan:
    """Return the plan of an active unit whose pod is ready on a node."""
    unit = unit_resource()
    return plan_unit(
        unit,
        observed_unit(
            unit_deployment(unit),
            unit_service(unit),
            [unit_pod(unit)],
            source=SourceUnread(),
            node=node,
        ),
    )


def state(plan: Plan) -> tuple[str, str, str]:
    assert plan.status is not None
    return plan.status.phase, plan.status.conditions[0].reason, plan.status.cause


def test_each_resource_of_a_node_has_its_own_shortage() -> None:
    pods = [gpu_pod("a", gpus=4), gpu_pod("b", gpus=3, resource=SLICE)]

    assert shortages(record(node_manifest(gpus=4, slices="2"), *pods)) == [
        Shortage("n1", 2, 3, SLICE)
    ]
    assert shortages(record(node_manifest(gpus=4, slices="3"), *pods)) == []


def test_a_deleted_node_offers_no_gpu() -> None:
    assert shortages(records([], [gpu_pod(gpus=2)])["n1"]) == [Shortage("n1", 0, 2)]


READY = (UnitPhase.READY, UnitReason.STOCK_READY, "")
TAINTS = [{"key": "maintenance", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("node", "cause"),
    [
        ({"is_cordoned": True}, StartupCause.NODE_CORDONED),
        ({"is_ready": False}, StartupCause.NODE_NOT_READY),
        ({"pressures": ["MemoryPressure"]}, StartupCause.NODE_UNDER_PRESSURE),
        ({"taints": TAINTS}, StartupCause.NODE_TAINTED),
        ({"gpus": 0}, StartupCause.GPUS_MISSING),
    ],
)
def test_stock_is_withheld_if_its_node_would_not_take_a_unit(
    node: dict[str, Any], cause: StartupCause
) -> None:
    plan = stock_plan(record(node_manifest(**node), STOCK_POD))

    assert state(plan) == (UnitPhase.PROGRESSING, UnitReason.STOCK_WITHHELD, cause)
    assert (plan.actions, plan.requeue_after) == ([], FAILED_SECONDS)


def test_stock_on_a_full_node_is_ready_because_a_unit_takes_its_place() -> None:
    others = gpu_pod("others", gpus=7)

    assert state(stock_plan(record(node_manifest(), STOCK_POD, others))) == READY


def test_all_stock_of_a_node_with_a_failed_device_is_withheld() -> None:
    others = gpu_pod("others", gpus=7)
    found = record(node_manifest(gpus=7, capacity=8), STOCK_POD, others)

    assert state(stock_plan(found))[1:] == (UnitReason.STOCK_WITHHELD, StartupCause.GPUS_MISSING)


def test_a_shortage_of_another_resource_leaves_stock_ready() -> None:
    slices = gpu_pod("slices", gpus=3, resource=SLICE)

    assert state(stock_plan(record(node_manifest(slices="2"), STOCK_POD, slices))) == READY


def test_stock_of_a_node_that_is_not_known_is_ready() -> None:
    assert state(stock_plan(None)) == READY


def test_the_placement_of_the_unit_is_asked_for() -> None:
    placement = {
        "nodeSelector": {"nvidia.com/gpu.product": L40S},
        "tolerations": [{"key": "maintenance", "operator": "Exists"}],
    }
    there = record(node_manifest(product=L40S, taints=TAINTS), STOCK_POD)
    elsewhere = record(node_manifest(taints=TAINTS), STOCK_POD)

    assert state(stock_plan(there, placement=placement)) == READY
    withheld = state(stock_plan(elsewhere, placement=placement))
    assert withheld[2] == StartupCause.NODE_LABELS_DIFFER


def test_stock_whose_pod_is_not_ready_on_such_a_node_is_withheld() -> None:
    stock = stock_resource()
    deployment = unit_deployment(stock, status={**_caught_up(), "availableReplicas": 0})
    node = record(node_manifest(is_ready=False), STOCK_POD)

    plan = plan_unit(stock, observed_unit(deployment, pods=[unit_pod(stock)], node=node))

    assert state(plan)[1:] == (UnitReason.STOCK_WITHHELD, StartupCause.NODE_NOT_READY)


def _caught_up() -> Manifest:
    return {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}


def test_an_active_unit_on_a_node_with_a_shortage_is_degraded() -> None:
    others = gpu_pod("others", gpus=7)

    plan = unit_plan(record(node_manifest(gpus=6, capacity=8), UNIT_POD, others))

    assert plan.status is not None
    ready, degraded = plan.status.conditions
    assert (plan.status.phase, ready.status) == (UnitPhase.READY, "True")
    assert (degraded.type, degraded.status, degraded.reason) == ("Degraded", "True", "GPUsMissing")
    assert "the node 'n1' offers 6 GPUs and its pods hold 8" in degraded.message
    event = plan.status.event
    assert event is not None
    assert (event.type, event.message) == (EventType.WARNING, degraded.message)


@pytest.mark.parametrize("node", [{"is_cordoned": True}, {"taints": TAINTS}])
def test_an_active_unit_keeps_running_on_a_node_that_takes_no_pods(node: dict[str, Any]) -> None:
    plan = unit_plan(record(node_manifest(**node), UNIT_POD))

    assert state(plan) == (UnitPhase.READY, UnitReason.UNIT_READY, "")


def test_a_unit_that_was_never_degraded_has_no_such_condition() -> None:
    plan = unit_plan(record(node_manifest(), UNIT_POD))

    assert plan.status is not None
    assert [one.type for one in plan.status.conditions] == ["Ready"]


@pytest.mark.parametrize(
    "pod", [gpu_pod("a", unit="another", gpus=2), gpu_pod("a", unit=UNIT_UID, resource=SLICE)]
)
def test_a_unit_without_gpus_of_the_shortage_is_not_degraded(pod: Manifest) -> None:
    found = record(node_manifest(gpus=1, slices="1"), pod, gpu_pod("others", gpus=2))

    assert state(unit_plan(found))[1] == UnitReason.UNIT_READY
