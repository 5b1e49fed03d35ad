"""`check_consistency` finds consumed stock without an interval, and charges beyond capacity."""

from datetime import timedelta

import pytest

from gpuplatform.clock import now
from gpuplatform.usage.models import UsageInterval
from tests.db.usage.rows import opened, use
from tests.factories.node_rows import node_row
from tests.fakes.unit_world import UnitWorld
from units.usage_consistency import usage_inconsistencies

pytestmark = pytest.mark.django_db


def kinds() -> list[str]:
    return sorted(one.kind for one in usage_inconsistencies())


def test_a_unit_that_consumed_stock_is_consistent(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()

    assert kinds() == []


def test_consumed_stock_without_a_first_interval_is_found(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    UsageInterval.objects.all().delete()

    assert kinds() == ["uncharged"]


def test_a_charge_beyond_the_capacity_is_found_at_one_instant() -> None:
    node_row(gpus=3)
    at = now()
    for end in (at, at - timedelta(minutes=5)):
        opened(use(gpus=2), end - timedelta(minutes=3), end)
    assert kinds() == []

    opened(use(gpus=2), at - timedelta(minutes=1), at)

    assert kinds() == ["overcharged"]


def test_an_open_interval_counts_until_its_last_sight() -> None:
    node_row(gpus=2)
    at = now()
    opened(use(gpus=2), at - timedelta(minutes=5), at - timedelta(minutes=2))
    opened(use(gpus=2), at - timedelta(minutes=2), at)

    assert kinds() == []
