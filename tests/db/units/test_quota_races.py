"""Concurrent creates, grants and changes of limits: a tenant never gets more than its limit."""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import pytest
from django.db import connection, transaction

from gpuplatform.errors import InsufficientCapacity, QuotaExceeded
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy import quota
from gpuplatform.tenancy.models import Tenant
from tests.factories.gpu_counts import held
from tests.factories.limits import limit
from tests.factories.unit_rows import catalogued, stock_row
from tests.fakes.threads import at_once
from tests.fakes.unit_world import UnitWorld
from units.models import CapacityRequest, GpuUnit
from units.requests import GpuUnitCreate
from units.services import units as unit_services
from units.services.matcher import match
from units.services.units import unit_create

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

SPEC = "g1.1"
CLIENTS, LIMIT = 50, 7
BLOCKED = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def new_tenant(name: str) -> Tenant:
    catalogued(SPEC)
    return Tenant.objects.create(name=name, namespace=f"tenant-{name}")


def create(tenant: Tenant, name: str, *, waits: bool = False) -> str:
    """Request a unit; return what the answer is."""
    body = {
        "operationID": f"create-{name}",
        "name": name,
        "specName": SPEC,
        "image": "example.com/a:1",
        **({"wait": {"maxSeconds": 600}} if waits else {}),
    }
    try:
        unit_create(tenant=tenant, body=GpuUnitCreate.parse(body))
    except (QuotaExceeded, InsufficientCapacity) as rejection:
        return rejection.code
    return "accepted"


def creates(tenant: Tenant, number: int, prefix: str = "u") -> list[Callable[[], str]]:
    return [partial(create, tenant, f"{prefix}{n}") for n in range(number)]


def refill(number: int) -> None:
    missing = number - GpuUnit.objects.filter(role="stock", claimed_by__isnull=True).count()
    for _ in range(missing):
        stock_row()


@pytest.mark.parametrize(
    ("asked", "ready", "allowed"), [(12, 9, 5), (12, 4, 9), (4, 9, 9), (12, 9, 0)]
)
def test_of_n_creates_exactly_the_smallest_of_n_ready_and_quota_win(
    world: UnitWorld, asked: int, ready: int, allowed: int
) -> None:
    tenant = new_tenant("a")
    refill(ready)
    limit(tenant, gpus=allowed)

    answers = Counter(at_once(creates(tenant, asked)))

    won = min(asked, ready, allowed)
    assert answers["accepted"] == won
    assert answers.keys() <= {"accepted", "quota_exceeded", "insufficient_capacity"}
    assert held([tenant.pk])[tenant.pk] == won
    assert GpuUnit.objects.filter(role="active").count() == won
    assert Operation.objects.count() == won


def test_tenants_with_and_without_a_limit_share_the_stock_completely(world: UnitWorld) -> None:
    limited, free = new_tenant("a"), new_tenant("b")
    refill(8)
    limit(limited, gpus=3)

    answers = at_once([*creates(limited, 8), *creates(free, 8)])

    assert Counter(answers)["accepted"] == 8
    assert held([limited.pk])[limited.pk] <= 3


def limits_meanwhile(tenant: Tenant, values: tuple[int, ...]) -> str:
    for gpus in values:
        limit(tenant, gpus=gpus)
    return "changed"


def crowd(rounds: int) -> None:
    """Let many clients use one limit at once, which is lowered and raised meanwhile."""
    for number in range(rounds):
        tenant = new_tenant(f"r{number}")
        refill(LIMIT + 3)
        limit(tenant, gpus=LIMIT)
        is_changed = number % 2 == 1
        jobs = creates(tenant, CLIENTS)
        if is_changed:
            jobs.append(partial(limits_meanwhile, tenant, (3, LIMIT, 5, LIMIT)))

        answers = Counter(at_once(jobs))
        assert answers.keys() <= {"accepted", "quota_exceeded", "changed"}, answers
        first = answers["accepted"]
        assert 3 <= first <= LIMIT
        if not is_changed:
            assert first == LIMIT
        again = [create(tenant, f"again{n}") for n in range(LIMIT - first + 1)]

        assert again == ["accepted"] * (LIMIT - first) + ["quota_exceeded"]
        assert held([tenant.pk]) == {tenant.pk: LIMIT}


@pytest.mark.lasts(seconds=30)
def test_fifty_clients_over_a_limit_of_seven_get_exactly_seven(world: UnitWorld) -> None:
    crowd(4)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_fifty_clients_over_a_limit_of_seven_in_a_hundred_rounds(world: UnitWorld) -> None:
    crowd(100)


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_change_of_limits_waits_for_a_create_of_a_tenant_without_limits(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch, is_nested: bool
) -> None:
    tenant = new_tenant("a")
    refill(3)
    assert create(tenant, "first") == "accepted"
    inserted, proceed = threading.Event(), threading.Event()
    insert = unit_services._insert
    seen: list[int] = []

    def paused(*args: object) -> GpuUnit:
        inserted.set()
        assert proceed.wait(20)
        return insert(*args)  # type: ignore[arg-type]  # passed on unchanged

    monkeypatch.setattr(unit_services, "_insert", paused)
    monkeypatch.setitem(quota._CHANGED, "test", lambda number: seen.append(held([number])[number]))

    def change() -> str:
        assert inserted.wait(20)
        limit(tenant, gpus=1)
        return "changed"

    def watch() -> str:
        with connection.cursor() as cursor:
            for _ in range(200_000):
                cursor.execute(BLOCKED)
                if cursor.fetchone() != (0,):
                    break
        proceed.set()
        return "blocked"

    def second() -> str:
        # A transaction that holds locks does not pass the gate. The lock of the row remains.
        with transaction.atomic() if is_nested else nullcontext():
            return create(tenant, "second")

    answers: list[object] = [*at_once([second, change, watch])]

    assert answers == ["accepted", "changed", "blocked"]
    assert seen == [2]  # The change saw both units.
    assert create(tenant, "third") == "quota_exceeded"


@pytest.mark.parametrize("number", range(3))
def test_after_a_change_of_limits_no_tenant_without_limits_gets_more(
    world: UnitWorld, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = new_tenant(f"free{number}")
    refill(12)
    seen: list[int] = []
    monkeypatch.setitem(quota._CHANGED, "test", lambda tenant: seen.append(held([tenant])[tenant]))
    jobs = creates(tenant, 10)
    jobs.insert(5, partial(limits_meanwhile, tenant, (3,)))

    at_once(jobs)

    assert len(seen) == 1
    assert held([tenant.pk])[tenant.pk] == max(seen[0], 3)


def test_concurrent_matchers_and_creates_grant_within_the_limits(world: UnitWorld) -> None:
    tenant, other = new_tenant("a"), new_tenant("b")
    limit(tenant, gpus=LIMIT)
    for n in range(10):
        create(tenant, f"waits{n}", waits=True)
        create(other, f"waits{n}", waits=True)
    refill(16)
    jobs: list[Callable[[], object]] = [partial(match, SPEC) for _ in range(3)]
    jobs += [*creates(tenant, 6), partial(limit_twice, tenant)]

    answers: list[object] = [*at_once(jobs)]

    assert [one for one in answers if isinstance(one, Exception)] == []
    match(SPEC)
    assert held([tenant.pk, other.pk]) == {tenant.pk: 6, other.pk: 10} or (
        held([tenant.pk, other.pk]) == {tenant.pk: LIMIT, other.pk: 9}
    )
    assert CapacityRequest.objects.filter(phase="Open", tenant=tenant).count() >= 3


def limit_twice(tenant: Tenant) -> int:
    limit(tenant, gpus=2)
    limit(tenant, gpus=LIMIT)
    return 0


def test_a_change_of_limits_does_not_wait_for_later_creates(world: UnitWorld) -> None:
    tenant, clients, each = new_tenant("a"), 6, 40
    limit(tenant, gpus=1_000)

    def call(client: int) -> Counter[str]:
        names = (f"c{client}-{n}" for n in range(each))
        return Counter(create(tenant, name, waits=True) for name in names)

    def change() -> Counter[str]:
        limit(tenant, units=0)
        return Counter()

    jobs: list[Callable[[], Counter[str]]] = [partial(call, n) for n in range(clients)]
    answers = at_once([*jobs, change])

    total: Counter[str] = Counter()
    for one in answers:
        assert isinstance(one, Counter), one
        total += one
    assert total["accepted"] + total["quota_exceeded"] == clients * each
    assert total["accepted"] < clients * each / 2


def test_two_changes_of_limits_do_not_deadlock(world: UnitWorld) -> None:
    tenant = new_tenant("a")

    jobs = [partial(limits_meanwhile, tenant, (n, n + 1, n + 2)) for n in range(6)]

    assert Counter(at_once(jobs)) == {"changed": 6}
