"""Concurrent groups, units, matchers and cancellations: a group has all of its stock or none."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Count

from gpuplatform import queueing
from gpuplatform.errors import InsufficientCapacity, NameConflict
from gpuplatform.locks import take_turn
from gpuplatform.operations.interventions import operation_cancel
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import ENDED_PHASES
from gpuplatform.operations.registry import kind_names
from gpuplatform.operations.selectors import operations_due
from gpuplatform.tenancy.models import Tenant
from tests.factories.unit_rows import catalogued, stock_row
from tests.fakes.threads import at_once
from tests.fakes.unit_world import UnitWorld, state
from units.models import CapacityRequest, GpuUnit
from units.phases import RequestPhase
from units.requests import GpuUnitCreate, UnitGroupCreate
from units.services.groups import group_create, group_request_deletion
from units.services.matcher import match
from units.services.queue import turn_of
from units.services.stock import stock_remove
from units.services.units import unit_create

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

SPEC = "g1.1"
SIZE = 4
ROUNDS = 6
WAIT_SECONDS = 10.0
CLIENTS = 50


@pytest.fixture
def tenants() -> dict[str, Tenant]:
    catalogued(SPEC)
    return {
        name: Tenant.objects.create(name=name, namespace=f"tenant-{name}") for name in ("a", "b")
    }


def ask(tenant: Tenant, name: str, *, size: int = SIZE, waits: bool = False) -> Operation | None:
    """Request a group; return `None` if too little stock is left for it."""
    body: dict[str, Any] = {
        "operationID": f"create-{name}",
        "name": name,
        "size": size,
        "unit": {"specName": SPEC, "image": "example.com/a:1"},
        **({"wait": {"maxSeconds": 600}} if waits else {}),
    }
    with suppress(InsufficientCapacity):
        return group_create(tenant=tenant, body=UnitGroupCreate.parse(body)).operation
    return None


def ask_one(tenant: Tenant, name: str) -> Operation | None:
    """Request a unit; return `None` if no stock is left for it."""
    body = {"operationID": f"create-{name}", "name": name, "specName": SPEC}
    with suppress(InsufficientCapacity):
        asked = GpuUnitCreate.parse({**body, "image": "example.com/a:1"})
        return unit_create(tenant=tenant, body=asked).operation
    return None


def claims() -> Counter[int]:
    """Return the number of claimed stock units of each operation."""
    rows = GpuUnit.objects.filter(claimed_by__isnull=False)
    return Counter(rows.values_list("claimed_by_id", flat=True))


def agree() -> None:
    """Check that each group has all of its stock or none, and that ended operations have none."""
    held = claims()
    assert not Operation.objects.filter(pk__in=held, phase__in=ENDED_PHASES).exists()
    for operation in Operation.objects.filter(kind="group.create"):
        assert held[operation.pk] in {0, operation.progress_total}
        units = operation.gpu_units.filter(deleted_at__isnull=True)
        assert units.count() in {0, operation.progress_total}
    granted = CapacityRequest.objects.filter(phase=RequestPhase.GRANTED)
    assert set(granted.values_list("operation_id", flat=True)) <= set(held)


def works(results: list[object]) -> list[object]:
    """Return the results, and fail if a job raised an exception."""
    assert [one for one in results if isinstance(one, Exception)] == []
    return results


def stock(number: int) -> None:
    for _ in range(number):
        stock_row()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_of_two_groups_exactly_one_gets_the_stock_for_one(
    world: UnitWorld, tenants: dict[str, Tenant], number: int
) -> None:
    stock(SIZE)
    jobs = [partial(ask, tenants["a"], "one"), partial(ask, tenants["b"], "two")]

    results = works(list(at_once(jobs)))

    [winner] = [one for one in results if isinstance(one, Operation)]
    assert claims() == {winner.pk: SIZE}
    agree()


def is_a_lock_awaited() -> bool:
    """Return whether another session waits for a lock of this one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity"
            " WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
        )
        return bool(cursor.fetchone()[0])


def wait_until_a_lock_is_awaited() -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_a_lock_awaited():
        assert time.monotonic() < deadline, "the group does not wait"


def test_a_group_waits_for_a_row_that_another_transaction_has_locked(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    stock(SIZE)
    is_locked = threading.Event()

    def lock() -> None:
        with transaction.atomic():
            list(GpuUnit.objects.filter(role="stock").order_by("id").select_for_update()[:1])
            is_locked.set()
            wait_until_a_lock_is_awaited()

    def create() -> Operation | None:
        assert is_locked.wait(WAIT_SECONDS)
        return ask(tenants["a"], "team")

    jobs: list[Callable[[], object]] = [lock, create]
    _, operation = works(list(at_once(jobs)))

    assert isinstance(operation, Operation)
    assert claims() == {operation.pk: SIZE}


def test_a_group_waits_for_the_turn_of_its_gpu_spec(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    stock(SIZE)
    is_taken = threading.Event()

    def first() -> Operation | None:
        with transaction.atomic():
            take_turn(turn_of(SPEC))
            is_taken.set()
            wait_until_a_lock_is_awaited()
            return ask(tenants["b"], "first")

    def second() -> Operation | None:
        assert is_taken.wait(WAIT_SECONDS)
        return ask(tenants["a"], "second")

    jobs: list[Callable[[], object]] = [first, second]
    winner, refused = works(list(at_once(jobs)))

    assert isinstance(winner, Operation)
    assert refused is None
    assert claims() == {winner.pk: SIZE}
    agree()


def test_a_group_holds_no_row_while_it_waits_for_another_one(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    stock(SIZE)
    is_locked = threading.Event()

    def lock() -> None:
        with transaction.atomic():
            rows = GpuUnit.objects.filter(role="stock")
            newest = rows.order_by("-id").select_for_update().first()
            assert newest is not None
            is_locked.set()
            wait_until_a_lock_is_awaited()
            others = rows.exclude(pk=newest.pk).select_for_update(nowait=True)
            assert others.count() == SIZE - 1
            list(others)

    def create() -> Operation | None:
        assert is_locked.wait(WAIT_SECONDS)
        return ask(tenants["a"], "team")

    jobs: list[Callable[[], object]] = [lock, create]
    _, operation = works(list(at_once(jobs)))

    assert isinstance(operation, Operation)
    assert claims() == {operation.pk: SIZE}


def test_of_many_clients_as_many_get_a_group_as_the_stock_allows(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    stock(3 * SIZE + 1)
    jobs = [partial(ask, tenants["ab"[n % 2]], f"g{n}") for n in range(CLIENTS)]

    results = works(list(at_once(jobs)))

    assert sorted(claims().values()) == [SIZE] * 3
    assert sum(isinstance(one, Operation) for one in results) == 3
    agree()


@pytest.mark.parametrize("copies", [2, 6])
def test_concurrent_replays_of_a_group_claim_once(
    world: UnitWorld, tenants: dict[str, Tenant], copies: int
) -> None:
    stock(copies * SIZE)

    results = works(list(at_once([partial(ask, tenants["a"], "team")] * copies)))

    [number] = {one.pk for one in results if isinstance(one, Operation)}
    assert claims() == {number: SIZE}
    assert results.count(None) == 0


def test_groups_and_units_share_the_stock_without_a_deadlock(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    stock(2 * SIZE)
    jobs: list[Callable[[], object]] = [
        partial(ask, tenants["a"], f"group-{number}") for number in range(4)
    ]
    jobs += [partial(ask_one, tenants["b"], f"unit-{number}") for number in range(8)]

    works(list(at_once(jobs)))

    free = GpuUnit.objects.filter(role="stock", claimed_by__isnull=True).count()
    assert free < SIZE, "a group was refused although its stock was left"
    agree()


def test_groups_and_removals_of_stock_do_not_deadlock(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    stock(4 * SIZE)

    def remove(number: int) -> None:
        with suppress(InsufficientCapacity):
            stock_remove(
                tenant=tenants["b"], operation_id=f"r-{number}", spec_name=SPEC, number=SIZE
            )

    jobs: list[Callable[[], object]] = [partial(remove, number) for number in range(6)]
    jobs += [partial(ask, tenants["a"], f"group-{number}") for number in range(6)]

    works(list(at_once(jobs)))

    assert set(claims().values()) == {SIZE}
    agree()


def test_waiting_groups_get_their_stock_one_by_one_from_concurrent_matchers(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    for number in range(2):
        ask(tenants["a"], f"a-{number}", waits=True)
        ask(tenants["b"], f"b-{number}", waits=True)
    stock(3 * SIZE + 1)

    jobs: list[Callable[[], object]] = [partial(match, SPEC)] * 4
    granted = works(list(at_once(jobs)))

    assert sum(one for one in granted if isinstance(one, int)) == 3
    assert sorted(claims().values()) == [SIZE] * 3
    owners = Operation.objects.filter(pk__in=claims()).values_list("tenant__name")
    assert sorted(owners.annotate(n=Count("id")).values_list("n", flat=True)) == [1, 2]
    agree()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_cancellation_and_a_grant_are_exclusive(
    world: UnitWorld, tenants: dict[str, Tenant], number: int
) -> None:
    operation = ask(tenants["a"], "team", waits=True)
    assert operation is not None
    stock(SIZE)

    def cancel() -> None:
        operation_cancel(operation=operation, operation_id="cancel")

    jobs: list[Callable[[], object]] = [partial(match, SPEC), cancel]
    works(list(at_once(jobs if number % 2 else jobs[::-1])))

    assert state(operation).phase == "Cancelled"
    assert claims() == {}
    assert not GpuUnit.objects.exclude(group_name="").filter(deleted_at=None).exists()
    agree()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_deletion_and_a_grant_are_exclusive(
    world: UnitWorld, tenants: dict[str, Tenant], number: int
) -> None:
    tenant = tenants["a"]
    operation = ask(tenant, "team", waits=True)
    assert operation is not None
    stock(SIZE)

    def delete() -> None:
        group_request_deletion(tenant=tenant, name="team", operation_id="delete")

    jobs: list[Callable[[], object]] = [partial(match, SPEC), delete]
    works(list(at_once(jobs if number % 2 else jobs[::-1])))
    agree()
    if claims() == {}:
        assert world.run(operation).error_code == "phase_conflict"


def test_one_of_two_groups_with_the_same_name_is_accepted(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    stock(SIZE)

    def other() -> object:
        body = {"operationID": "other", "name": "team", "size": 2}
        unit = {"specName": SPEC, "image": "example.com/a:1"}
        asked = UnitGroupCreate.parse({**body, "unit": unit, "wait": {"maxSeconds": 60}})
        return group_create(tenant=tenants["a"], body=asked).operation

    jobs: list[Callable[[], object]] = [partial(ask, tenants["a"], "team"), other]

    results = at_once(jobs)

    assert Counter(type(one) for one in results) == {Operation: 1, NameConflict: 1}
    agree()


def test_a_matcher_that_dies_before_its_hint_loses_nothing(
    world: UnitWorld, tenants: dict[str, Tenant], monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = ask(tenants["a"], "team", waits=True)
    assert operation is not None
    world.run(operation)
    assert operations_due(10, kind_names()) == []
    stock(SIZE)

    def die(*_: object, **__: object) -> bool:
        raise SystemExit

    monkeypatch.setattr(queueing, "_send", die)
    with suppress(SystemExit):
        match(SPEC)

    assert operations_due(10, kind_names()) == [operation.pk]
    assert claims() == {operation.pk: SIZE}
    agree()
