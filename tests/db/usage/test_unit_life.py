"""The intervals of a unit through its life, on the in-memory cluster."""

import pytest

from gpuplatform.usage.models import EndBasis, UsageInterval
from tests.fakes.unit_world import UnitWorld, stock_rows, unit_row

pytestmark = pytest.mark.django_db


def test_a_consumed_stock_unit_has_one_open_interval(world: UnitWorld) -> None:
    world.seed(1, cpu="2", memory="4Gi")
    world.create("a")
    world.work()

    [row] = UsageInterval.objects.all()
    [stock] = stock_rows()
    assert row.source_uid == stock.uid
    assert row.unit_uid == unit_row("a").uid
    assert (row.part, row.gpus, row.cpu_millis, row.memory_mib) == (1, 1, 2000, 4096)
    assert row.ended_at is None


def test_a_stop_closes_and_a_start_opens_another(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()

    [row] = UsageInterval.objects.all()
    assert row.ended_at is not None

    world.start("a")
    world.work()

    assert UsageInterval.objects.filter(ended_at__isnull=True).count() == 1
    assert UsageInterval.objects.count() == 2


def test_a_delete_closes(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.delete("a")
    world.work()

    [row] = UsageInterval.objects.all()
    assert row.ended_at is not None
    assert row.end_basis in EndBasis.values
