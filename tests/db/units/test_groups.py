"""Groups of units: all of them get stock or none, and a group that fails leaves no unit."""

from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform.errors import (
    InsufficientCapacity,
    NameConflict,
    NotFound,
    OperationConflict,
    PhaseConflict,
)
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations.interventions import operation_cancel, operation_retry
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.gpu_counts import held
from tests.factories.unit_rows import catalogued, stock_row
from tests.fakes.unit_world import NAMESPACE, UnitWorld, state, stock_rows, unit_row
from units.consistency import unit_inconsistencies
from units.group_members import first_members, group_get, group_states, members_live
from units.models import CapacityRequest, GpuUnit
from units.phases import RequestPhase, UnitPhase
from units.requests import GpuUnitCreate, UnitGroupCreate
from units.selectors import claimable_stock
from units.services.claims import claim_all
from units.services.groups import group_create, group_request_deletion
from units.services.matcher import match
from units.services.units import unit_create, unit_request_deletion, unit_start, unit_stop
from units.waiting import places_of_operations, places_of_units

pytestmark = pytest.mark.django_db

SPEC = "g1.1"
WAIT = {"maxSeconds": 3600}


def tenant(name: str) -> Tenant:
    return Tenant.objects.get_or_create(name=name, defaults={"namespace": f"tenant-{name}"})[0]


def ask(name: str = "team", size: int = 3, *, owner: str = "default", **fields: Any) -> Operation:
    """Request a group."""
    body = {
        "operationID": f"create-{name}",
        "name": name,
        "size": size,
        "unit": {"specName": SPEC, "image": "example.com/a:1"},
        **fields,
    }
    catalogued(SPEC)
    return group_create(tenant=tenant(owner), body=UnitGroupCreate.parse(body)).operation


def ask_one(name: str, *, owner: str = "default", waits: bool = True) -> Operation:
    """Request a single unit."""
    body = {
        "operationID": f"create-{name}",
        "name": name,
        "specName": SPEC,
        "image": "example.com/a:1",
        **({"wait": WAIT} if waits else {}),
    }
    catalogued(SPEC)
    return unit_create(tenant=tenant(owner), body=GpuUnitCreate.parse(body)).operation


def delete(name: str = "team", operation_id: str = "delete-1") -> Operation:
    """Request the deletion of a group."""
    accepted = group_request_deletion(
        tenant=tenant_by_name(), name=name, operation_id=operation_id
    )
    return accepted.operation


def claimed(operation: Operation) -> int:
    return GpuUnit.objects.filter(claimed_by=operation).count()


def members(name: str = "team") -> list[GpuUnit]:
    return list(members_live(NAMESPACE, name))


def test_a_group_becomes_ready_with_one_stock_unit_for_each_unit(world: UnitWorld) -> None:
    world.seed(4)

    operation = ask()
    assert (claimed(operation), state(operation).progress_total) == (3, 3)
    world.work()

    done = state(operation)
    assert (done.phase, done.progress_done) == ("Succeeded", 3)
    found = members()
    assert [(one.name, one.group_rank) for one in found] == [
        ("team-0", 0),
        ("team-1", 1),
        ("team-2", 2),
    ]
    assert {one.phase for one in found} == {"Ready"}
    assert len({one.source_uid for one in found}) == 3
    consumed = [stock for stock in stock_rows() if stock.consumed_by]
    assert {stock.consumed_by for stock in consumed} == {one.uid for one in found}
    assert held([tenant_by_name().pk]) == {tenant_by_name().pk: 3}
    assert list(unit_inconsistencies(world.cluster)) == []
    group = group_get(NAMESPACE, "team")
    assert (group.phase, group.ready, group.size) == ("Ready", 3, 3)


def test_the_gpus_of_a_group_count_once_at_each_of_its_steps(world: UnitWorld) -> None:
    world.seed(3)
    operation = ask()
    seen: list[int] = []

    def look(*_: object) -> None:
        seen.extend(held([operation.tenant_id]).values())

    world.cluster.on_call = look
    world.run(operation)
    world.cluster.on_call = None
    world.work()

    assert len(seen) > 6
    assert set(seen) == {3}
    assert held([operation.tenant_id])[operation.tenant_id] == 3


def test_a_group_without_enough_stock_leaves_nothing(world: UnitWorld) -> None:
    stock_row()
    stock_row()

    with pytest.raises(InsufficientCapacity) as refused:
        ask()

    assert [one.field for one in refused.value.details] == ["size"]
    assert refused.value.waiting == 0
    assert not GpuUnit.objects.filter(claimed_by__isnull=False).exists()
    assert not GpuUnit.objects.exclude(group_name="").exists()
    assert not Operation.objects.filter(kind="group.create").exists()


def test_a_claim_of_several_rows_takes_all_of_them_or_none(world: UnitWorld) -> None:
    operation = ask(wait=WAIT)
    stock_row()
    stock_row()
    free = claimable_stock(SPEC)

    assert claim_all(operation, free, 3, waits=False) is None
    assert claimed(operation) == 0
    assert claim_all(operation, free, 2, waits=False) is not None
    assert claimed(operation) == 2


def test_a_replay_returns_the_operation_and_another_request_conflicts(world: UnitWorld) -> None:
    first = ask(wait=WAIT)

    assert ask(wait=WAIT) == first
    with pytest.raises(OperationConflict):
        ask(size=4, wait=WAIT)
    assert len(members()) == 3


def test_a_waiting_group_has_one_request_and_each_unit_its_place(world: UnitWorld) -> None:
    ask_one("first")
    operation = ask(wait=WAIT)

    request = CapacityRequest.objects.get(operation=operation)
    assert (request.count, request.unit.name, request.ahead) == (3, "team-0", 1)
    assert places_of_operations([operation.pk])[operation.pk].position == 2
    places = places_of_units([one.pk for one in members()])
    assert [place.position for place in places.values()] == [2, 2, 2]
    [shown] = group_states(list(first_members()))
    assert {one.reason for one in shown.members} == {"WaitingForCapacity"}
    assert shown.phase == UnitPhase.PENDING
    assert world.run(operation).reason == "WaitingForCapacity"


def test_the_matcher_grants_all_rows_or_none(world: UnitWorld) -> None:
    operation = ask(wait=WAIT)
    world.run(operation)
    stock_row()
    stock_row()

    assert match(SPEC) == 0
    assert claimed(operation) == 0
    stock_row()
    assert match(SPEC) == 1

    assert claimed(operation) == 3
    assert Operation.objects.filter(pk=operation.pk, due_at__lte=Now()).exists()


def test_later_small_requests_do_not_starve_a_group(world: UnitWorld) -> None:
    group = ask(wait=WAIT)
    small = [ask_one(f"small-{number}") for number in range(2)]
    later = ask_one("other", owner="b")
    stock_row()
    match(SPEC)
    assert CapacityRequest.objects.get(operation=group).hold_begun_at is not None
    stock_row()
    match(SPEC)
    stock_row()

    match(SPEC)

    assert claimed(group) == 3
    assert [claimed(one) for one in (*small, later)] == [0, 0, 0]


def test_a_granted_group_is_created(world: UnitWorld) -> None:
    operation = ask(wait=WAIT)
    world.run(operation)

    world.seed(3)
    world.work()

    assert state(operation).phase == "Succeeded"
    assert {one.phase for one in members()} == {"Ready"}
    assert CapacityRequest.objects.get().phase == RequestPhase.CLOSED


def test_an_expired_group_fails_and_frees_its_names(world: UnitWorld) -> None:
    operation = ask(wait=WAIT)
    CapacityRequest.objects.update(expires_at=Now())

    failed = world.run(operation)

    assert (failed.phase, failed.error_code) == ("Failed", "insufficient_capacity")
    assert members() == []
    world.seed(3)
    again = operation_retry(operation=failed, operation_id="again").operation
    world.work()
    assert state(again).phase == "Succeeded"


def test_a_cancelled_group_is_removed_also_if_some_units_exist(world: UnitWorld) -> None:
    world.seed(3)
    operation = ask()
    stock = GpuUnit.objects.filter(claimed_by=operation).order_by("-id")[0]
    world.drop_stock(stock)
    waiting = world.run(operation)
    assert waiting.reason == "WaitingForCapacity"
    created = [one.name for one in members() if one.uid]
    assert created == ["team-1", "team-2"]
    assert places_of_units([one.pk for one in members()]).keys() == {unit_row("team-0").pk}
    shown = group_get(NAMESPACE, "team").members
    assert [one.reason == "WaitingForCapacity" for one in shown] == [True, False, False]

    operation_cancel(operation=waiting, operation_id="cancel")
    assert {one.phase for one in members()} == {"Terminating"}
    world.work()

    assert members() == []
    assert world.cluster.list(GPU_UNIT, namespace=NAMESPACE).items == []
    assert list(unit_inconsistencies(world.cluster)) == []


def test_a_group_whose_stock_vanished_keeps_the_rest_and_requests_what_it_lost(
    world: UnitWorld,
) -> None:
    world.seed(3)
    operation = ask()
    first = GpuUnit.objects.filter(claimed_by=operation).order_by("id")[0]
    world.drop_stock(first)

    waiting = world.run(operation)

    request = CapacityRequest.objects.get(operation=operation)
    assert (waiting.reason, request.count, claimed(operation)) == ("WaitingForCapacity", 1, 2)
    assert not any(one.uid for one in members())
    assert world.run(operation).reason == "WaitingForCapacity"
    assert not any(one.uid for one in members())
    world.seed(1)
    world.work()
    assert state(operation).phase == "Succeeded"
    assert {one.phase for one in members()} == {"Ready"}
    assert list(unit_inconsistencies(world.cluster)) == []


def test_a_group_one_of_whose_names_is_taken_creates_no_unit(world: UnitWorld) -> None:
    world.seed(3)
    operation = ask()
    world.by_hand("team-0")
    world.cluster.writes.clear()

    failed = world.run(operation)

    assert (failed.phase, failed.error_code) == ("Failed", "name_conflict")
    assert world.cluster.writes == []
    assert (claimed(operation), members()) == (0, [])


def test_a_group_whose_name_is_taken_meanwhile_deletes_its_units(world: UnitWorld) -> None:
    world.seed(3)
    operation = ask()

    def take(verb: str, _kind: object) -> None:
        if verb == "create":
            world.cluster.on_call = None
            world.by_hand("team-0")

    world.cluster.on_call = take
    world.work()

    assert (state(operation).phase, state(operation).error_code) == ("Failed", "name_conflict")
    left = world.cluster.list(GPU_UNIT, namespace=NAMESPACE).items
    assert [one["metadata"]["name"] for one in left] == ["team-0"]
    assert claimed(operation) == 0


def test_the_deletion_of_a_group_deletes_all_units(world: UnitWorld) -> None:
    world.seed(3)
    ask()
    world.work()

    operation = delete()
    assert {one.phase for one in members()} == {"Terminating"}
    assert group_get(NAMESPACE, "team").phase == UnitPhase.TERMINATING
    world.work()

    assert (state(operation).phase, state(operation).progress_total) == ("Succeeded", 3)
    assert members() == []
    assert world.cluster.list(GPU_UNIT).items == []
    with pytest.raises(NotFound):
        delete(operation_id="delete-2")


def test_the_deletion_of_a_waiting_group_ends_its_request(world: UnitWorld) -> None:
    operation = ask(wait=WAIT)

    deletion = delete()
    world.work()

    assert (state(operation).phase, state(operation).error_code) == ("Failed", "phase_conflict")
    assert state(deletion).phase == "Succeeded"
    assert CapacityRequest.objects.get().phase == RequestPhase.CLOSED
    assert members() == []


def test_a_unit_of_a_group_is_not_stopped_started_or_deleted_alone(world: UnitWorld) -> None:
    world.seed(3)
    ask()
    world.work()

    for service in (unit_stop, unit_start, unit_request_deletion):
        with pytest.raises(PhaseConflict) as refused:
            service(tenant=tenant_by_name(), name="team-1", operation_id="alone")
        assert [one.message for one in refused.value.details] == ["team"]
    assert not Operation.objects.filter(operation_id="alone").exists()


def test_the_units_of_a_group_take_part_in_the_uniqueness_of_names(world: UnitWorld) -> None:
    ask_one("team-2")

    with pytest.raises(NameConflict):
        ask(wait=WAIT)
    assert members() == []
    ask("other", wait=WAIT)
    with pytest.raises(NameConflict):
        ask_one("other-1")


def test_a_group_is_not_created_while_units_of_its_name_exist(world: UnitWorld) -> None:
    place = {"name": "team", "rank": 9, "size": 10}
    world.by_hand("team-9", group=place)
    world.copy()
    assert unit_row("team-9").group_name == "team"

    with pytest.raises(NameConflict):
        ask(wait=WAIT)


def test_a_group_with_a_lost_unit_has_failed(world: UnitWorld) -> None:
    world.seed(3)
    ask()
    world.work()
    world.cluster.remove(GPU_UNIT, "team-0", namespace=NAMESPACE)
    world.work()
    world.reconcile()

    group = group_get(NAMESPACE, "team")
    assert (group.phase, [one.group_rank for one in group.members]) == ("Failed", [1, 2])
    delete()
    world.work()
    assert members() == []
