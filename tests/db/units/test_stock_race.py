"""A tenth of the race for stock of `make chaos-x8`: callers, workers and lost responses."""

from collections import Counter
from functools import partial

import pytest

from gpuplatform.errors import InsufficientCapacity
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations import driver
from gpuplatform.operations.services import Accepted
from tests.fakes.threads import at_once
from tests.fakes.unit_world import UnitWorld
from units.consistency import unit_inconsistencies
from units.models import GpuUnit

pytestmark = [
    pytest.mark.long,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

STOCK, REQUESTS, CALLERS, WORKERS = 50, 60, 6, 3
LOST = 10


def test_of_60_requests_over_50_stock_exactly_50_become_units(world: UnitWorld) -> None:
    world.seed(STOCK)

    answers = _asked(world)
    accepted = [answer.operation.pk for answer in answers if isinstance(answer, Accepted)]
    # The response of a write is lost: the operation is repeated.
    lost = ClusterUnavailable("no answer in time", status=504)
    world.cluster.fail("create", GPU_UNIT, lost, acts_first=True, times=LOST)
    for begin in range(0, STOCK, STOCK // 5):
        some = accepted[begin : begin + STOCK // 5] * WORKERS
        assert at_once([partial(driver.run, number) for number in some])
    world.work(12)

    assert Counter(type(answer).__name__ for answer in answers) == {
        "Accepted": STOCK,
        "InsufficientCapacity": REQUESTS - STOCK,
    }
    live = GpuUnit.objects.filter(deleted_at__isnull=True)
    assert list(live.filter(role="stock")) == []
    assert Counter(live.values_list("role", "phase")) == {("active", "Ready"): STOCK}
    assert live.values("source_uid").distinct().count() == STOCK
    assert list(unit_inconsistencies(world.cluster)) == []


def _asked(world: UnitWorld) -> list[object]:
    """Return the result of each request; each caller sends its requests one after another."""

    def call(first: int) -> list[object]:
        return [_answer(world, f"u{number}") for number in range(first, REQUESTS, CALLERS)]

    return [
        one for some in at_once([partial(call, n) for n in range(CALLERS)]) for one in _list(some)
    ]


def _answer(world: UnitWorld, name: str) -> object:
    try:
        return world.ask_create(name)
    except InsufficientCapacity as refusal:
        return refusal


def _list(some: object) -> list[object]:
    assert isinstance(some, list), some
    return some
