"""A node offers fewer GPUs than its pods hold: its stock is kept back, its units are degraded."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import EventType
from gpuplatform.workloads.owner import PROGRESS_SECONDS
from tests.factories.planned_units import (
    observed_unit,
    stock_resource,
    unit_deployment,
    unit_pod,
    unit_resource,
    unit_service,
)
from units.core.observed import ObservedUnit
from units.core.plan import plan_unit
from units.core.shortage import Shortage, shortages
from units.core.sources import SourceUnread
from units.phases import UnitPhase, UnitReason

GPU = "nvidia.com/gpu"
SHORT = Shortage("n1", 6, 8)


def pod(node: str = "n1", gpus: object = 1, **status: Any) -> Manifest:
    containers = [{"resources": {"limits": {GPU: gpus}}}] if gpus else [{}]
    status = {"phase": "Running", **status}
    return {"spec": {"nodeName": node, "containers": containers}, "status": status}


def node(name: str = "n1", gpus: object = "8") -> Manifest:
    return {"metadata": {"name": name}, "status": {"allocatable": {GPU: gpus}}}


def placed(unit: Manifest, name: str = "n1", gpus: object = "1", **status: Any) -> Manifest:
    found = pod(name, gpus, **status)
    return {**unit_pod(unit), **found}


def in_use(unit: Manifest, **more: Any) -> ObservedUnit:
    """Return what is observed of a unit that is up on node n1."""
    return observed_unit(
        unit_deployment(unit),
        unit_service(unit),
        [placed(unit)],
        source=SourceUnread(),
        **more,
    )


def test_a_node_whose_pods_hold_more_gpus_than_it_offers_has_a_shortage() -> None:
    pods = [pod(gpus="3"), pod(gpus="5"), pod("n2", "8")]

    assert shortages(pods, [node(), node("n2")]) == []
    assert shortages(pods, [node(gpus="7"), node("n2", "0")]) == [
        Shortage("n1", 7, 8),
        Shortage("n2", 0, 8),
    ]


def test_a_node_that_is_not_listed_offers_no_gpu() -> None:
    assert shortages([pod(gpus="2")], []) == [Shortage("n1", 0, 2)]
    assert shortages([pod(gpus="0")], []) == []


@pytest.mark.parametrize(
    "gone",
    [pod(phase="Failed"), pod(phase="Succeeded"), pod(node=""), pod(gpus="lots"), {}, {"spec": 3}],
    ids=["failed", "over", "on no node", "no quantity", "empty", "malformed"],
)
def test_pods_without_gpus_do_not_count(gone: Manifest) -> None:
    assert shortages([gone, pod()], [node(gpus="1")]) == []


def test_stock_on_a_node_with_a_shortage_is_not_ready() -> None:
    stock = stock_resource()

    plan = plan_unit(
        stock,
        observed_unit(unit_deployment(stock), pods=[placed(stock)], short_nodes=(SHORT,)),
    )

    assert plan.status is not None
    [ready] = plan.status.conditions
    assert (plan.status.phase, ready.status) == (UnitPhase.PROGRESSING, "False")
    assert ready.reason == UnitReason.GPUS_MISSING
    assert "The node 'n1' offers 6 GPUs and its pods hold 8" in ready.message
    assert (plan.actions, plan.requeue_after) == ([], PROGRESS_SECONDS)


def test_an_active_unit_on_a_node_with_a_shortage_is_degraded() -> None:
    unit = unit_resource()

    plan = plan_unit(unit, in_use(unit, short_nodes=(SHORT,)))

    assert plan.status is not None
    ready, degraded = plan.status.conditions
    assert (plan.status.phase, ready.status) == (UnitPhase.READY, "True")
    assert (degraded.type, degraded.status, degraded.reason) == ("Degraded", "True", "GPUsMissing")
    assert "the node 'n1' offers 6 GPUs and its pods hold 8" in degraded.message
    event = plan.status.event
    assert event is not None
    assert (event.type, event.message) == (EventType.WARNING, degraded.message)


def test_a_unit_that_was_never_degraded_has_no_such_condition() -> None:
    unit = unit_resource()

    plan = plan_unit(unit, in_use(unit))

    assert plan.status is not None
    assert [one.type for one in plan.status.conditions] == ["Ready"]


@pytest.mark.parametrize(
    "place",
    [{"name": "n2"}, {"gpus": "0"}, {"phase": "Failed"}],
    ids=["elsewhere", "no GPU", "over"],
)
def test_stock_without_gpus_on_the_node_stays_ready(place: dict[str, Any]) -> None:
    stock = stock_resource()

    plan = plan_unit(
        stock,
        observed_unit(unit_deployment(stock), pods=[placed(stock, **place)], short_nodes=(SHORT,)),
    )

    assert plan.status is not None
    assert plan.status.phase == UnitPhase.READY
