"""Preemptible units are stopped after a notice, and wait for stock again."""

from collections.abc import Callable

import pytest
from django.db.models.functions import Now

from gpuplatform.operations.interventions import operation_cancel
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Request, operation_accept
from gpuplatform.planning.plan import Event
from gpuplatform.reconciliation import event_writer
from gpuplatform.reconciliation.events import InvolvedObject
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from tests.factories.unit_rows import catalogued, spec_row, stock_row
from tests.fakes.cluster import Killed
from tests.fakes.preemption import (
    ask,
    end_notices,
    leave_no_room,
    noticed,
    run_matcher,
    run_preemptible,
    stops,
)
from tests.fakes.unit_world import UnitWorld, unit_row
from units.models import CapacityRequest, GpuUnit, PreemptionNotice, UnitHistory
from units.phases import RequestPhase, UnitReason
from units.preemption_events import announce_preemptions
from units.services.names import UNIT_KIND
from units.services.stock import top_up
from units.waiting_units import preemption_notices

pytestmark = pytest.mark.django_db


def test_a_preemptible_unit_is_stopped_after_a_notice_and_waits_again(world: UnitWorld) -> None:
    run_preemptible(world, "victim")
    request = ask("urgent")

    run_matcher()

    assert (noticed(), stops()) == (["victim"], [])
    notice = PreemptionNotice.objects.get()
    assert (notice.stops_at - notice.given_at).total_seconds() == pytest.approx(60, abs=2)
    last = UnitHistory.objects.filter(unit=notice.unit).first()
    assert last is not None
    assert (last.phase, last.reason) == ("Ready", UnitReason.PREEMPTION_NOTICE)

    end_notices()
    run_matcher()

    assert (noticed(), stops()) == ([], ["victim"])
    request.refresh_from_db()
    assert request.evicted_at is not None
    again = CapacityRequest.objects.get(unit=unit_row("victim"), phase=RequestPhase.OPEN)
    assert (again.is_preemptible, again.is_after_preemption) == (True, True)
    world.work()
    assert unit_row("victim").phase == "Stopped"

    world.seed(1)
    world.work()
    assert CapacityRequest.objects.get(pk=request.pk).phase == RequestPhase.CLOSED
    assert unit_row("victim").phase == "Stopped"

    world.seed(1)
    world.work()
    assert unit_row("victim").phase == "Ready"


def test_nobody_is_stopped_before_the_end_of_the_notice(world: UnitWorld) -> None:
    run_preemptible(world, "victim")
    ask("urgent")

    for _ in range(3):
        run_matcher()

    assert (noticed(), stops()) == (["victim"], [])


def free_stock(_: UnitWorld) -> None:
    stock_row()


def starting_stock(_: UnitWorld) -> None:
    stock_row("Progressing", reason="StockNotReady")


def cancelled_request(_: UnitWorld) -> None:
    operation = Operation.objects.get(operation_id="create-urgent")
    operation_cancel(operation=operation, operation_id="cancel-1")


def expired_request(_: UnitWorld) -> None:
    CapacityRequest.objects.update(expires_at=Now())


def stop_by_owner(world: UnitWorld) -> None:
    world.stop("victim")


def deletion_by_owner(world: UnitWorld) -> None:
    world.delete("victim")


EVENTS = [
    free_stock,
    starting_stock,
    cancelled_request,
    expired_request,
    stop_by_owner,
    deletion_by_owner,
]


@pytest.mark.parametrize("event", EVENTS)
def test_a_unit_is_kept_if_its_gpus_are_not_needed_at_the_end_of_the_notice(
    world: UnitWorld, event: Callable[[UnitWorld], None]
) -> None:
    run_preemptible(world, "victim", "other")
    request = ask("urgent")
    run_matcher()
    PreemptionNotice.objects.update(unit=unit_row("victim"))

    event(world)
    end_notices()
    run_matcher()
    run_matcher()

    request.refresh_from_db()
    assert (stops(), request.evicted_at) == ([], None)
    assert noticed() == []


def test_a_notice_is_void_without_its_request(world: UnitWorld) -> None:
    run_preemptible(world, "victim")
    ask("urgent")
    run_matcher()
    victim = unit_row("victim").pk
    assert preemption_notices([victim]).keys() == {victim}

    cancelled_request(world)

    assert preemption_notices([victim]) == {}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"waited": 5}, id="it has just begun to wait"),
        pytest.param({"preemptible": True}, id="it is preemptible"),
    ],
)
def test_no_notice_is_given(world: UnitWorld, fields: dict[str, object]) -> None:
    run_preemptible(world, "victim")
    ask("urgent", **fields)  # type: ignore[arg-type]  # a table

    run_matcher()

    assert noticed() == []


def test_no_notice_is_given_while_the_top_up_is_paused(world: UnitWorld) -> None:
    run_preemptible(world, "victim")
    ask("urgent")
    spec_row(is_top_up_paused=True)

    run_matcher()

    assert noticed() == []


def test_stock_is_seeded_before_a_unit_is_stopped(world: UnitWorld) -> None:
    run_preemptible(world, "victim")
    GpuUnit.objects.filter(cause="Unschedulable").delete()
    ask("urgent")

    run_matcher()

    assert noticed() == []
    assert Operation.objects.filter(kind="stock.seed", operation_id__startswith="top-up").exists()


def test_units_that_are_not_preemptible_are_never_stopped(world: UnitWorld) -> None:
    world.seed(1)
    world.create("steady")
    world.work()
    leave_no_room()
    ask("urgent")

    run_matcher()

    assert noticed() == []


def test_a_group_gets_exactly_the_units_that_it_lacks(world: UnitWorld) -> None:
    run_preemptible(world, "one", "two", "three")
    request = ask("urgent")
    CapacityRequest.objects.filter(pk=request.pk).update(count=3)
    stock_row()

    run_matcher()
    run_matcher()
    end_notices()
    run_matcher()

    request.refresh_from_db()
    assert sorted(stops()) == ["three", "two"]
    assert request.hold_begun_at is not None, "the hold begins anew (rule `evicthold`)"


def test_units_are_stopped_at_most_once_for_a_request(world: UnitWorld) -> None:
    run_preemptible(world, "one", "two")
    ask("urgent")
    for _ in range(3):
        run_matcher()
        end_notices()
    Operation.objects.filter(operation_id__startswith="preempt-").update(
        phase="Succeeded", ended_at=Now(), due_at=None
    )
    GpuUnit.objects.filter(name="two").update(phase="Stopped", is_suspended=True)

    for _ in range(3):
        run_matcher()
        end_notices()

    assert (stops(), noticed()) == (["two"], [])


def test_a_stopped_unit_keeps_its_priority_and_stays_last(world: UnitWorld) -> None:
    catalogued()
    run_preemptible(world, "victim")
    GpuUnit.objects.filter(name="victim").update(priority=7)
    Tenant.objects.update(max_priority=9)
    ask("urgent")
    run_matcher()
    end_notices()

    run_matcher()

    again = CapacityRequest.objects.get(unit=unit_row("victim"), phase=RequestPhase.OPEN)
    assert (again.priority, again.is_preemptible) == (7, True)
    assert again.ahead == 1


@pytest.mark.parametrize(
    "change",
    [{"is_enabled": False}, {"is_top_up_paused": True}],
    ids=["disabled", "paused"],
)
@pytest.mark.parametrize("is_due", [False, True], ids=["announced", "due"])
def test_the_notices_of_a_spec_that_waits_for_an_operator_are_withdrawn(
    world: UnitWorld, change: dict[str, bool], is_due: bool
) -> None:
    run_preemptible(world, "victim")
    ask("urgent")
    run_matcher()
    first = PreemptionNotice.objects.get().pk
    if is_due:
        end_notices()
    GpuSpec.objects.update(**change)

    run_matcher()
    assert preemption_notices([unit_row("victim").pk]) == {}
    assert stops() == []

    GpuSpec.objects.update(is_enabled=True, is_top_up_paused=False)
    run_matcher()
    again = PreemptionNotice.objects.get()
    assert (again.pk != first, again.stops_at > again.given_at) == (True, True)
    assert stops() == []


def test_the_notices_of_a_deleted_spec_are_withdrawn(world: UnitWorld) -> None:
    run_preemptible(world, "victim")
    ask("urgent")
    run_matcher()
    GpuSpec.objects.all().delete()

    run_matcher()

    assert (noticed(), stops()) == ([], [])


def test_a_notice_remains_while_a_top_up_is_in_progress(world: UnitWorld) -> None:
    run_preemptible(world, "victim")
    ask("urgent")
    run_matcher()
    end_notices()
    GpuUnit.objects.filter(cause="Unschedulable").delete()
    assert top_up(GpuSpec.objects.get()) is not None

    run_matcher()

    assert (noticed(), stops()) == (["victim"], [])


def test_each_notice_gets_one_event(world: UnitWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[tuple[str, str, str]] = []

    def submit(_: object, subject: InvolvedObject, found: list[Event]) -> None:
        events.extend((subject.name, one.type, one.reason) for one in found)

    run_preemptible(world, "one", "two")
    ask("urgent")
    run_matcher()
    with monkeypatch.context() as patched:
        patched.setattr(event_writer, "submit", submit)
        for _ in range(2):
            announce_preemptions(world.cluster)

    assert events == [("two", "Warning", "PreemptionNotice")]
    assert PreemptionNotice.objects.filter(announced_at__isnull=False).count() == 1


def test_a_killed_process_announces_the_notice_again(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[str] = []

    def submit(_: object, subject: InvolvedObject, __: list[Event]) -> None:
        submitted.append(subject.name)

    run_preemptible(world, "one")
    ask("urgent")
    run_matcher()
    with monkeypatch.context() as patched:
        patched.setattr(event_writer, "submit", submit)
        with patched.context() as killed:
            killed.setattr(event_writer, "finish", kill)
            with pytest.raises(Killed):
                announce_preemptions(world.cluster)
        announce_preemptions(world.cluster)

    assert submitted == ["one", "one"]
    assert PreemptionNotice.objects.filter(announced_at__isnull=True).count() == 0


def kill(_: float) -> None:
    raise Killed


def test_a_void_notice_is_not_announced(world: UnitWorld) -> None:
    run_preemptible(world, "one")
    request = ask("urgent")
    run_matcher()
    operation_cancel(operation=request.operation, operation_id="cancel")

    announce_preemptions(world.cluster)

    notices = PreemptionNotice.objects.filter(announced_at__isnull=False)
    assert not notices.exists()


@pytest.mark.parametrize("kind", ["unit.stop", "unit.update"])
def test_the_operation_ids_of_an_owner_do_not_prevent_the_stop(
    world: UnitWorld, kind: str
) -> None:
    run_preemptible(world, "victim")
    victim, request = unit_row("victim"), ask("urgent")
    asked = Request(
        tenant_by_name(),
        f"preempt-{victim.pk}-{request.pk}-stop",
        kind,
        UNIT_KIND,
        victim.namespace,
        victim.name,
    )
    operation_accept(asked, prepare=lambda _: victim.pk)
    Operation.objects.filter(operation_id=asked.operation_id).update(
        phase="Succeeded", ended_at=Now(), due_at=None
    )
    run_matcher()
    end_notices()

    run_matcher()

    request.refresh_from_db()
    assert request.evicted_at is not None
    assert Operation.objects.filter(kind="unit.start", object_name="victim").count() == 1


def test_stock_of_another_resource_that_starts_does_not_prevent_a_notice(world: UnitWorld) -> None:
    run_preemptible(world, "victim")
    request = ask("urgent")
    wanted = unit_row("victim").resource_name
    CapacityRequest.objects.filter(pk=request.pk).update(resource_name=wanted)
    other = stock_row("Progressing", reason="StockNotReady", resource_name="example.com/other")
    run_matcher()
    assert noticed() == ["victim"]

    PreemptionNotice.objects.all().delete()
    GpuUnit.objects.filter(pk=other.pk).update(resource_name=wanted)
    run_matcher()

    assert noticed() == []
