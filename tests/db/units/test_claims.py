"""Acceptance of creates: each claims one ready stock unit, also under concurrency."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from gpuplatform.errors import (
    FieldError,
    InsufficientCapacity,
    InvalidSpec,
    NameConflict,
    NotFound,
    OperationConflict,
    PhaseConflict,
    StaleEtag,
)
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from tests.factories.unit_rows import spec_row, stock_row
from tests.fakes.threads import DEADLINE_SECONDS, at_once
from tests.fakes.unit_world import UnitWorld, unit_row
from units.models import GpuUnit, UnitHistory
from units.requests import GpuUnitCreate
from units.services.units import unit_create

ONE = pytest.mark.django_db
COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@contextmanager
def told_of_waits(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` before each query of this thread that waits for a locked row."""

    def watch(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "FOR UPDATE" in sql and "SKIP LOCKED" not in sql:
            tell()
        return execute(sql, *rest)

    with connection.execute_wrapper(watch):
        yield


@ONE
def test_a_create_inserts_operation_row_and_claim_in_one_transaction(world: UnitWorld) -> None:
    older, younger = stock_row(), stock_row()

    operation = world.create("a")

    unit = unit_row("a")
    older.refresh_from_db()
    younger.refresh_from_db()
    assert (operation.phase, operation.object_row) == ("Pending", unit.pk)
    assert (unit.phase, unit.uid, unit.gpu, unit.spec["memory"]) == ("Pending", "", 1, "64Gi")
    assert (older.claimed_by, younger.claimed_by) == (operation, None)
    assert UnitHistory.objects.get(unit=unit).operation == operation


@ONE
def test_a_create_without_ready_stock_leaves_no_row(world: UnitWorld) -> None:
    stock_row("Progressing")
    stock_row(spec_name="other")

    with pytest.raises(InsufficientCapacity):
        world.create("a")

    assert not Operation.objects.exists()
    assert not GpuUnit.objects.filter(role="active").exists()


@ONE
def test_a_replay_claims_nothing_and_another_payload_is_a_conflict(world: UnitWorld) -> None:
    stock_row()
    stock_row()
    first = world.ask_create("a", operationID="op")

    again = world.ask_create("a", operationID="op", namespace="runtime-instance")
    with pytest.raises(OperationConflict):
        world.ask_create("a", operationID="op", image="example.com/b:1")

    assert (first.is_replay, again.is_replay) == (False, True)
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 1


@ONE
def test_a_name_in_use_is_a_conflict_that_claims_nothing(world: UnitWorld) -> None:
    stock_row()
    stock_row()
    world.create("a")

    with pytest.raises(NameConflict):
        world.create("a")

    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 1
    assert Operation.objects.count() == 1


@ONE
def test_a_stock_name_claims_exactly_that_unit_or_none(world: UnitWorld) -> None:
    stock_row()
    wanted = stock_row()

    operation = world.create("a", stockName=wanted.name)

    wanted.refresh_from_db()
    assert wanted.claimed_by == operation
    with pytest.raises(InsufficientCapacity):
        world.create("b", stockName=wanted.name)


@ONE
def test_a_namespace_of_another_tenant_is_rejected(world: UnitWorld) -> None:
    stock_row()

    with pytest.raises(InvalidSpec) as refusal:
        world.create("a", namespace="elsewhere")

    assert [fault.field for fault in refusal.value.details] == ["namespace"]


@ONE
def test_stock_of_a_disabled_spec_is_not_claimed(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    spec_row(is_enabled=False)
    stock = stock_row()

    waiting = world.run(world.start("a"))

    assert (waiting.phase, waiting.reason) == ("Pending", "WaitingForCapacity")
    stock.refresh_from_db()
    assert stock.claimed_by is None


@ONE
def test_an_unknown_or_terminating_unit_accepts_no_change(world: UnitWorld) -> None:
    stock_row()
    world.create("a")
    world.delete("a")

    for ask in (world.stop, world.start):
        with pytest.raises(PhaseConflict):
            ask("a")
        with pytest.raises(NotFound):
            ask("b")
    with pytest.raises(PhaseConflict):
        world.update("a", image="example.com/b:1")
    assert unit_row("a").phase == "Terminating"


@ONE
def test_stock_is_invisible_to_users(world: UnitWorld) -> None:
    stock = stock_row()

    with pytest.raises(NotFound):
        world.delete(stock.name)


@ONE
def test_a_change_of_another_version_is_stale(world: UnitWorld) -> None:
    stock_row()
    world.create("a")
    GpuUnit.objects.filter(name="a").update(uid="u", generation=2)
    Operation.objects.update(phase=OperationPhase.SUCCEEDED, due_at=None, ended_at=Now())

    world.update("a", etag="u-2", image="example.com/b:1")
    with pytest.raises(StaleEtag):
        world.update("a", etag="u-1", image="example.com/b:1")


@ONE
def test_an_access_that_names_no_port_is_refused_with_its_field(world: UnitWorld) -> None:
    stock_row()
    world.create("a", template={"ports": [{"name": "web", "port": 80}]})

    with pytest.raises(InvalidSpec) as refusal:
        world.update("a", access={"primaryPort": "ssh"})

    faults: tuple[FieldError, ...] = refusal.value.details
    assert [fault.field for fault in faults] == ["access.primaryPort"]


@COMMITTING
@pytest.mark.parametrize(("creates", "stock"), [(24, 9), (8, 8), (3, 6)])
def test_n_creates_over_m_stock_units_succeed_min_n_m_times(
    world: UnitWorld, creates: int, stock: int
) -> None:
    for _ in range(stock):
        stock_row()

    results = at_once([partial(world.ask_create, f"u{n}") for n in range(creates)])

    kinds = Counter(type(result).__name__ for result in results)
    expected = {"Accepted": min(creates, stock)}
    if creates > stock:
        expected["InsufficientCapacity"] = creates - stock
    assert kinds == expected
    claims = list(GpuUnit.objects.filter(claimed_by__isnull=False).values_list("claimed_by"))
    assert len(set(claims)) == len(claims) == min(creates, stock)
    assert GpuUnit.objects.filter(role="active").count() == min(creates, stock)
    assert Operation.objects.count() == min(creates, stock)


@COMMITTING
def test_a_claim_waits_for_a_row_that_the_mirror_has_locked(world: UnitWorld) -> None:
    only = stock_row()
    is_locked, asked = threading.Event(), threading.Event()

    def copy() -> None:
        with transaction.atomic():
            GpuUnit.objects.filter(pk=only.pk).update(message="a copy")
            is_locked.set()
            asked.wait(DEADLINE_SECONDS)

    def create() -> Accepted:
        is_locked.wait(DEADLINE_SECONDS)

        with told_of_waits(asked.set):
            try:
                return world.ask_create("a")
            finally:
                asked.set()

    _, created = at_once([copy, create])

    assert isinstance(created, Accepted), created


@COMMITTING
def test_a_row_that_stops_being_ready_while_waited_for_is_not_claimed(world: UnitWorld) -> None:
    only = stock_row()
    is_locked, asked = threading.Event(), threading.Event()

    def lose() -> None:
        with transaction.atomic():
            GpuUnit.objects.filter(pk=only.pk).update(phase="Progressing")
            is_locked.set()
            asked.wait(DEADLINE_SECONDS)

    def create() -> Accepted:
        is_locked.wait(DEADLINE_SECONDS)

        with told_of_waits(asked.set):
            return world.ask_create("a")

    _, created = at_once([lose, create])

    assert isinstance(created, InsufficientCapacity), created
    assert not GpuUnit.objects.filter(role="active").exists()


@COMMITTING
def test_a_waiting_claim_does_not_keep_rows_locked(world: UnitWorld) -> None:
    """Without the order, two transactions could deadlock."""
    first, second = stock_row(), stock_row()
    waits = [threading.Event(), threading.Event()]
    is_lost, is_held = threading.Event(), threading.Event()

    def lose() -> None:
        with transaction.atomic():
            GpuUnit.objects.filter(pk=first.pk).update(phase="Progressing")
            is_lost.set()
            waits[0].wait(DEADLINE_SECONDS)

    def copy_both() -> None:
        with transaction.atomic():
            GpuUnit.objects.filter(pk=second.pk).update(message="a copy")
            is_held.set()
            waits[1].wait(DEADLINE_SECONDS)
            GpuUnit.objects.filter(pk=first.pk).update(message="a copy")

    def create() -> Accepted:
        is_lost.wait(DEADLINE_SECONDS)
        is_held.wait(DEADLINE_SECONDS)
        left = iter(waits)

        with told_of_waits(lambda: next(left).set()):
            return world.ask_create("a")

    lost, copied, created = at_once([lose, copy_both, create])

    assert (lost, copied) == (None, None)
    assert isinstance(created, Accepted), created
    second.refresh_from_db()
    assert second.claimed_by == created.operation


@COMMITTING
def test_concurrent_creates_of_one_name_claim_one_stock_unit(world: UnitWorld) -> None:
    for _ in range(20):
        stock_row()

    results = at_once([lambda: world.ask_create("same")] * 20)

    assert Counter(type(one).__name__ for one in results) == {"Accepted": 1, "NameConflict": 19}
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 1


@COMMITTING
def test_concurrent_removals_and_creates_never_share_a_stock_unit(world: UnitWorld) -> None:
    for _ in range(10):
        stock_row()

    results = at_once(
        [partial(world.create, f"u{n}") for n in range(8)] + [partial(world.remove, 3)] * 2
    )

    claimed = GpuUnit.objects.filter(claimed_by__isnull=False).count()
    taken = [3 if n >= 8 else 1 for n, one in enumerate(results) if isinstance(one, Operation)]
    refused = [n for n, one in enumerate(results) if isinstance(one, InsufficientCapacity)]
    assert len(taken) + len(refused) == len(results), results
    assert claimed == sum(taken)
    assert claimed > 7 or not any(n >= 8 for n in refused), "refused though three were left"
    assert claimed == 10 or not any(n < 8 for n in refused), "refused though one was left"


@ONE
@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "disabled"])
def test_a_create_with_an_unavailable_spec_is_rejected_and_leaves_nothing(
    world: UnitWorld, is_known: bool
) -> None:
    stock_row(spec_name="h100")
    if is_known:
        spec_row("h100", is_enabled=False)
    body = {"operationID": "typo", "name": "a", "specName": "h100", "image": "app:1"}

    with pytest.raises(InvalidSpec) as rejection:
        unit_create(tenant=tenant_by_name(), body=GpuUnitCreate.parse(body))

    assert [error.field for error in rejection.value.details] == ["specName"]
    assert GpuSpec.objects.count() == is_known
    assert not Operation.objects.exists()
    assert [row.claimed_by_id for row in GpuUnit.objects.all()] == [None]
