"""Stock is seeded once, removed exactly, topped up to its target, and drained."""

import pytest
from django.db.models.functions import Now

from gpuplatform.errors import (
    InsufficientCapacity,
    InvalidSpec,
    OperationConflict,
    PhaseConflict,
)
from gpuplatform.kube.errors import ClusterConflict, ClusterRejected, ClusterUnavailable
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import operations_prune
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from inventory.services.catalogue import gpu_spec_delete
from tests.factories.unit_rows import spec_row, stock_row
from tests.fakes.cluster import Killed
from tests.fakes.threads import at_once
from tests.fakes.unit_world import UnitWorld, state, stock_rows
from units.models import GpuUnit
from units.operations import stock as steps
from units.phases import STOCK_NAMESPACE, UnitPhase
from units.queue_entries import MAX_FAILED
from units.requests import GpuUnitCreate
from units.services.maintenance import units_prune
from units.services.obstacles import top_up_obstacle
from units.services.stock import (
    MAX_TOP_UP,
    stock_drain,
    stock_remove_one,
    stock_tend,
    top_up,
)
from units.services.units import unit_create

ONE = pytest.mark.django_db
COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)
REFUSED = ClusterRejected("spec: Invalid", reason="Invalid", status=422)


def live() -> list[GpuUnit]:
    return [row for row in stock_rows() if row.deleted_at is None]


def tops() -> list[Operation]:
    return list(Operation.objects.filter(operation_id__startswith="top-up-").order_by("id"))


@ONE
def test_a_seed_inserts_its_rows_and_then_creates_them_with_progress(world: UnitWorld) -> None:
    accepted = world.ask_seed(3, memory="64Gi", cpu="8")

    rows = stock_rows()
    assert [(row.ordinal, row.uid, row.phase) for row in rows] == [
        (1, "", "Pending"),
        (2, "", "Pending"),
        (3, "", "Pending"),
    ]
    assert (state(accepted.operation).progress_done, state(accepted.operation).progress_total) == (
        0,
        3,
    )
    ended = world.run(accepted.operation)

    made = [world.resource(row.name, STOCK_NAMESPACE) or {} for row in stock_rows()]
    assert (ended.phase, ended.progress_done) == ("Succeeded", 3)
    assert [row.uid for row in stock_rows()] == [one["metadata"]["uid"] for one in made]
    assert made[0]["spec"] == {"specName": "g1.1", "gpu": 1, "memory": "64Gi", "cpu": "8"}
    assert made[0]["metadata"]["annotations"]["runtime.lokiwager.io/stock-ordinal"] == "1"


@ONE
def test_omitted_values_of_a_seed_come_from_the_catalogue(world: UnitWorld) -> None:
    spec_row(product="H100", placement={"nodeSelector": {"zone": "a"}})

    world.ask_seed(1)

    assert stock_rows()[0].spec == {
        "specName": "g1.1",
        "cpu": "8",
        "memory": "64Gi",
        "gpu": 1,
        "placement": {"nodeSelector": {"nvidia.com/gpu.product": "H100", "zone": "a"}},
    }


@ONE
def test_stock_and_top_ups_have_the_resources_of_the_catalogue(world: UnitWorld) -> None:
    spec = spec_row(resource_name="nvidia.com/mig-1g.10gb", resources={"rdma/hca": "1"})
    world.ask_seed(1)
    GpuSpec.objects.update(resource_name="amd.com/gpu", resources={}, warm_target=2)

    top_up(spec)

    assert [(row.resource_name, row.spec.get("resources")) for row in stock_rows()] == [
        ("nvidia.com/mig-1g.10gb", {"rdma/hca": "1"}),
        ("amd.com/gpu", None),
    ]


@ONE
def test_a_unit_that_starts_again_claims_stock_of_its_resource(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    GpuSpec.objects.update(resource_name="nvidia.com/mig-1g.10gb")
    world.seed(1)
    [mig] = [row for row in live() if not row.consumed_by]

    waiting = world.run(world.start("a"))
    GpuSpec.objects.update(resource_name="nvidia.com/gpu")
    world.seed(1)
    started = world.run(waiting)

    assert (waiting.phase, waiting.reason) == ("Pending", "WaitingForCapacity")
    assert started.phase == "Succeeded"
    mig.refresh_from_db()
    assert (mig.consumed_by, mig.claimed_by_id) == ("", None)


@ONE
def test_a_replay_of_a_seed_seeds_nothing_even_after_all_was_consumed(world: UnitWorld) -> None:
    first = world.ask_seed(1, operationID="op")
    world.work()
    world.create("a")
    world.work()

    again = world.ask_seed(1, operationID="op")
    with pytest.raises(OperationConflict):
        world.ask_seed(2, operationID="op")
    world.work()

    assert (first.is_replay, again.is_replay) == (False, True)
    assert world.cluster.names(GPU_UNIT) == ["a"]
    assert len(stock_rows()) == 1


@ONE
@pytest.mark.parametrize("acts_first", [False, True], ids=["before the call", "after the call"])
@pytest.mark.parametrize("at", range(1, 6))
def test_a_seeding_killed_at_any_create_resumes(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch, at: int, acts_first: bool
) -> None:
    monkeypatch.setattr(steps, "STEP_SIZE", 2)
    operation = world.ask_seed(5).operation
    posts = 0

    def die(verb: str, kind: object) -> None:
        nonlocal posts
        posts += verb == "create" and kind == GPU_UNIT
        if posts == at:
            world.cluster.on_call = None
            world.cluster.fail("create", GPU_UNIT, Killed(), acts_first=acts_first)

    world.cluster.on_call = die
    with pytest.raises(Killed):
        world.run(operation)
    assert state(operation).progress_done == (at - 1) // 2 * 2
    ended = world.finish(operation)

    assert (ended.phase, ended.progress_done) == ("Succeeded", 5)
    assert world.cluster.names(GPU_UNIT) == [row.name for row in stock_rows()]
    made = [one for one in world.cluster.writes if one.startswith("create GPUUnit")]
    assert sorted(set(made)) == [f"create GPUUnit {row.name}" for row in stock_rows()]


@ONE
def test_a_resumed_seeding_never_creates_consumed_stock_again(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP_SIZE", 1)
    seeding = world.ask_seed(3).operation
    world.cluster.fail("create", GPU_UNIT, ClusterUnavailable("busy", status=429))
    world.run(seeding)
    posts = 0

    def die(verb: str, kind: object) -> None:
        nonlocal posts
        posts += verb == "create" and kind == GPU_UNIT
        if posts == 2:
            world.cluster.on_call = None
            raise Killed

    world.cluster.on_call = die
    with pytest.raises(Killed):
        world.run(seeding)
    world.reconcile()
    world.cluster.settle()
    world.reconcile()
    world.run(world.create("a"))
    world.reconcile()
    assert stock_rows()[0].consumed_by

    assert world.finish(seeding).phase == "Succeeded"
    names = world.cluster.names(GPU_UNIT)
    assert stock_rows()[0].name not in names
    assert len(names) == 3


@ONE
def test_a_late_create_of_a_seeding_is_a_leftover(world: UnitWorld) -> None:
    world.seed(1)
    [row] = stock_rows()
    late = world.resource(row.name, STOCK_NAMESPACE) or {}
    world.create("a")
    world.work()
    del late["metadata"]["uid"], late["metadata"]["resourceVersion"]
    world.cluster.create(GPU_UNIT, late)

    world.work()

    assert world.cluster.names(GPU_UNIT) == ["a"]
    assert live() == []


@ONE
def test_a_rejection_during_a_seeding_keeps_the_created_units_and_closes_the_rest(
    world: UnitWorld,
) -> None:
    operation = world.ask_seed(4).operation
    posts = 0

    def refuse(verb: str, kind: object) -> None:
        nonlocal posts
        posts += verb == "create" and kind == GPU_UNIT
        if posts == 3:
            world.cluster.on_call = None
            world.cluster.fail("create", GPU_UNIT, REFUSED, times=2)

    world.cluster.on_call = refuse
    ended = world.run(operation)
    world.work()

    assert (ended.phase, ended.error_code, ended.progress_done) == (
        "Failed",
        "invalid_request",
        2,
    )
    assert [row.phase for row in live()] == ["Ready"] * 2
    assert len(world.cluster.names(GPU_UNIT)) == 2


@ONE
def test_an_object_of_another_creator_fails_a_seeding(world: UnitWorld) -> None:
    operation = world.ask_seed(2).operation
    name = stock_rows()[1].name
    world.cluster.put(GPU_UNIT, {"metadata": {"name": name, "namespace": STOCK_NAMESPACE}})

    ended = world.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "name_conflict")
    assert [bool(row.uid) for row in live()] == [True]


@ONE
def test_a_seeding_whose_run_ends_continues_immediately(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP_SIZE", 2)
    monkeypatch.setattr(driver, "MIN_STEP_SECONDS", driver.RUN_SECONDS + 1)
    operation = world.ask_seed(5).operation

    waits = [driver.run(operation.pk) for _ in range(3)]

    assert waits == [0, 0, 0]
    assert state(operation).progress_done == 5
    assert world.run(operation).phase == "Succeeded"
    assert len([one for one in world.cluster.writes if one.startswith("create GPUUnit")]) == 5


@ONE
def test_a_removal_removes_exactly_the_number_or_none(world: UnitWorld) -> None:
    world.seed(4)
    world.create("a")

    with pytest.raises(InsufficientCapacity):
        world.remove(4)
    assert len(live()) == 4
    operation = world.remove(2)
    states = [(row.claimed_by_id is not None, row.phase) for row in stock_rows()]
    world.work()

    assert states == [
        (True, "Ready"),
        (False, "Ready"),
        (True, "Terminating"),
        (True, "Terminating"),
    ]
    assert (state(operation).phase, state(operation).progress_done) == ("Succeeded", 2)
    assert len(live()) == 1
    assert len(world.cluster.names(GPU_UNIT)) == 2


@ONE
def test_a_failed_stock_unit_is_removed_by_name_and_a_claimed_one_is_not(world: UnitWorld) -> None:
    world.seed(3)
    failed, claimed, going = live()
    GpuUnit.objects.filter(pk=failed.pk).update(phase="Failed", reason="PodStartupFailed")
    GpuUnit.objects.filter(pk=claimed.pk).update(claimed_by=going.operation)

    def remove(row: GpuUnit) -> Operation:
        tenant, number = tenant_by_name(), f"remove-{row.pk}"
        return stock_remove_one(tenant=tenant, operation_id=number, stock=row).operation

    ended = world.finish(remove(failed))
    GpuUnit.objects.filter(pk=going.pk).update(deletion_requested_at=Now())
    for row in (claimed, going):
        with pytest.raises(PhaseConflict):
            remove(row)

    assert (ended.phase, ended.payload["stockName"]) == ("Succeeded", failed.name)
    deletions = [write for write in world.cluster.writes if write.startswith("delete")]
    assert deletions == [f"delete GPUUnit {failed.name}"]


@ONE
def test_uidstock_a_removal_never_deletes_another_object_of_that_name(world: UnitWorld) -> None:
    world.seed(1)
    [row] = stock_rows()
    operation = world.remove(1)
    body = world.resource(row.name, STOCK_NAMESPACE) or {}
    world.drop_stock(row)
    del body["metadata"]["uid"]
    other = world.cluster.put(GPU_UNIT, body)

    assert world.run(operation).phase == "Succeeded"
    assert world.resource(row.name, STOCK_NAMESPACE) == other


@ONE
def test_a_removal_with_a_conflict_is_repeated(world: UnitWorld) -> None:
    world.seed(3)
    operation = world.remove(2)
    deletes = 0

    def conflict(verb: str, kind: object) -> None:
        nonlocal deletes
        deletes += verb == "delete"
        if deletes == 2:
            world.cluster.on_call = None
            raise ClusterConflict("try again", reason="Conflict", status=409)

    world.cluster.on_call = conflict

    assert world.finish(operation).phase == "Succeeded"
    assert len(world.cluster.names(GPU_UNIT)) == 1


@ONE
def test_a_failed_removal_releases_the_remaining_units(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP_SIZE", 1)
    world.seed(2)
    operation = world.remove(2)
    deletes = 0

    def refuse(verb: str, kind: object) -> None:
        nonlocal deletes
        deletes += verb == "delete"
        if deletes == 2:
            world.cluster.on_call = None
            raise REFUSED

    world.cluster.on_call = refuse
    ended = world.run(operation)
    world.work()

    assert ended.phase == "Failed"
    assert [row.phase for row in live()] == ["Ready"]
    assert world.finish(world.create("a")).phase == "Succeeded"


@ONE
def test_the_unclaimed_stock_of_a_disabled_spec_is_removed(world: UnitWorld) -> None:
    world.seed(4)
    world.create("a")
    world.work()
    waiting = world.create("b")
    GpuSpec.objects.update(is_enabled=False)

    stock_tend()
    stock_tend()
    assert world.finish(waiting).phase == "Succeeded"
    world.work()

    assert live() == []
    assert world.cluster.names(GPU_UNIT) == ["a", "b"]
    assert Operation.objects.filter(kind="stock.remove").count() == 1
    assert stock_drain(GpuSpec.objects.get()) is None


@ONE
def test_the_seeded_stock_of_a_deleted_spec_is_removed_and_never_claimed(world: UnitWorld) -> None:
    world.seed(3)
    world.create("a")
    world.work()
    by_hand = stock_row()
    GpuSpec.objects.update(is_enabled=False)
    deletion = gpu_spec_delete(tenant=tenant_by_name(), name="g1.1", operation_id="d")
    stock_tend()
    assert not Operation.objects.filter(kind="stock.remove").exists()
    world.finish(deletion.operation)

    with pytest.raises(InvalidSpec):
        unit_create(
            tenant=tenant_by_name(),
            body=GpuUnitCreate.parse(
                {"operationID": "b", "name": "b", "specName": "g1.1", "image": "a:1"}
            ),
        )
    stock_tend()
    stock_tend()
    world.finish(Operation.objects.get(kind="stock.remove"))

    assert world.cluster.names(GPU_UNIT) == ["a"]
    assert GpuUnit.objects.get(pk=by_hand.pk).deletion_requested_at is None


@ONE
def test_a_drain_stops_an_open_seeding(world: UnitWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEP_SIZE", 2)
    seeding = world.ask_seed(5).operation

    def busy(verb: str, kind: object) -> None:
        if verb == "create" and len(world.cluster.names(GPU_UNIT)) == 3:
            raise ClusterUnavailable("busy", status=429)

    world.cluster.on_call = busy
    world.run(seeding)
    assert len(world.cluster.names(GPU_UNIT)) == 3
    GpuSpec.objects.update(is_enabled=False)
    drain = stock_drain(GpuSpec.objects.get())
    assert drain is not None
    world.cluster.on_call = None
    assert world.run(drain.operation).reason == "Seeding"

    world.work()

    assert world.cluster.names(GPU_UNIT) == []
    assert live() == []
    assert [state(one).phase for one in (seeding, drain.operation)] == ["Succeeded"] * 2


@ONE
def test_the_warm_target_is_reached_in_several_top_ups(world: UnitWorld) -> None:
    spec = spec_row(warm_target=MAX_TOP_UP + 3)

    assert top_up(spec) is not None
    assert top_up(spec) is None, "one at a time"
    world.work()
    assert top_up(spec) is not None
    world.work()
    assert top_up(spec) is None

    assert [one.progress_total for one in tops()] == [MAX_TOP_UP, 3]
    assert len(live()) == MAX_TOP_UP + 3


@ONE
def test_claimed_and_consumed_stock_is_topped_up(world: UnitWorld) -> None:
    spec_row(warm_target=2)
    stock_tend()
    world.work()
    world.create("a")

    stock_tend()
    world.work()
    stock_tend()

    assert len(live()) == 2
    assert [one.progress_total for one in tops()] == [2, 1]


@ONE
def test_paused_disabled_and_failing_specs_are_not_topped_up(
    world: UnitWorld,
) -> None:
    paused = spec_row("paused", warm_target=1, is_top_up_paused=True)
    disabled = spec_row("disabled", warm_target=1, is_enabled=False)
    failing = spec_row("failing", warm_target=9)
    for _ in range(MAX_FAILED):
        stock_row(UnitPhase.FAILED, spec_name="failing")

    stock_tend()

    assert tops() == []
    assert all(top_up_obstacle(spec) for spec in (paused, disabled, failing))


@ONE
def test_an_invalid_spec_does_not_affect_the_top_up_of_others(world: UnitWorld) -> None:
    twice = {"resource_name": "nvidia.com/gpu", "resources": {"nvidia.com/gpu": "1"}}
    spec_row("a", warm_target=1, **twice)
    spec_row("b", warm_target=1)

    stock_tend()

    assert [one.payload["specName"] for one in tops()] == ["b"]


@ONE
def test_a_few_failures_do_not_end_the_top_up(world: UnitWorld) -> None:
    spec = spec_row(warm_target=2)
    stock_row(UnitPhase.FAILED)

    made = top_up(spec)

    assert made is not None
    assert made.operation.progress_total == 2


@COMMITTING
def test_of_two_concurrent_top_ups_one_seeds(world: UnitWorld) -> None:
    spec = spec_row(warm_target=3)

    results = at_once([lambda: top_up(spec)] * 8)

    assert len([one for one in results if one is not None]) == 1, results
    assert len(stock_rows()) == 3


@ONE
def test_old_rows_are_pruned_except_the_source_of_a_live_unit(
    world: UnitWorld,
) -> None:
    world.seed(2)
    world.create("a")
    world.create("b")
    world.work()
    world.delete("b")
    world.work()
    old = "2020-01-31T12:00:00Z"
    GpuUnit.objects.filter(deleted_at__isnull=False).update(deleted_at=old)
    Operation.objects.update(ended_at=old)

    units_prune()
    operations_prune()

    assert [row.name for row in GpuUnit.objects.filter(role="active")] == ["a"]
    assert [row.consumed_by for row in stock_rows()] == [GpuUnit.objects.get(name="a").uid]
    assert set(Operation.objects.values_list("kind", flat=True)) == {"stock.seed", "unit.create"}
