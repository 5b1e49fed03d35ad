"""Stops and starts of groups: all units or none, and a start that fails stops all units."""

from typing import Any

import pytest
from django.db.models import Q
from django.db.models.functions import Now

from gpuplatform.errors import (
    CapacityExceeded,
    InsufficientCapacity,
    NotFound,
    PhaseConflict,
    QuotaExceeded,
    TenantSuspended,
)
from gpuplatform.operations.interventions import operation_cancel, operation_retry
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.limit_models import TenantLimit
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.gpu_counts import held
from tests.factories.node_rows import node_row
from tests.factories.unit_rows import stock_row
from tests.fakes.unit_world import NAMESPACE, UnitWorld, state
from units.consistency import unit_inconsistencies
from units.group_members import group_get
from units.models import CapacityRequest, GpuUnit
from units.services.group_runs import group_start, group_stop
from units.services.units import unit_stop

pytestmark = pytest.mark.django_db

SIZE = 3


def stop(number: int = 1) -> Operation:
    """Request the stop of the group."""
    return group_stop(
        tenant=tenant_by_name(), name="team", operation_id=f"stop-{number}"
    ).operation


def start(number: int = 1) -> Operation:
    """Request the start of the group."""
    return group_start(
        tenant=tenant_by_name(), name="team", operation_id=f"start-{number}"
    ).operation


def running(world: UnitWorld) -> None:
    """Create a group and wait until it is ready."""
    world.seed(SIZE)
    world.create_group("team", SIZE)
    world.work()
    assert phases() == ["Ready"] * SIZE


def stopped(world: UnitWorld) -> None:
    """Create a group and stop it."""
    running(world)
    stop(0)
    world.work()
    assert phases() == ["Stopped"] * SIZE


def phases() -> list[str]:
    return [one.phase for one in group_get(NAMESPACE, "team").members]


def parts(kind: str) -> list[Operation]:
    return list(Operation.objects.filter(kind=kind).order_by("id"))


def ready_stock() -> int:
    return GpuUnit.objects.filter(
        role="stock", phase="Ready", claimed_by=None, consumed_by=""
    ).count()


def test_a_stop_is_one_operation_that_stops_all_units(world: UnitWorld) -> None:
    running(world)

    operation = stop()
    world.work()

    done = state(operation)
    assert (done.kind, done.phase, done.progress_done) == ("group.stop", "Succeeded", SIZE)
    assert [part.phase for part in parts("unit.stop")] == ["Succeeded"] * SIZE
    group = group_get(NAMESPACE, "team")
    assert (group.phase, group.ready) == ("Stopped", 0)
    assert held([done.tenant_id]) == {}
    assert list(unit_inconsistencies(world.cluster)) == []


def test_a_stop_ends_when_the_last_unit_is_stopped(world: UnitWorld) -> None:
    running(world)
    operation = stop()
    first, *others = parts("unit.stop")
    world.finish(first)

    assert world.run(operation).message == "The operations on 2 of 3 units have not ended."

    for part in others:
        world.finish(part)
    assert world.run(operation).phase == "Succeeded"


def test_a_start_claims_one_stock_unit_for_each_unit(world: UnitWorld) -> None:
    stopped(world)
    world.seed(SIZE + 1)

    operation = start()

    claims = GpuUnit.objects.filter(claimed_by__in=parts("unit.start"))
    assert claims.values("claimed_by").distinct().count() == claims.count() == SIZE
    assert held([operation.tenant_id]) == {operation.tenant_id: SIZE}
    world.work()
    assert (state(operation).phase, ready_stock()) == ("Succeeded", 1)
    group = group_get(NAMESPACE, "team")
    assert (group.phase, group.ready) == ("Ready", SIZE)
    assert len({one.source_uid for one in group.members}) == SIZE
    assert held([operation.tenant_id]) == {operation.tenant_id: SIZE}
    assert list(unit_inconsistencies(world.cluster)) == []


def test_a_start_without_stock_for_all_units_leaves_nothing(world: UnitWorld) -> None:
    stopped(world)
    world.seed(SIZE - 1)

    with pytest.raises(InsufficientCapacity, match=r"needs 3 .* and 2 can be claimed"):
        start()

    assert ready_stock() == SIZE - 1
    assert parts("group.start") == parts("unit.start") == []
    assert phases() == ["Stopped"] * SIZE


def test_a_start_is_behind_the_requests_that_wait(world: UnitWorld) -> None:
    stopped(world)
    world.create("first", wait={"maxSeconds": 3600})
    for _ in range(SIZE):
        stock_row()

    with pytest.raises(InsufficientCapacity) as refused:
        start()

    assert refused.value.waiting == 1


def test_a_replay_returns_the_operation(world: UnitWorld) -> None:
    stopped(world)
    world.seed(SIZE)

    first, again = start(), start()
    stops = stop(5), stop(5)

    assert first == again
    assert stops[0] == stops[1]
    assert len(parts("unit.start")) == SIZE


@pytest.mark.parametrize("cancels", [True, False], ids=["cancelled", "failed"])
def test_a_start_of_which_a_part_fails_stops_all_units(world: UnitWorld, *, cancels: bool) -> None:
    stopped(world)
    world.seed(SIZE)
    operation = start()
    first, second, third = parts("unit.start")
    world.finish(first)
    lost = GpuUnit.objects.get(claimed_by=second)
    world.drop_stock(lost)
    assert world.run(second).reason == "WaitingForCapacity"
    if cancels:
        operation_cancel(operation=second, operation_id="cancel-1")
    else:
        CapacityRequest.objects.filter(operation=second).update(expires_at=Now())
    world.run(second)
    assert state(second).phase == ("Cancelled" if cancels else "Failed")

    world.work()

    failed = state(operation)
    code = "cancelled" if cancels else "insufficient_capacity"
    assert (failed.phase, failed.error_code) == ("Failed", code)
    assert "'team-1'" in failed.error_message
    assert state(third).phase == "Succeeded"
    assert phases() == ["Stopped"] * SIZE
    assert not GpuUnit.objects.filter(claimed_by__isnull=False).exists()
    assert held([operation.tenant_id]) == {}


def test_a_failed_start_can_be_retried(world: UnitWorld) -> None:
    stopped(world)
    world.seed(SIZE)
    operation = start()
    operation_cancel_part(world)
    world.work()
    world.seed(SIZE)

    again = operation_retry(operation=state(operation), operation_id="retry-1").operation
    world.work()

    assert (state(operation).phase, state(again).phase) == ("Failed", "Succeeded")
    assert phases() == ["Ready"] * SIZE


def operation_cancel_part(world: UnitWorld) -> None:
    """Cancel the start of a unit of the group."""
    part = parts("unit.start")[-1]
    operation_cancel(operation=part, operation_id="cancel-1")
    world.run(part)


def test_a_stop_replaces_a_start_in_progress(world: UnitWorld) -> None:
    stopped(world)
    world.seed(SIZE)
    begun = start()
    ended = stop()

    world.work(rounds=16)

    assert state(ended).phase == "Succeeded"
    assert state(begun).phase in {"Succeeded", "Failed"}
    assert phases() == ["Stopped"] * SIZE
    assert held([begun.tenant_id]) == {}


def test_a_start_right_after_the_stop_is_executed_after_it(world: UnitWorld) -> None:
    running(world)
    world.seed(SIZE)

    stop()
    begun = start()
    world.work(rounds=16)

    assert state(begun).phase == "Succeeded"
    assert phases() == ["Ready"] * SIZE
    assert held([begun.tenant_id]) == {begun.tenant_id: SIZE}


def test_the_phase_of_a_group_that_is_being_stopped_is_not_failed(world: UnitWorld) -> None:
    running(world)
    operation = stop()
    GpuUnit.objects.filter(name="team-0").update(phase="Stopped")

    assert group_get(NAMESPACE, "team").phase == "Progressing"

    Operation.objects.filter(pk=operation.pk).update(
        phase="Succeeded", due_at=None, ended_at=Now()
    )
    assert group_get(NAMESPACE, "team").phase == "Failed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"deletion_requested_at": Now()}, "is being deleted"),
        ({"uid": ""}, "is being created"),
        ({"is_suspended": False}, "'team-1' is running"),
        ({"deleted_at": Now()}, "Only 2 of the 3 units"),
    ],
)
def test_only_a_stopped_complete_group_is_started(
    world: UnitWorld, change: dict[str, Any], message: str
) -> None:
    stopped(world)
    world.seed(SIZE)
    GpuUnit.objects.filter(name="team-1").update(**change)

    with pytest.raises(PhaseConflict, match=message):
        start()

    assert ready_stock() == SIZE


def test_a_group_is_not_started_twice(world: UnitWorld) -> None:
    stopped(world)
    world.seed(2 * SIZE)
    start()

    with pytest.raises(PhaseConflict, match="'team-0' is being started"):
        start(2)


def test_a_group_that_does_not_exist_is_neither_stopped_nor_started(world: UnitWorld) -> None:
    for act in (stop, start):
        with pytest.raises(NotFound):
            act()
    assert not Operation.objects.exists()


def test_a_group_whose_units_wait_for_stock_is_not_stopped(world: UnitWorld) -> None:
    world.create_group("team", SIZE, wait={"maxSeconds": 3600})

    with pytest.raises(PhaseConflict, match="is being created"):
        stop()


def test_the_limit_of_gpus_applies_to_all_units_of_a_start(world: UnitWorld) -> None:
    stopped(world)
    world.seed(SIZE)
    limit = TenantLimit.objects.create(tenant=tenant_by_name(), resource="gpus", hard=SIZE - 1)

    with pytest.raises(QuotaExceeded):
        start()

    TenantLimit.objects.filter(pk=limit.pk).update(hard=SIZE)
    start()
    assert ready_stock() == 0


def test_gpus_that_earlier_pods_still_hold_count_once(world: UnitWorld) -> None:
    stopped(world)
    world.seed(SIZE)
    GpuUnit.objects.filter(group_name="team").update(gpus_seen=1)
    TenantLimit.objects.create(tenant=tenant_by_name(), resource="gpus", hard=SIZE)

    operation = start()

    assert held([operation.tenant_id]) == {operation.tenant_id: SIZE}


def test_a_group_that_the_nodes_cannot_have_is_rejected(world: UnitWorld) -> None:
    stopped(world)
    node_row("small", gpus=SIZE - 1)

    with pytest.raises(CapacityExceeded):
        start()


def test_a_suspended_tenant_can_stop_a_group_and_not_start_it(world: UnitWorld) -> None:
    running(world)
    Tenant.objects.filter(pk=tenant_by_name().pk).update(phase="Suspended")

    stop()
    world.work()

    assert phases() == ["Stopped"] * SIZE
    with pytest.raises(TenantSuspended):
        start()


def test_a_group_with_a_unit_that_a_drain_stopped_is_stopped_and_started(world: UnitWorld) -> None:
    running(world)
    unit_stop(tenant=tenant_by_name(), name="team-1", operation_id="drain-1", also_of_group=True)
    world.work()
    assert group_get(NAMESPACE, "team").phase == "Failed"
    world.seed(SIZE)

    stop()
    start()
    world.work(rounds=16)

    assert phases() == ["Ready"] * SIZE


def test_a_deletion_ends_a_start_in_progress(world: UnitWorld) -> None:
    stopped(world)
    world.seed(SIZE)
    begun = start()
    world.delete_group("team")

    world.work(rounds=16)

    assert state(begun).phase in {"Succeeded", "Failed"}
    left = GpuUnit.objects.filter(Q(group_name="team"), deleted_at__isnull=True)
    assert not left.exists()
    assert not GpuUnit.objects.filter(claimed_by__isnull=False).exists()


@pytest.mark.parametrize("stops", [True, False], ids=["stopped before", "not started"])
def test_a_failed_start_does_not_stop_the_units_of_a_later_one(
    world: UnitWorld, *, stops: bool
) -> None:
    stopped(world)
    world.seed(2 * SIZE)
    failed = start()
    for part in parts("unit.start")[-1 if stops else 0 :]:
        operation_cancel(operation=part, operation_id=f"cancel-{part.pk}")
        world.run(part)
    if stops:
        stop()
    begun = start(2)

    world.work(rounds=16)

    assert [state(one).phase for one in (failed, begun)] == ["Failed", "Succeeded"]
    assert phases() == ["Ready"] * SIZE
    assert held([begun.tenant_id]) == {begun.tenant_id: SIZE}
    assert list(unit_inconsistencies(world.cluster)) == []
