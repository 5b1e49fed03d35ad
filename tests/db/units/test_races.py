"""Concurrent requests for units: one winner, equal responses to replays, exact stock."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from gpuplatform.errors import InsufficientCapacity, NameConflict
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted
from tests.factories.unit_rows import stock_row
from tests.fakes.threads import at_once
from tests.fakes.unit_world import UnitWorld
from units.models import GpuUnit

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

MANY = 50


def claimed() -> int:
    return GpuUnit.objects.filter(claimed_by__isnull=False).count()


def kinds(results: list[Accepted | Exception]) -> Counter[str]:
    return Counter(type(result).__name__ for result in results)


def test_50_concurrent_identical_requests_are_one_unit(world: UnitWorld) -> None:
    for _ in range(3):
        stock_row()

    results = at_once([partial(world.ask_create, "a", operationID="op")] * MANY)

    accepted = [result for result in results if isinstance(result, Accepted)]
    assert len(accepted) == MANY, results
    assert Counter(one.is_replay for one in accepted) == {False: 1, True: MANY - 1}
    assert len({one.operation.pk for one in accepted}) == 1
    assert (claimed(), GpuUnit.objects.filter(role="active").count()) == (1, 1)


def test_of_50_requests_for_one_name_the_others_get_the_field(world: UnitWorld) -> None:
    for _ in range(3):
        stock_row()

    results = at_once([partial(world.ask_create, "same")] * MANY)

    assert kinds(results) == {"Accepted": 1, "NameConflict": MANY - 1}
    losers = [one for one in results if isinstance(one, NameConflict)]
    assert {fault.field for one in losers for fault in one.details} == {"name"}
    assert (claimed(), Operation.objects.count()) == (1, 1)


def test_of_two_concurrent_payloads_with_one_id_one_is_accepted(world: UnitWorld) -> None:
    for _ in range(3):
        stock_row()
    one = partial(world.ask_create, "a", operationID="op", image="example.com/a:1")
    other = partial(world.ask_create, "a", operationID="op", image="example.com/b:1")

    results = at_once([one, other] * (MANY // 2))

    assert kinds(results) == {"Accepted": MANY // 2, "OperationConflict": MANY // 2}
    assert (claimed(), Operation.objects.count()) == (1, 1)


@pytest.mark.parametrize("stock", [1, 10])
def test_of_50_creates_exactly_as_many_succeed_as_there_is_stock(
    world: UnitWorld, stock: int
) -> None:
    for _ in range(stock):
        stock_row()

    results = at_once([partial(world.ask_create, f"u{number}") for number in range(MANY)])

    assert kinds(results) == {"Accepted": stock, "InsufficientCapacity": MANY - stock}
    holders = GpuUnit.objects.filter(claimed_by__isnull=False).values_list("claimed_by")
    assert len(set(holders)) == len(holders) == stock


def test_concurrent_claims_by_name_and_by_spec_never_share_a_unit(world: UnitWorld) -> None:
    rows = [stock_row() for _ in range(6)]
    by_name = [partial(world.ask_create, f"n{row.pk}", stockName=row.name) for row in rows]
    by_spec = [partial(world.ask_create, f"s{number}") for number in range(6)]

    results = at_once([*by_name, *by_spec])

    assert kinds(results) == {"Accepted": 6, "InsufficientCapacity": 6}
    holders = list(GpuUnit.objects.filter(claimed_by__isnull=False).values_list("claimed_by"))
    assert len(set(holders)) == len(holders) == 6
    assert Operation.objects.count() == 6


def test_stock_that_fails_concurrently_is_claimed_fully_or_not(
    world: UnitWorld,
) -> None:
    rows = [stock_row() for _ in range(8)]
    broken = [row.pk for row in rows[:4]]

    def declare() -> None:
        for number in broken:
            GpuUnit.objects.filter(pk=number).update(phase="Failed", reason="PodStartupFailed")

    def create(number: int) -> Accepted:
        return world.ask_create(f"u{number}")

    jobs: list[Callable[[], Accepted | None]] = [declare]
    results = at_once(jobs + [partial(create, number) for number in range(8)])

    winners = [result for result in results if isinstance(result, Accepted)]
    free = GpuUnit.objects.filter(role="stock", claimed_by=None)
    assert 4 <= len(winners) <= 8
    assert claimed() == len(winners) == Operation.objects.count()
    assert set(free.values_list("pk", flat=True)) <= set(broken), "healthy stock is left"
    refused = [result for result in results[1:] if not isinstance(result, Accepted)]
    assert {type(one).__name__ for one in refused} <= {"InsufficientCapacity"}


def test_a_stock_name_of_another_spec_is_refused(world: UnitWorld) -> None:
    other = stock_row(spec_name="g2.1")

    with pytest.raises(InsufficientCapacity):
        world.create("a", stockName=other.name)

    assert claimed() == 0


def test_a_create_makes_no_call_to_the_cluster(world: UnitWorld) -> None:
    stock_row()
    asked: list[str] = []
    world.create("first-comparison-of-the-epoch")
    stock_row()
    world.cluster.on_call = lambda verb, kind: asked.append(f"{verb} {kind}")

    world.create("a")

    assert asked == []
