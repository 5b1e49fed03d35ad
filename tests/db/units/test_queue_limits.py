"""Requests that are rejected: the queue is full, or no nodes could serve them."""

from typing import Any

import pytest

from gpuplatform.errors import CapacityExceeded, InsufficientCapacity, QueueFull
from gpuplatform.operations.models import Operation
from tests.db.units.test_queue import ask, tenant
from tests.factories.node_rows import node_row
from tests.factories.nodes import H100
from tests.factories.unit_rows import spec_row, stock_row
from tests.fakes.unit_world import UnitWorld, stock_rows
from units.models import CapacityRequest
from units.services import queue
from units.services.units import unit_start

pytestmark = pytest.mark.django_db

GPU = "nvidia.com/gpu"


def test_a_full_queue_rejects_further_creates(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_OPEN_REQUESTS", 1)
    ask("a", "one")

    with pytest.raises(QueueFull) as refused:
        ask("a", "two")

    assert Operation.objects.count() == 1
    assert refused.value.waiting == 1


def test_a_tenant_cannot_fill_the_queue_of_the_others(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_OPEN_REQUESTS", 4)
    monkeypatch.setattr(queue, "MAX_OPEN_REQUESTS_OF_TENANT", 2)
    spec_row("other")
    for name in ("one", "two"):
        ask("a", name)

    with pytest.raises(QueueFull) as of_tenant:
        ask("a", "three")
    for owner in ("b", "c"):
        ask(owner, "one")
    with pytest.raises(QueueFull) as of_spec:
        ask("d", "one")

    assert (of_tenant.value.waiting, of_spec.value.waiting) == (2, 4)
    assert "tenant 'a'" in of_tenant.value.details[0].message
    assert "tenant" not in of_spec.value.details[0].message
    assert CapacityRequest.objects.count() == 4


def test_a_start_waits_although_the_queue_of_the_tenant_is_full(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_OPEN_REQUESTS_OF_TENANT", 1)
    world.seed(1)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    for row in stock_rows():
        world.drop_stock(row)
    ask("default", "one")

    unit_start(tenant=tenant("default"), name="a", operation_id="start")

    assert CapacityRequest.objects.count() == 2


@pytest.mark.parametrize(
    ("gpu", "state", "is_rejected"),
    [
        (8, {}, False),
        (9, {}, True),
        (8, {"is_schedulable": False}, False),
        (8, {"is_ready": False, "pressures": ["DiskPressure"]}, False),
        (8, {"taints": [{"key": "x", "effect": "NoExecute", "value": ""}]}, False),
        (8, {"allocatable": {GPU: "7"}}, False),
        (9, {"labels": {}}, False),
        (9, {"is_present": False}, False),
        (9, {"capacity": {}, "allocatable": {}}, False),
    ],
    ids=str,
)
def test_a_unit_larger_than_every_node_is_rejected(
    world: UnitWorld, gpu: int, state: dict[str, Any], is_rejected: bool
) -> None:
    """The momentary state of the nodes does not matter, and unknown nodes have any size."""
    spec_row(gpu=gpu, cpu="", memory="", product=H100)
    node_row("n1", 8, **state)

    rejections = []
    for is_waiting in (True, False):
        try:
            ask("a", f"one-{int(is_waiting)}", waits=is_waiting)
        except (CapacityExceeded, InsufficientCapacity) as error:
            rejections.append((error.code, [one.message for one in error.details]))

    impossible = ("capacity_exceeded", ["1 needed, at most 0 possible."])
    assert rejections == ([impossible] * 2 if is_rejected else [("insufficient_capacity", [])])
    assert CapacityRequest.objects.count() == Operation.objects.count() == int(not is_rejected)


def test_nodes_that_were_never_observed_reject_nothing(world: UnitWorld) -> None:
    spec_row(gpu=4096)

    ask("a", "one")

    assert CapacityRequest.objects.count() == 1


def test_ready_stock_is_claimed_although_no_node_is_large_enough_any_more(
    world: UnitWorld,
) -> None:
    spec_row(gpu=16)
    node_row("n1", 8)
    stock_row()

    assert ask("a", "one").phase == "Pending"
    with pytest.raises(CapacityExceeded):
        ask("a", "two")


def test_a_start_that_no_node_can_have_is_rejected(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    spec_row(gpu=16)
    node_row("n1", 8)

    with pytest.raises(CapacityExceeded):
        unit_start(tenant=tenant("default"), name="a", operation_id="start")

    assert not Operation.objects.filter(operation_id="start").exists()
