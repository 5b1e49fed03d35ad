"""Cancel and retry of operations on units and stock: nothing is lost or left behind."""

import threading
from collections.abc import Callable
from functools import partial

import pytest
from django.db.models.functions import Now

from gpuplatform.errors import InsufficientCapacity, NotFound, PhaseConflict
from gpuplatform.kube.errors import ClusterRejected, ClusterUnavailable
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations.interventions import operation_cancel, operation_retry
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories import unit_rows
from tests.fakes.threads import DEADLINE_SECONDS, at_once
from tests.fakes.unit_world import UnitWorld, state, stock_rows, unit_row
from units.models import GpuUnit
from units.operations import stock as steps
from units.services.stock import stock_remove_one

ONE = pytest.mark.django_db
COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)
NO_NAMESPACE = ClusterRejected("namespaces 'x' not found", reason="NotFound", status=404)
AWAY = ClusterUnavailable("connection refused")


def cancel(operation: Operation) -> Accepted:
    return operation_cancel(operation=state(operation), operation_id=f"cancel-{operation.pk}")


def retry(operation: Operation) -> Accepted:
    return operation_retry(operation=state(operation), operation_id=f"again-{operation.pk}")


def made() -> list[GpuUnit]:
    return [row for row in stock_rows() if row.uid]


@ONE
def test_a_cancelled_create_releases_its_stock_and_its_name(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a")

    cancel(operation)

    assert state(operation).phase == "Cancelled"
    assert stock_rows()[0].claimed_by is None
    world.create("a")
    world.work()
    assert (unit_row("a").phase, world.pods("a")) == ("Ready", 1)


@ONE
def test_a_unit_created_without_an_answer_is_deleted_and_its_stock_released(
    world: UnitWorld,
) -> None:
    world.seed(1)
    operation = world.create("a")
    world.cluster.fail("create", GPU_UNIT, AWAY, acts_first=True)
    world.run(operation)
    assert world.resource("a") is not None

    cancel(operation)
    world.work()

    assert world.resource("a") is None
    assert (stock_rows()[0].claimed_by, stock_rows()[0].phase) == (None, "Ready")


@ONE
def test_a_cancelled_start_leaves_the_unit_stopped_and_releases_its_stock(
    world: UnitWorld,
) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    operation = world.start("a")

    cancel(operation)
    world.work()

    assert (unit_row("a").phase, world.pods("a")) == ("Stopped", 0)
    assert not GpuUnit.objects.filter(claimed_by__isnull=False).exists()


@ONE
def test_a_start_applied_without_an_answer_counts_as_stopped_when_cancelled(
    world: UnitWorld,
) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    operation = world.start("a")
    world.cluster.fail("patch", GPU_UNIT, AWAY, acts_first=True)
    world.run(operation)

    cancel(operation)
    world.work()

    assert (unit_row("a").phase, world.pods("a")) == ("Stopped", 0)
    assert [row.consumed_by for row in stock_rows() if row.deleted_at is None] == [""]


@ONE
@pytest.mark.parametrize("verb", ["stop", "delete"])
def test_a_stop_and_a_deletion_cannot_be_cancelled(world: UnitWorld, verb: str) -> None:
    unit_rows.unit_row(name="a")
    operation = getattr(world, verb)("a")

    with pytest.raises(PhaseConflict):
        cancel(operation)


@ONE
def test_a_cancelled_seeding_keeps_the_created_units_and_closes_the_rest(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP_SIZE", 2)
    operation = world.ask_seed(5).operation
    _fail_at(world, 3)
    assert world.run(operation).phase == "Pending"

    world.run(cancel(operation).operation)
    world.work()

    ended = state(operation)
    assert (ended.phase, ended.progress_done, ended.progress_total) == ("Cancelled", 2, 5)
    assert [(row.phase, row.deleted_at is None) for row in made()] == [("Ready", True)] * 2
    assert all(row.deleted_at for row in stock_rows() if not row.uid)
    assert len(world.cluster.names(GPU_UNIT)) == 2


@ONE
def test_a_unit_of_a_cancelled_seeding_created_without_an_answer_is_deleted(
    world: UnitWorld,
) -> None:
    operation = world.ask_seed(2).operation
    world.cluster.fail("create", GPU_UNIT, AWAY, acts_first=True)
    world.run(operation)
    assert len(world.cluster.names(GPU_UNIT)) == 1

    cancel(operation)
    world.work()

    assert world.cluster.names(GPU_UNIT) == []
    assert made() == []


@COMMITTING
def test_a_running_seeding_is_cancelled_after_its_step(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP_SIZE", 2)
    operation = world.ask_seed(7).operation
    at_third, asked = threading.Event(), threading.Event()
    posts = 0

    def pause(verb: str, kind: object) -> None:
        nonlocal posts
        posts += verb == "create" and kind == GPU_UNIT
        if posts == 3:
            at_third.set()
            assert asked.wait(DEADLINE_SECONDS)

    def ask() -> Operation:
        assert at_third.wait(DEADLINE_SECONDS)
        made_by = cancel(operation).operation
        asked.set()
        return made_by

    world.cluster.on_call = pause
    jobs: list[Callable[[], Operation]] = [ask, partial(world.run, operation)]
    cancellation, _ = at_once(jobs)

    ended = state(operation)
    assert isinstance(cancellation, Operation), cancellation
    assert (ended.phase, ended.progress_done, posts) == ("Cancelled", 4, 4)
    assert len(made()) == len(world.cluster.names(GPU_UNIT)) == 4
    assert world.run(cancellation).phase == "Succeeded"


@ONE
def test_a_seeding_whose_worker_was_killed_is_cancelled_after_its_step(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP_SIZE", 2)
    operation = world.ask_seed(5).operation
    Operation.objects.filter(pk=operation.pk).update(phase="Running")

    cancellation = cancel(operation).operation
    assert world.run(cancellation).reason == "Cancelling"
    world.run(operation)

    ended = state(operation)
    assert (ended.phase, ended.progress_done, len(made())) == ("Cancelled", 2, 2)
    assert world.run(cancellation).phase == "Succeeded"


@ONE
def test_a_cancelled_seeding_ends_if_the_cluster_becomes_unavailable(world: UnitWorld) -> None:
    operation = world.ask_seed(3).operation
    Operation.objects.filter(pk=operation.pk).update(phase="Running")
    cancel(operation)
    world.cluster.fail("create", GPU_UNIT, AWAY)

    assert world.run(operation).phase == "Cancelled"


@ONE
def test_a_cancellation_of_an_operation_that_succeeded_fails(world: UnitWorld) -> None:
    operation = world.ask_seed(1).operation
    Operation.objects.filter(pk=operation.pk).update(phase="Running")
    cancellation = cancel(operation).operation
    Operation.objects.filter(pk=operation.pk).update(
        phase="Succeeded", due_at=None, ended_at=Now()
    )

    ended = world.run(cancellation)

    assert (ended.phase, ended.error_code) == ("Failed", "phase_conflict")


@COMMITTING
def test_of_a_concurrent_cancellation_and_claim_stock_has_one_owner(
    world: UnitWorld,
) -> None:
    world.seed(1)
    operation = world.create("a")

    jobs: list[Callable[[], object]] = [
        partial(cancel, operation),
        partial(world.run, operation),
    ]
    answer, _ = at_once(jobs)

    world.work()
    stock = stock_rows()[0]
    if isinstance(answer, Accepted):
        assert (state(operation).phase, world.resource("a")) == ("Cancelled", None)
        assert (stock.claimed_by, stock.consumed_by) == (None, "")
    else:
        assert isinstance(answer, PhaseConflict), answer
        assert state(operation).phase == "Succeeded"
        assert stock.consumed_by == unit_row("a").uid


@ONE
def test_a_create_that_failed_without_stock_is_retried_with_stock(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a", stockName=stock_rows()[0].name)
    world.drop_stock(stock_rows()[0])
    assert world.finish(operation).error_code == "insufficient_capacity"
    world.work()

    with pytest.raises(InsufficientCapacity):
        retry(operation)
    row = unit_rows.stock_row(name=operation.payload["stockName"])
    again = retry(operation).operation

    assert unit_row("a").phase == "Pending"
    assert GpuUnit.objects.get(pk=row.pk).claimed_by == again


@ONE
def test_a_seeding_that_failed_half_way_is_retried_for_the_rest(world: UnitWorld) -> None:
    operation = world.ask_seed(5).operation
    _fail_at(world, 3, NO_NAMESPACE)
    ended = world.finish(operation)
    assert (ended.phase, ended.progress_done) == ("Failed", 2)

    again = world.finish(retry(operation).operation)

    assert (again.phase, again.progress_done) == ("Succeeded", 3)
    assert len(made()) == 5


@ONE
def test_a_removal_that_failed_half_way_is_retried_for_the_rest(world: UnitWorld) -> None:
    world.seed(3)
    operation = world.remove(2)
    Operation.objects.filter(pk=operation.pk).update(
        phase="Failed",
        error_code="internal_error",
        error_retryable=True,
        due_at=None,
        ended_at=Now(),
        progress_done=1,
    )
    GpuUnit.objects.filter(claimed_by=operation).update(claimed_by=None)

    again = retry(operation).operation

    assert (again.payload["number"], state(again).progress_total) == (1, 1)


@ONE
def test_a_removal_by_name_that_failed_is_retried_for_that_one(world: UnitWorld) -> None:
    world.seed(2)
    row = GpuUnit.objects.order_by("id").first()
    assert row is not None
    accepted = stock_remove_one(tenant=tenant_by_name(), operation_id="remove", stock=row)
    _give_up(accepted.operation)
    GpuUnit.objects.filter(pk=row.pk).update(claimed_by=None, deletion_requested_at=None)

    again = retry(accepted.operation).operation

    assert again.payload["stockName"] == row.name
    assert again.claimed_stock.get().pk == row.pk


@ONE
@pytest.mark.parametrize("verb", ["stop", "start", "delete", "update"])
def test_a_change_is_retried_on_the_same_unit(world: UnitWorld, verb: str) -> None:
    unit_rows.unit_row(name="a")
    fields = {"image": "example.com/b:1"} if verb == "update" else {}
    operation = getattr(world, verb)("a", **fields)
    _give_up(operation)

    again = retry(operation).operation

    assert (again.kind, again.object_row, again.payload) == (
        operation.kind,
        operation.object_row,
        operation.payload,
    )


@ONE
def test_a_change_of_a_deleted_unit_is_not_retried(world: UnitWorld) -> None:
    row = unit_rows.unit_row(name="a")
    operation = world.stop("a")
    _give_up(operation)
    GpuUnit.objects.filter(pk=row.pk).update(deleted_at=Now())

    with pytest.raises(NotFound):
        retry(operation)


@ONE
def test_a_worker_of_a_function_is_not_retried(world: UnitWorld) -> None:
    unit_rows.stock_row()
    operation = world.create("a")
    payload = {**operation.payload, "serverless": {}}
    Operation.objects.filter(pk=operation.pk).update(payload=payload)
    _give_up(operation)

    with pytest.raises(PhaseConflict):
        retry(operation)


def _give_up(operation: Operation) -> None:
    Operation.objects.filter(pk=operation.pk).update(
        phase="Failed",
        error_code="internal_error",
        error_retryable=True,
        due_at=None,
        ended_at=Now(),
    )


def _fail_at(
    world: UnitWorld, number: int, error: ClusterRejected | ClusterUnavailable = AWAY
) -> None:
    """Let the POST with this ordinal number and the next one fail without an effect."""
    posts = 0

    def count(verb: str, kind: object) -> None:
        nonlocal posts
        posts += verb == "create" and kind == GPU_UNIT
        if posts == number:
            world.cluster.on_call = None
            world.cluster.fail("create", GPU_UNIT, error)
            world.cluster.fail("create", GPU_UNIT, error)

    world.cluster.on_call = count
