"""The drain of a node: what leaves it, its notices, its end, and its races on PostgreSQL."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.db.models.functions import Now

from gpuplatform.errors import InsufficientCapacity
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import NODE, POD
from gpuplatform.operations.interventions import operation_cancel
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, Request, operation_accept
from gpuplatform.planning.plan import Event
from gpuplatform.reconciliation import event_writer
from gpuplatform.reconciliation.events import InvolvedObject
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec, NodeDrain
from inventory.services.cordons import node_uncordon
from inventory.services.drains import node_drain_cancel
from inventory.services.nodes import nodes_update
from tests.factories.nodes import node_manifest, records
from tests.fakes.threads import at_once
from tests.fakes.unit_world import UnitWorld, state, stock_rows, unit_row
from units.models import GpuUnit
from units.phases import UnitPhase
from units.requests import UnitGroupCreate
from units.services.drains import drain_move_stock, drain_stop_unit
from units.services.groups import group_create
from units.services.names import UNIT_KIND

ONE = pytest.mark.django_db
COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)
AWAY = ClusterUnavailable("connection refused")
ROUNDS = 5


def kinds(*names: str) -> Counter[tuple[str, str]]:
    found = Operation.objects.filter(kind__in=names)
    return Counter(found.values_list("kind", "phase"))


def stock_on(world: UnitWorld, node: str) -> list[str]:
    pods = world.cluster.list(POD, field_selector=f"spec.nodeName={node}").items
    live = GpuUnit.objects.filter(
        role="stock", deleted_at=None, consumed_by="", uid__in=uids(pods)
    )
    return list(live.values_list("name", flat=True))


def uids(pods: list[dict[str, dict[str, dict[str, str]]]]) -> set[str]:
    return {pod["metadata"]["labels"]["runtime.lokiwager.io/unit-uid"] for pod in pods}


def cancel(number: int = 0) -> Accepted:
    return node_drain_cancel(tenant=tenant_by_name(), name="n1", operation_id=f"cancel-{number}")


@pytest.fixture
def world(world: UnitWorld) -> UnitWorld:
    """A platform with two nodes; pods run on n1, and on n2 while n1 is cordoned."""
    world.cluster.places_pods = True
    for name in ("n1", "n2"):
        world.cluster.put(NODE, node_manifest(name))
    nodes_update(records([node_manifest("n1"), node_manifest("n2")]), version=1, is_complete=True)
    return world


@ONE
def test_the_stock_moves_and_the_units_stay(world: UnitWorld) -> None:
    world.seed(3)
    world.create("a")
    world.work()

    world.ask_drain("n1")
    world.work(12)

    assert stock_on(world, "n1") == []
    assert len(stock_on(world, "n2")) == 2
    assert (unit_row("a").phase, world.pods("a")) == ("Ready", 1)
    assert kinds("unit.stop") == {}
    assert kinds("stock.remove", "stock.seed") == {
        ("stock.remove", "Succeeded"): 1,
        ("stock.seed", "Succeeded"): 2,
    }


@ONE
def test_the_top_up_replaces_the_stock_of_a_warm_target(world: UnitWorld) -> None:
    world.seed(2)
    GpuSpec.objects.update(warm_target=1)

    world.ask_drain("n1")
    world.work()

    assert kinds("stock.remove", "stock.seed") == {
        ("stock.remove", "Succeeded"): 1,
        ("stock.seed", "Succeeded"): 1,
    }


@ONE
def test_units_are_stopped_when_the_notice_has_expired(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()

    world.ask_drain("n1", units="stop", noticeMinutes=30)
    world.work()
    assert unit_row("a").phase == "Ready"
    NodeDrain.objects.update(deadline=Now() - timedelta(seconds=1))
    world.work()

    assert (unit_row("a").phase, world.pods("a")) == ("Stopped", 0)
    [stop] = Operation.objects.filter(kind="unit.stop")
    assert (stop.object_name, stop.phase) == ("a", "Succeeded")


@ONE
def test_the_units_of_a_group_are_stopped_when_the_notice_has_expired(world: UnitWorld) -> None:
    world.seed(2)
    unit = {"specName": "g1.1", "image": "example.com/a:1"}
    body = {"operationID": "create-team", "name": "team", "size": 2, "unit": unit}
    group_create(tenant=tenant_by_name(), body=UnitGroupCreate.parse(body))
    world.work()
    assert unit_row("team-0").phase == unit_row("team-1").phase == "Ready"

    world.ask_drain("n1", units="stop", noticeMinutes=30)
    world.work()
    NodeDrain.objects.update(deadline=Now() - timedelta(seconds=1))
    world.work()

    assert [world.pods(name) for name in ("team-0", "team-1")] == [0, 0]
    assert kinds("unit.stop") == {("unit.stop", "Succeeded"): 2}


@ONE
def test_a_unit_that_was_started_again_elsewhere_keeps_running(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.ask_drain("n1", units="stop", noticeMinutes=0)
    world.work()
    world.seed(1)

    world.start("a")
    world.work()

    assert (unit_row("a").phase, world.pods("a")) == ("Ready", 1)
    assert kinds("unit.stop") == {("unit.stop", "Succeeded"): 1}


@ONE
@pytest.mark.parametrize("kind", ["unit.stop", "unit.update"])
def test_an_operation_of_the_tenant_cannot_prevent_a_stop(world: UnitWorld, kind: str) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.ask_drain("n1", units="stop", noticeMinutes=0)
    drain, unit = NodeDrain.objects.get(), unit_row("a")
    asked = Request(
        tenant_by_name(),
        f"drain-{drain.pk}-{unit.pk}-{unit.generation}",
        kind,
        UNIT_KIND,
        unit.namespace,
        unit.name,
    )
    operation_accept(asked, prepare=lambda _: unit.pk)
    Operation.objects.filter(operation_id=asked.operation_id).update(
        phase="Succeeded", ended_at=Now(), due_at=None
    )

    world.work()

    assert unit_row("a").phase == "Stopped"


@ONE
def test_each_unit_gets_one_event_about_the_notice(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, str]] = []

    def submit(_: object, subject: InvolvedObject, found: list[Event]) -> None:
        events.extend((subject.name, one.reason) for one in found if "Drain" in one.reason)

    world.seed(2)
    world.create("a")
    world.create("b")
    world.work()
    monkeypatch.setattr(event_writer, "submit", submit)
    world.ask_drain("n1", units="stop", noticeMinutes=30)
    world.work()
    world.advance_drains()

    assert sorted(events) == [("a", "NodeDrainNotice"), ("b", "NodeDrainNotice")]
    assert len(NodeDrain.objects.get().notified) == 2


@ONE
def test_a_worker_of_a_function_is_deleted_although_units_are_kept(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.create("fn-1")
    world.work()
    row = unit_row("fn-1")
    GpuUnit.objects.filter(pk=row.pk).update(spec={**row.spec, "serverless": {}})

    world.ask_drain("n1")
    world.run(NodeDrain.objects.get().operation)
    world.advance_drains()

    requested = Operation.objects.filter(kind="unit.delete")
    assert [one.object_name for one in requested] == ["fn-1"]


@ONE
def test_a_failed_read_changes_nothing(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.seed(1)
    world.ask_drain("n1", units="stop", noticeMinutes=0)
    world.run(NodeDrain.objects.get().operation)
    before = Operation.objects.count()

    for verb, kind in (("get", NODE), ("list", POD)):
        world.cluster.fail(verb, kind, AWAY)
        world.advance_drains()
        assert (Operation.objects.count(), NodeDrain.objects.count()) == (before, 1)


@ONE
def test_a_missing_node_is_left_alone_and_its_drain_continues_when_it_returns(
    world: UnitWorld,
) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.ask_drain("n1", units="stop", noticeMinutes=0)
    world.run(NodeDrain.objects.get().operation)
    gone = world.cluster.get(NODE, "n1")
    assert gone is not None
    world.cluster.remove(NODE, "n1")

    world.advance_drains()
    assert kinds("unit.stop") == {}
    world.cluster.put(NODE, gone)
    world.advance_drains()

    assert sum(kinds("unit.stop").values()) == 1


@ONE
def test_the_deletion_of_the_empty_node_ends_the_drain(world: UnitWorld) -> None:
    world.ask_drain("n1")
    world.work()
    world.cluster.remove(NODE, "n1")

    world.advance_drains()

    assert not NodeDrain.objects.exists()


@ONE
def test_an_uncordon_with_kubectl_ends_the_drain(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.ask_drain("n1", units="stop", noticeMinutes=30)
    world.work()
    world.cluster.merge_patch(NODE, "n1", {"spec": {"unschedulable": None}})

    world.advance_drains()

    assert not NodeDrain.objects.exists()
    assert unit_row("a").phase == "Ready"


@ONE
def test_an_uncordon_and_a_cancellation_end_the_drain_at_once(world: UnitWorld) -> None:
    world.ask_drain("n1")
    world.work()

    node_uncordon(tenant=tenant_by_name(), name="n1", operation_id="uncordon")
    assert not NodeDrain.objects.exists()
    world.ask_drain("n1")
    cancel()

    assert not NodeDrain.objects.exists()
    world.work()
    node = world.cluster.get(NODE, "n1")
    assert node is not None
    assert node["spec"]["unschedulable"] is True


@ONE
def test_a_second_drain_replaces_the_first_one(world: UnitWorld) -> None:
    world.ask_drain("n1", units="stop", noticeMinutes=0)
    first = NodeDrain.objects.get()

    second = world.ask_drain("n1").operation
    world.work()

    drain = NodeDrain.objects.get()
    assert (drain.operation_id, drain.deadline) == (second.pk, None)
    assert drain.pk != first.pk


@ONE
def test_a_drain_whose_node_was_not_cordoned_ends(world: UnitWorld) -> None:
    lost = world.ask_drain("n1").operation
    world.cluster.remove(NODE, "n1")

    assert world.finish(lost).error_code == "not_found"
    assert not NodeDrain.objects.exists()
    cancelled = world.ask_drain("n1").operation
    operation_cancel(operation=state(cancelled), operation_id="cancel")

    assert state(cancelled).phase == "Cancelled"
    assert not NodeDrain.objects.exists()


# Races


@COMMITTING
def test_of_a_claim_and_a_drain_exactly_one_gets_the_stock(world: UnitWorld) -> None:
    for number in range(ROUNDS):
        before = Operation.objects.filter(kind="stock.remove").count()
        world.seed(1)
        world.ask_drain("n1")
        drain = NodeDrain.objects.get()
        [stock] = [row for row in stock_rows() if not row.consumed_by and not row.deleted_at]

        jobs: list[Callable[[], object]] = [
            partial(drain_move_stock, drain, [stock.pk]),
            partial(world.ask_create, f"u{number}"),
        ]
        drained, created = at_once(jobs)

        assert drained is None
        stock.refresh_from_db()
        removals = Operation.objects.filter(kind="stock.remove").count() - before
        if isinstance(created, InsufficientCapacity):
            assert (removals, stock.deletion_requested_at is None) == (1, False)
        else:
            assert isinstance(created, Accepted), created
            assert (removals, stock.claimed_by_id) == (0, created.operation.pk)
        NodeDrain.objects.all().delete()
        world.cluster.merge_patch(NODE, "n1", {"spec": {"unschedulable": None}})
        world.work(12)
        for row in stock_rows():
            if not row.consumed_by and not row.deleted_at:
                world.remove(1)
                world.work()


@COMMITTING
def test_a_stop_of_the_owner_and_of_a_drain_stop_the_unit_once(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.ask_drain("n1", units="stop", noticeMinutes=0)
    drain, unit = NodeDrain.objects.get(), unit_row("a")

    stop = partial(drain_stop_unit, drain, unit)
    jobs: list[Callable[[], object]] = [stop, stop, partial(world.stop, "a")]
    first, second, _ = at_once(jobs)
    world.work()

    assert sorted(map(str, (first, second))) == ["False", "True"]
    assert kinds("unit.stop") == {("unit.stop", "Succeeded"): 2}
    assert (unit_row("a").phase, world.pods("a")) == (UnitPhase.STOPPED, 0)
    world.seed(1)
    world.start("a")
    world.work()
    assert unit_row("a").phase == "Ready"


@COMMITTING
def test_a_cancellation_at_the_end_of_the_notice_is_final(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    for number in range(ROUNDS):
        world.ask_drain("n1", units="stop", noticeMinutes=0)
        drain, unit = NodeDrain.objects.get(), unit_row("a")
        before = Operation.objects.filter(kind="unit.stop").count()

        stop = partial(drain_stop_unit, drain, unit)
        jobs: list[Callable[[], object]] = [partial(cancel, number), stop, stop]
        cancelled, *stops = at_once(jobs)

        assert isinstance(cancelled, Accepted), cancelled
        after = Operation.objects.filter(kind="unit.stop").count()
        assert sorted(map(str, stops)) in (["False", "False"], ["False", "True"])
        assert after - before == stops.count(True)
        assert drain_stop_unit(drain, unit) is False
        assert Operation.objects.filter(kind="unit.stop").count() == after
        world.work()


@ONE
def test_no_unit_is_stopped_before_the_deadline_of_the_database(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.ask_drain("n1", units="stop", noticeMinutes=1)

    assert drain_stop_unit(NodeDrain.objects.get(), unit_row("a")) is False
    assert kinds("unit.stop") == {}
