"""Seedings name a GPU spec of the catalogue, and top-ups continue until the warm target."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection

from gpuplatform.errors import InvalidSpec
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from inventory.services.catalogue import gpu_spec_delete
from tests.factories.unit_rows import spec_row
from tests.fakes.threads import DEADLINE_SECONDS, at_once
from tests.fakes.unit_world import UnitWorld, stock_rows
from units.requests import StockSeed
from units.services import stock
from units.services.names import UnitTask
from units.services.stock import stock_seed, stock_tend_spec, top_up

ONE = pytest.mark.django_db
COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@ONE
@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "disabled"])
def test_a_seed_of_an_unavailable_spec_is_rejected_and_leaves_nothing(
    world: UnitWorld, is_known: bool
) -> None:
    if is_known:
        spec_row("h100", is_enabled=False)
    spec_row("a100")
    body = {"operationID": "typo", "specName": "h100", "replicas": 1}

    with pytest.raises(InvalidSpec) as rejection:
        stock_seed(tenant=tenant_by_name(), body=StockSeed.parse(body))

    assert [error.field for error in rejection.value.details] == ["specName"]
    assert not Operation.objects.exists()
    assert stock_rows() == []
    assert GpuSpec.objects.count() == 1 + is_known


@ONE
def test_a_seed_must_agree_with_the_catalogue(world: UnitWorld) -> None:
    spec_row(memory="64Gi", cpu="")

    world.ask_seed(1, memory="65536Mi")
    with pytest.raises(InvalidSpec) as rejection:
        world.ask_seed(1, memory="32Gi", cpu="1")

    assert [error.field for error in rejection.value.details] == ["cpu", "memory"]
    assert len(stock_rows()) == 1


@COMMITTING
def test_a_spec_is_not_disabled_while_it_is_seeded(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_row()
    locked, goes_on = threading.Event(), threading.Event()
    insert = stock._insert_stock

    def paused(*args: Any) -> int:
        locked.set()
        assert goes_on.wait(DEADLINE_SECONDS)
        return insert(*args)

    def disable() -> int:
        assert locked.wait(DEADLINE_SECONDS)
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '200ms'")
        with pytest.raises(OperationalError):
            GpuSpec.objects.filter(pk=spec.pk).update(is_enabled=False)
        goes_on.set()
        return 0

    monkeypatch.setattr(stock, "_insert_stock", paused)

    jobs: list[Callable[[], object]] = [partial(world.ask_seed, 1), disable]
    results = at_once(jobs)

    assert not [one for one in results if isinstance(one, Exception)], results
    assert len(stock_rows()) == 1


@COMMITTING
def test_a_seed_beside_the_deletion_of_its_spec_is_accepted_or_rejected(world: UnitWorld) -> None:
    def seed(name: str) -> int:
        body = {"operationID": f"seed-{name}", "specName": name, "replicas": 1}
        stock_seed(tenant=tenant_by_name(), body=StockSeed.parse(body))
        return 0

    def delete(name: str) -> int:
        GpuSpec.objects.filter(name=name).update(is_enabled=False)
        gpu_spec_delete(tenant=tenant_by_name(), name=name, operation_id=f"delete-{name}")
        return 0

    names = [f"g{number}.1" for number in range(10)]
    for name in names:
        spec_row(name)
        seeded, deleted = at_once([partial(seed, name), partial(delete, name)])

        assert deleted == 0
        assert seeded == 0 or isinstance(seeded, InvalidSpec)
        found = [row for row in stock_rows() if row.spec_name == name]
        assert len(found) == (seeded == 0)
        assert Operation.objects.filter(operation_id=f"seed-{name}").exists() == (seeded == 0)


@COMMITTING
def test_concurrent_seeds_of_one_spec_are_all_accepted(world: UnitWorld) -> None:
    spec_row()

    results = at_once([partial(world.ask_seed, 1, operationID=f"s{n}") for n in range(8)])

    assert not [one for one in results if isinstance(one, Exception)], results
    assert len(stock_rows()) == 8


@COMMITTING
def test_a_pass_after_a_change_waits_for_concurrent_seeds(world: UnitWorld) -> None:
    spec = spec_row(warm_target=3)

    def tend() -> None:
        stock_tend_spec(spec, waits=True)

    seeds = [partial(world.ask_seed, 1, operationID=f"s{n}") for n in range(6)]
    jobs: list[Callable[[], object]] = [tend, *seeds]
    results = at_once(jobs)

    assert not [one for one in results if isinstance(one, Exception)], results
    top_ups = Operation.objects.filter(operation_id__startswith="top-up-")
    seeded = sum(one.progress_total for one in top_ups)
    assert 0 <= seeded <= 3
    assert len(stock_rows()) == 6 + seeded >= 6


@ONE
def test_a_top_up_that_succeeded_is_continued_and_a_seeding_is_not(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, int]] = []

    def record(task: str, row_id: int, **_: object) -> None:
        sent.append((task, row_id))

    monkeypatch.setattr(stock, "enqueue_after_commit", record)
    spec = spec_row(warm_target=3)
    world.finish(world.ask_seed(1, operationID="of-a-caller").operation)
    topped_up = top_up(spec)
    assert topped_up is not None
    assert sent == []

    world.finish(topped_up.operation)

    assert sent == [(UnitTask.TEND_SPEC, spec.pk)]
