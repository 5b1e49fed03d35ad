"""Concurrent matchers, creates, cancellations and expirations: one stock unit, one operation."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from django.db.models.functions import Now

from gpuplatform import queueing
from gpuplatform.errors import InsufficientCapacity, PhaseConflict
from gpuplatform.operations.interventions import operation_cancel
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import ENDED_PHASES, OPEN_PHASES
from gpuplatform.operations.registry import kind_names
from gpuplatform.operations.selectors import operations_due
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.unit_rows import catalogued, stock_row
from tests.fakes.threads import at_once
from tests.fakes.unit_world import UnitWorld, state
from units.models import CapacityRequest, GpuUnit
from units.phases import RequestPhase
from units.requests import GpuUnitCreate
from units.services.matcher import match
from units.services.units import unit_create

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

SPEC = "g1.1"
ROUNDS = 6
TENANTS = ("a", "b", "c")


@pytest.fixture
def tenants() -> dict[str, Tenant]:
    catalogued(SPEC)
    names = {name: f"tenant-{name}" for name in TENANTS}
    return {
        name: Tenant.objects.create(name=name, namespace=place) for name, place in names.items()
    }


def ask(tenant: Tenant, name: str, *, waits: bool) -> Operation | None:
    """Request a unit; return `None` if no stock is left for it."""
    body = {
        "operationID": f"create-{name}",
        "name": name,
        "specName": SPEC,
        "image": "example.com/a:1",
        **({"wait": {"maxSeconds": 600}} if waits else {}),
    }
    with suppress(InsufficientCapacity):
        return unit_create(tenant=tenant, body=GpuUnitCreate.parse(body)).operation
    return None


def claims() -> Counter[int]:
    """Return the number of claimed stock units of each operation."""
    rows = GpuUnit.objects.filter(claimed_by__isnull=False)
    return Counter(rows.values_list("claimed_by_id", flat=True))


def agree() -> None:
    """Check that requests, operations and claims agree."""
    holders = claims()
    assert set(holders.values()) <= {1}, "an operation has two stock units"
    assert not Operation.objects.filter(pk__in=holders, phase__in=ENDED_PHASES).exists()
    granted = CapacityRequest.objects.filter(phase=RequestPhase.GRANTED)
    assert set(granted.values_list("operation_id", flat=True)) <= set(holders)
    opened = CapacityRequest.objects.filter(phase=RequestPhase.OPEN)
    assert not opened.exclude(operation__phase__in=OPEN_PHASES).exists()
    assert not set(opened.values_list("operation_id", flat=True)) & set(holders)


def works(results: list[object]) -> list[object]:
    """Return the results, and fail if a job raised an exception."""
    raised = [one for one in results if isinstance(one, Exception)]
    assert raised == []
    return results


def test_concurrent_matchers_grant_each_stock_unit_once(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    for number in range(9):
        ask(tenants[TENANTS[number % 3]], f"u{number}", waits=True)
    for _ in range(6):
        stock_row()

    jobs: list[Callable[[], object]] = [partial(match, SPEC)] * 4
    granted = works(list(at_once(jobs)))

    assert sum(one for one in granted if isinstance(one, int)) == 6
    agree()
    owners = Operation.objects.filter(pk__in=claims()).values_list("tenant__name", flat=True)
    assert Counter(owners) == {"a": 2, "b": 2, "c": 2}


def test_creates_beside_waiting_requests_get_exactly_what_is_left(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    waiting = [ask(tenants["a"], f"w{number}", waits=True) for number in range(3)]
    for _ in range(5):
        stock_row()
    jobs: list[Callable[[], object]] = [partial(match, SPEC)] * 2
    jobs += [partial(ask, tenants["b"], f"u{number}", waits=False) for number in range(16)]

    results = works(list(at_once(jobs)))

    accepted = [one for one in results if isinstance(one, Operation)]
    assert len(accepted) == 2
    assert all(one is not None and claims()[one.pk] == 1 for one in waiting)
    agree()


def test_creates_that_wait_share_the_stock_with_the_matcher(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    for _ in range(4):
        stock_row()
    jobs: list[Callable[[], object]] = [
        partial(ask, tenants[TENANTS[number % 3]], f"u{number}", waits=True)
        for number in range(12)
    ]
    jobs.append(partial(match, SPEC))

    works(list(at_once(jobs)))
    match(SPEC)

    assert len(claims()) == 4
    assert CapacityRequest.objects.filter(phase=RequestPhase.OPEN).count() == 8
    agree()


def test_a_create_never_takes_stock_that_became_ready_after_a_request(
    world: UnitWorld, tenants: dict[str, Tenant]
) -> None:
    for number in range(ROUNDS):
        waiting = ask(tenants["a"], f"w{number}", waits=True)
        create = partial(ask, tenants["b"], f"u{number}", waits=False)
        jobs: list[Callable[[], object]] = [create, stock_row]

        works(list(at_once(jobs)))
        match(SPEC)

        assert waiting is not None
        assert claims()[waiting.pk] == 1
        agree()
        GpuUnit.objects.filter(role="stock").update(claimed_by=None, deleted_at=Now())
        CapacityRequest.objects.all().delete()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_cancellation_and_a_grant_are_exclusive(
    world: UnitWorld, tenants: dict[str, Tenant], number: int
) -> None:
    operation = ask(tenants["a"], "one", waits=True)
    assert operation is not None
    stock_row()

    def cancel() -> None:
        operation_cancel(operation=operation, operation_id="cancel")

    jobs: list[Callable[[], object]] = [partial(match, SPEC), cancel]
    works(list(at_once(jobs if number % 2 else jobs[::-1])))

    assert state(operation).phase == "Cancelled"
    assert claims() == {}
    assert CapacityRequest.objects.get().phase == RequestPhase.CLOSED
    agree()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_an_expiration_and_a_grant_are_exclusive(
    world: UnitWorld, tenants: dict[str, Tenant], number: int
) -> None:
    operation = ask(tenants["a"], "one", waits=True)
    assert operation is not None
    stock_row()
    moment = timedelta(milliseconds=5 * number)
    CapacityRequest.objects.update(expires_at=Now() + moment)

    def end() -> None:
        world.run(operation)

    jobs: list[Callable[[], object]] = [partial(match, SPEC), end]
    works(list(at_once(jobs)))

    request = CapacityRequest.objects.get()
    if state(operation).phase == "Failed":
        assert state(operation).error_code == "insufficient_capacity"
        assert (claims(), request.granted_at) == ({}, None)
    elif state(operation).phase == "Pending" and request.granted_at is None:
        assert claims() == {}
    agree()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_deletion_and_a_grant_are_exclusive(
    world: UnitWorld, tenants: dict[str, Tenant], number: int
) -> None:
    operation = ask(tenant_by_name(), "one", waits=True)
    assert operation is not None
    stock_row()
    jobs: list[Callable[[], object]] = [partial(match, SPEC), partial(world.delete, "one")]

    works(list(at_once(jobs if number % 2 else jobs[::-1])))
    agree()
    if claims() == {}:
        assert world.run(operation).error_code == "phase_conflict"


def test_concurrent_starts_open_one_request(world: UnitWorld, tenants: dict[str, Tenant]) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()

    results = at_once([partial(world.start, "a")] * 6)

    assert Counter(type(one) for one in results) == {Operation: 1, PhaseConflict: 5}
    assert CapacityRequest.objects.count() == 1


def test_a_matcher_that_dies_before_its_hint_loses_nothing(
    world: UnitWorld, tenants: dict[str, Tenant], monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = ask(tenants["a"], "one", waits=True)
    assert operation is not None
    world.run(operation)
    assert operations_due(10, kind_names()) == []
    stock_row()

    def die(*_: object, **__: object) -> bool:
        raise SystemExit

    monkeypatch.setattr(queueing, "_send", die)
    with suppress(SystemExit):
        match(SPEC)

    assert operations_due(10, kind_names()) == [operation.pk]
    agree()
