"""Requests that wait for stock: their order, their end, and the operations that they belong to."""

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import (
    InsufficientCapacity,
    InvalidSpec,
    PhaseConflict,
)
from gpuplatform.operations.interventions import operation_cancel
from gpuplatform.operations.models import Operation
from gpuplatform.operations.registry import QueuePlace
from gpuplatform.tenancy.models import Tenant
from tests.factories.gpu_counts import held
from tests.factories.unit_rows import catalogued, spec_row, stock_row
from tests.fakes.unit_world import UnitWorld, state, stock_rows, unit_row
from units.consistency import unit_inconsistencies
from units.models import CapacityRequest, GpuUnit, UnitHistory
from units.operations import handover, waits
from units.phases import RequestPhase
from units.requests import GpuUnitCreate, Wait
from units.services import matcher, queue
from units.services.matcher import match
from units.services.stock import top_up
from units.services.units import unit_create, unit_start
from units.tenant_usage import usage_by_tenant
from units.waiting import past_grants, places_of_units

pytestmark = pytest.mark.django_db

WAIT = {"maxSeconds": 3600}
SPEC = "g1.1"
GRANTED_SOON = Operation.objects.filter(due_at__lte=Now())
"""Operations that are due, although a waiting operation is due at its end."""


def tenant(name: str) -> Tenant:
    return Tenant.objects.get_or_create(name=name, defaults={"namespace": f"tenant-{name}"})[0]


def ask(owner: str, name: str, *, waits: bool = True) -> Operation:
    """Request a unit of a tenant."""
    body = {
        "operationID": f"create-{owner}-{name}",
        "name": name,
        "specName": SPEC,
        "image": "example.com/a:1",
        **({"wait": WAIT} if waits else {}),
    }
    catalogued(SPEC)
    return unit_create(tenant=tenant(owner), body=GpuUnitCreate.parse(body)).operation


def request_of(operation: Operation) -> CapacityRequest:
    return CapacityRequest.objects.get(operation=operation)


def holders() -> list[str]:
    """Return the operationIDs that claim stock, in the order of the stock."""
    rows = GpuUnit.objects.filter(claimed_by__isnull=False).order_by("id")
    return list(rows.values_list("claimed_by__operation_id", flat=True))


def test_a_create_that_waits_is_accepted_without_stock(world: UnitWorld) -> None:
    operation = ask("a", "one")

    request = request_of(operation)
    assert (request.phase, request.count, request.ahead) == (RequestPhase.OPEN, 1, 0)
    assert request.requested_at == state(operation).created_at
    assert request.expires_at - request.requested_at > timedelta(seconds=3590)
    history = UnitHistory.objects.filter(unit=request.unit).values_list("phase", "reason")
    assert list(history) == [("Pending", "WaitingForCapacity"), ("Pending", "")]
    waiting = world.run(operation)
    assert (waiting.phase, waiting.reason) == ("Pending", "WaitingForCapacity")
    assert waiting.due_at == pytest.approx(request.expires_at, abs=timedelta(seconds=5))


def test_a_create_that_waits_claims_ready_stock_at_once(world: UnitWorld) -> None:
    stock_row()

    operation = ask("a", "one")

    assert holders() == [operation.operation_id]
    assert not CapacityRequest.objects.exists()


def test_a_granted_create_becomes_a_unit(world: UnitWorld) -> None:
    operation = ask("default", "one")
    world.run(operation)
    assert (unit_row("one").image, unit_row("one").gpu) == ("example.com/a:1", 0)

    world.seed(1)
    assert unit_row("one").gpu == 1
    world.work()

    assert state(operation).phase == "Succeeded"
    assert unit_row("one").phase == "Ready"
    request = request_of(operation)
    assert (request.phase, request.granted_at is None) == (RequestPhase.CLOSED, False)


def test_the_tenant_with_the_smaller_share_is_first_then_the_older_request(
    world: UnitWorld,
) -> None:
    stock_row()
    ask("a", "held")
    later = [ask("a", "one"), ask("a", "two"), ask("b", "three"), ask("b", "four")]
    assert [request_of(one).ahead for one in later] == [0, 1, 0, 1]
    for _ in range(3):
        stock_row()

    assert match(SPEC) == 3

    assert holders() == ["create-a-held", "create-b-three", "create-a-one", "create-b-four"]


def test_a_grant_makes_its_operation_due(world: UnitWorld) -> None:
    operation = ask("a", "one")
    world.run(operation)
    stock_row()

    match(SPEC)

    assert GRANTED_SOON.filter(pk=operation.pk).exists()


def test_a_create_without_wait_does_not_pass_an_open_request(world: UnitWorld) -> None:
    ask("a", "one")
    ask("a", "two")
    stock_row()

    with pytest.raises(InsufficientCapacity) as refused:
        ask("b", "three", waits=False)
    assert refused.value.waiting == 2
    stock_row()
    stock_row()
    with pytest.raises(InsufficientCapacity):
        ask("a", "four", waits=False)
    fifth = ask("b", "five", waits=False)

    assert holders() == [fifth.operation_id]
    assert match(SPEC) == 2
    assert len(holders()) == 3


def test_a_create_takes_stock_that_no_open_request_can_use_without_the_turn(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("a", "one")
    CapacityRequest.objects.update(resource_name="example.com/other")
    stock_row()
    stock_row()
    turns: list[str] = []

    def turn_of(name: str) -> str:
        turns.append(name)
        return name

    monkeypatch.setattr(queue, "turn_of", turn_of)
    monkeypatch.setattr(queue, "_CONTENDED_UNTIL", {})

    second = ask("b", "two", waits=False)

    assert (holders(), turns) == ([second.operation_id], [])
    with pytest.raises(InsufficientCapacity):
        ask("a", "three", waits=False)
    assert turns == [SPEC], "a create never passes an open request of its own lane"


def test_a_request_that_cannot_use_the_stock_refuses_nobody(world: UnitWorld) -> None:
    operation = ask("a", "one")
    CapacityRequest.objects.update(count=4)
    stock_row()

    assert match(SPEC) == 0
    assert request_of(operation).hold_begun_at is not None, "the stock is held for the head"
    with pytest.raises(InsufficientCapacity):
        ask("b", "two", waits=False)
    CapacityRequest.objects.update(hold_begun_at=Now() - timedelta(minutes=10))
    spec_row()
    assert match(SPEC) == 0

    assert (request_of(operation).hold_begun_at, request_of(operation).hold_times) == (None, 1)
    assert ask("b", "three", waits=False).operation_id in holders()


def pause_left() -> timedelta:
    """Return the rest of the pause of the holds of the GPU spec."""
    until = spec_row().hold_pause_until
    return timedelta() if until is None else until - clock.now()


def test_a_cancellation_does_not_shorten_the_pause_after_a_hold(world: UnitWorld) -> None:
    long, short = ask("a", "long"), ask("b", "short")
    CapacityRequest.objects.update(hold_begun_at=Now())
    CapacityRequest.objects.filter(operation=long).update(hold_times=4)

    operation_cancel(operation=long, operation_id="cancel-long")
    assert pause_left() == pytest.approx(timedelta(minutes=160), abs=timedelta(minutes=1))
    operation_cancel(operation=short, operation_id="cancel-short")

    assert pause_left() == pytest.approx(timedelta(minutes=160), abs=timedelta(minutes=1))


def test_a_hold_ends_and_the_spec_pauses_as_long(world: UnitWorld) -> None:
    spec = spec_row()
    group, single = ask("a", "one"), ask("b", "two")
    CapacityRequest.objects.filter(operation=group).update(
        count=2, hold_begun_at=Now() - timedelta(minutes=20), hold_times=1
    )
    stock_row()

    assert match(SPEC) == 1

    spec.refresh_from_db()
    assert holders() == [single.operation_id]
    assert request_of(group).hold_times == 2
    ended = request_of(single).granted_at
    assert spec.hold_pause_until is not None
    assert ended is not None
    pause = spec.hold_pause_until - ended
    assert timedelta(minutes=19) < pause < timedelta(minutes=21)


def test_a_group_is_granted_whole(world: UnitWorld) -> None:
    operation = ask("a", "one")
    CapacityRequest.objects.update(count=2)
    stock_row()
    stock_row()

    assert match(SPEC) == 1

    assert holders() == [operation.operation_id] * 2


def test_a_start_waits_in_the_queue_behind_an_older_request(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    first = ask("default", "one")

    start = world.start("a")
    world.seed(1)
    world.work()

    assert state(first).phase == "Succeeded"
    assert state(start).reason == "WaitingForCapacity"
    world.seed(1)
    world.work()
    assert state(start).phase == "Succeeded"


@pytest.mark.parametrize(("most", "expected"), [(9, 7), (5, 5)])
def test_a_start_has_the_priority_of_the_unit_up_to_the_limit_of_the_tenant(
    world: UnitWorld, most: int, expected: int
) -> None:
    Tenant.objects.update(max_priority=9)
    world.seed(1)
    world.create("a", priority=7)
    world.work()
    assert unit_row("a").priority == 7
    world.stop("a")
    world.work()
    Tenant.objects.update(max_priority=most)

    start = world.start("a")

    assert request_of(start).priority == expected


def test_a_second_start_names_the_first_one(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    first = world.start("a")

    with pytest.raises(PhaseConflict) as refused:
        world.start("a")

    assert [one.message for one in refused.value.details] == [first.operation_id]
    assert Operation.objects.filter(kind="unit.start").count() == 1


def test_a_start_waits_as_long_as_it_was_requested(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    owner = tenant("default")

    wait = Wait(maxSeconds=86_400)
    accepted = unit_start(tenant=owner, name="a", operation_id="start-1", wait=wait)

    request = request_of(accepted.operation)
    assert request.expires_at - request.requested_at > timedelta(hours=23)
    assert unit_start(tenant=owner, name="a", operation_id="start-1", wait=wait).is_replay


def test_vanished_stock_is_requested_again_with_the_age_of_the_operation(
    world: UnitWorld,
) -> None:
    world.seed(1)
    operation = world.create("a")
    ask("default", "later")
    world.drop_stock(stock_rows()[0])

    world.run(operation)
    world.seed(1)
    world.work()

    request = request_of(operation)
    assert request.requested_at == operation.created_at
    assert state(operation).phase == "Succeeded"
    assert request_of(Operation.objects.get(operation_id="create-default-later")).phase == "Open"


@pytest.mark.parametrize("kind", ["stop", "delete"])
def test_a_stop_or_a_deletion_ends_the_start_before_it(world: UnitWorld, kind: str) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    start = world.start("a")
    world.run(start)

    later = getattr(world, kind)("a")

    assert request_of(start).phase == RequestPhase.CLOSED
    assert world.run(start).error_code == "phase_conflict"
    assert world.run(later).phase == "Succeeded"


def test_a_deletion_ends_the_create_before_it(world: UnitWorld) -> None:
    create = ask("default", "one")
    world.run(create)

    deletion = world.delete("one")
    stock_row()
    match(SPEC)
    world.finish(create)
    world.finish(deletion)

    assert (state(create).phase, state(deletion).phase) == ("Failed", "Succeeded")
    assert unit_row("one").deleted_at is not None
    assert holders() == []


def test_a_cancellation_closes_the_request_and_releases_the_stock(world: UnitWorld) -> None:
    first, second = ask("a", "one"), ask("b", "two")
    stock_row()
    match(SPEC)
    assert holders() == [first.operation_id]

    operation_cancel(operation=first, operation_id="cancel-1")
    match(SPEC)

    assert request_of(first).phase == RequestPhase.CLOSED
    assert holders() == [second.operation_id]


def test_an_expired_request_is_not_granted_and_its_operation_fails(world: UnitWorld) -> None:
    operation = ask("a", "one")
    stock_row()
    CapacityRequest.objects.update(expires_at=Now())

    assert match(SPEC) == 0
    ended = world.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "insufficient_capacity")
    assert ended.error_retryable
    assert request_of(operation).phase == RequestPhase.CLOSED


def test_a_worker_does_not_park_an_operation_that_was_granted_meanwhile(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = ask("default", "one")
    stock_row()
    wait = waits.wait_for_grant

    def granted_meanwhile(request: CapacityRequest) -> object:
        outcome = wait(request)
        match(SPEC)
        return outcome

    monkeypatch.setattr(handover, "wait_for_grant", granted_meanwhile)
    parked = world.run(operation)

    assert holders() == [operation.operation_id]
    assert parked.phase == "Pending"
    assert GRANTED_SOON.filter(pk=operation.pk).exists()


def test_a_grant_that_raises_is_passed_over(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison, second = ask("a", "one"), ask("b", "two")
    stock_row()
    set_size = matcher._set_size

    def fail(operation: Operation, unit: int, stock: GpuUnit) -> None:
        if operation == poison:
            raise ZeroDivisionError
        set_size(operation, unit, stock)

    monkeypatch.setattr(matcher, "_set_size", fail)

    assert match(SPEC) == 1
    assert holders() == [second.operation_id]
    assert request_of(poison).phase == RequestPhase.OPEN


def test_a_failure_of_the_database_is_not_a_failure_of_the_request(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("a", "one")
    stock_row()

    def fail(*_: object) -> None:
        raise OperationalError("connection lost")

    monkeypatch.setattr(matcher, "_set_size", fail)

    with pytest.raises(OperationalError):
        match(SPEC)
    assert holders() == []


def test_a_reopened_request_has_no_time_of_a_grant(world: UnitWorld) -> None:
    request = request_of(ask("default", "one"))
    stock_row()
    match(SPEC)
    request.refresh_from_db()
    assert (request.phase, request.granted_at is None) == (RequestPhase.GRANTED, False)
    assert len(past_grants([SPEC])[SPEC]) == 1

    world.run(request.operation)  # The cluster does not have the stock unit.

    request.refresh_from_db()
    assert (request.phase, request.granted_at) == (RequestPhase.OPEN, None)
    assert len(past_grants([SPEC])[SPEC]) == 0


def test_a_wait_for_a_named_stock_unit_is_invalid() -> None:
    body = {"operationID": "x", "name": "x", "specName": SPEC, "image": "a:1"}

    with pytest.raises(InvalidSpec):
        GpuUnitCreate.parse({**body, "stockName": "stock-1", "wait": WAIT})
    for seconds in (0, 604_801, "60", None):
        with pytest.raises(InvalidSpec) as refused:
            GpuUnitCreate.parse({**body, "wait": {"maxSeconds": seconds}})
        assert [one.field for one in refused.value.details] == ["wait.maxSeconds"]


def test_open_requests_raise_the_warm_target(world: UnitWorld) -> None:
    spec = spec_row(warm_target=1)
    ask("a", "one")
    ask("a", "two")

    accepted = top_up(spec)

    assert accepted is not None
    assert accepted.operation.progress_total == 3
    assert top_up(spec) is None


def test_no_stock_is_seeded_for_the_queue_without_room_on_the_nodes(world: UnitWorld) -> None:
    spec = spec_row()
    stock_row("Progressing", cause="Unschedulable", reason="StockNotReady")
    ask("a", "one")
    ask("a", "two")

    assert top_up(spec) is None
    stock_rows()[0].delete()
    accepted = top_up(spec)
    assert accepted is not None
    assert accepted.operation.progress_total == 2


def test_a_unit_that_starts_again_counts_once(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    owner = tenant("default").pk
    assert held([owner]) == {owner: 1}

    world.stop("a")
    world.start("a")

    assert held([owner]) == {owner: 1}


@pytest.mark.parametrize("waits", [False, True])
def test_a_create_whose_stock_was_deleted_holds_nothing_while_it_waits(
    world: UnitWorld, waits: bool
) -> None:
    world.seed(1)
    operation = ask("default", "one", waits=waits)
    owner = operation.tenant_id
    assert held([owner]) == {owner: 1}

    world.drop_stock(GpuUnit.objects.get(claimed_by=operation))
    assert world.run(operation).reason == "WaitingForCapacity"
    world.work()

    assert held([owner])[owner] == 0
    assert usage_by_tenant([owner])[owner].gpus.total() == 0
    world.seed(1)
    assert held([owner]) == {owner: 1}
    assert usage_by_tenant([owner])[owner].gpus.total() == 1


def test_places_are_positions_in_the_order(world: UnitWorld) -> None:
    stock_row()
    ask("a", "held")
    for name in ("one", "two"):
        ask("a", name)
    ask("b", "three")

    units = {unit_row(name).pk: name for name in ("one", "two", "three")}
    places = places_of_units(units.keys())

    assert {units[pk]: place.position for pk, place in places.items()} == {
        "three": 1,
        "one": 2,
        "two": 3,
    }
    assert set(places.values()) >= {QueuePlace(1, None)}


def test_the_estimate_uses_the_newest_grants(world: UnitWorld) -> None:
    for number in range(6):
        operation = ask("a", f"u{number}")
        CapacityRequest.objects.filter(operation=operation).update(
            phase=RequestPhase.GRANTED,
            requested_at=Now() - timedelta(seconds=60),
            granted_at=Now(),
        )
    waiting = ask("b", "waiting")

    place = places_of_units([request_of(waiting).unit_id])[request_of(waiting).unit_id]

    assert len(past_grants([SPEC])[SPEC]) == 6
    assert place == QueuePlace(1, (60, 60))


def test_an_open_request_of_an_ended_operation_is_an_inconsistency(world: UnitWorld) -> None:
    operation = ask("a", "one")
    assert list(unit_inconsistencies(world.cluster)) == []
    operation_cancel(operation=operation, operation_id="cancel-1")

    CapacityRequest.objects.update(phase=RequestPhase.OPEN)

    [found] = unit_inconsistencies(world.cluster)
    assert (found.kind, found.name) == ("leaked", operation.operation_id)
