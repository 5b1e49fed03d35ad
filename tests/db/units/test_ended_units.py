"""Units whose program ends: operations, hand-over, rows and counts, on a cluster of dicts."""

from collections.abc import Callable
from functools import partial

import pytest
from django.db.models import F
from django.db.models.functions import Now

from gpuplatform.kube.errors import ClusterRejected
from gpuplatform.kube.kinds import GPU_UNIT, JOB
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.reconciliation import driver
from inventory.models import GpuSpec
from tests.fakes.jobs import FINISHED_AT
from tests.fakes.unit_world import NAMESPACE, UnitWorld, state, stock_rows, unit_row
from units.core.names import RUN_ANNOTATION
from units.models import GpuUnit
from units.phases import UnitPhase, UnitReason, UnitWait
from units.reconcile import UNITS
from units.selectors import capacity_by_spec
from units.tenant_usage import gpus_by_tenant

pytestmark = pytest.mark.django_db

NEVER = {"restart": "never"}


def run_of(world: UnitWorld, name: str = "a") -> str:
    job = world.job(name)
    assert job is not None
    return str(job["metadata"]["annotations"].get(RUN_ANNOTATION, ""))


def is_running(world: UnitWorld, name: str = "a") -> bool:
    job = world.job(name)
    return job is not None and job["spec"]["suspend"] is False and not world.has_ended(name)


@pytest.fixture
def running(world: UnitWorld) -> UnitWorld:
    """A platform with a unit `a` whose program runs, and one more stock unit."""
    world.seed(2)
    world.create("a", template=NEVER)
    world.work()
    assert is_running(world)
    return world


def test_a_unit_that_may_end_runs_as_a_job_on_the_gpus_of_its_source(running: UnitWorld) -> None:
    row = unit_row("a")

    assert (row.phase, row.reason) == (UnitPhase.READY, UnitReason.UNIT_READY)
    assert running.deployment("a") is None
    assert run_of(running) == row.source_uid
    assert [stock.consumed_by for stock in stock_rows()] == [row.uid, ""]
    assert row.is_ended is False


@pytest.mark.parametrize(
    ("code", "phase", "reason"),
    [
        (0, UnitPhase.SUCCEEDED, UnitReason.PROGRAM_SUCCEEDED),
        (3, UnitPhase.FAILED, UnitReason.PROGRAM_FAILED),
    ],
)
def test_an_ended_unit_holds_no_gpus(
    running: UnitWorld, code: int, phase: str, reason: str
) -> None:
    [before] = capacity_by_spec()
    running.end("a", code, "last line")

    running.work()

    row = unit_row("a")
    assert (row.phase, row.reason) == (phase, reason)
    assert (row.is_ended, row.exit_code) == (True, code)
    assert row.finished_at is not None
    assert row.finished_at.isoformat() == FINISHED_AT.replace("Z", "+00:00")
    assert ("last line" in row.message) is bool(code)
    [after] = capacity_by_spec()
    assert (before.gpus["active"], after.gpus["active"]) == (1, 0)
    assert not any(gpus_by_tenant().values())


def test_an_ended_unit_causes_no_further_writes(running: UnitWorld) -> None:
    running.end("a")
    running.work()
    running.cluster.writes.clear()

    running.work()

    assert running.cluster.writes == []


def test_a_start_of_an_ended_unit_claims_stock_and_runs_once_more(running: UnitWorld) -> None:
    running.end("a")
    running.work()
    first = run_of(running)

    operation = running.start("a")
    running.work()

    row = unit_row("a")
    assert state(operation).phase == OperationPhase.SUCCEEDED
    assert is_running(running)
    assert first != run_of(running) == row.source_uid
    assert (row.phase, row.is_ended, row.exit_code) == (UnitPhase.READY, False, None)
    assert [stock.consumed_by for stock in stock_rows()] == [row.uid, row.uid]
    running.end("a", 4)
    running.work()
    assert unit_row("a").exit_code == 4


def test_a_start_of_a_running_unit_releases_its_claim(running: UnitWorld) -> None:
    run = run_of(running)

    operation = running.start("a")
    running.work()

    assert state(operation).phase == OperationPhase.SUCCEEDED
    assert run_of(running) == run
    assert [bool(stock.consumed_by) for stock in stock_rows()] == [True, False]
    assert stock_rows()[1].claimed_by_id is None


def test_a_start_without_stock_waits_and_the_unit_remains_ended(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a", template=NEVER)
    world.work()
    world.end("a")
    world.work()

    operation = world.start("a")
    world.run(operation)
    world.reconcile()
    world.copy()

    assert state(operation).reason == UnitWait.WAITING_FOR_CAPACITY
    assert unit_row("a").phase == UnitPhase.SUCCEEDED
    world.seed(1)
    world.work()
    assert is_running(world)


def test_an_edit_of_an_ended_unit_runs_nothing_and_applies_to_the_next_run(
    running: UnitWorld,
) -> None:
    running.end("a")
    running.work()
    run = run_of(running)

    running.update("a", image="example.com/a:2")
    running.work()

    assert run_of(running) == run
    assert unit_row("a").phase == UnitPhase.SUCCEEDED
    running.start("a")
    running.work()
    job = running.job("a")
    assert job is not None
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.com/a:2"
    assert is_running(running)


def test_an_edit_of_a_running_unit_restarts_its_program(running: UnitWorld) -> None:
    before = running.job("a")
    assert before is not None

    running.update("a", image="example.com/a:2")
    running.work()

    after = running.job("a")
    assert after is not None
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert is_running(running)
    assert unit_row("a").phase == UnitPhase.READY


def test_a_stop_of_an_ended_unit_allows_the_next_start(running: UnitWorld) -> None:
    running.end("a")
    running.work()

    running.stop("a")
    running.work()

    row = unit_row("a")
    job = running.job("a")
    assert (row.phase, row.is_ended, row.exit_code) == (UnitPhase.STOPPED, False, None)
    assert job is not None
    assert (job["spec"]["suspend"], running.has_ended("a")) == (True, False)
    running.start("a")
    running.work()
    assert is_running(running)


def test_a_stop_and_a_start_suspend_and_resume_the_program(running: UnitWorld) -> None:
    running.stop("a")
    running.work()
    assert (unit_row("a").phase, running.pods("a")) == (UnitPhase.STOPPED, 0)

    running.start("a")
    running.work()

    assert is_running(running)
    assert run_of(running) == unit_row("a").source_uid


def test_voidstart_a_failed_start_of_an_ended_unit_stops_it(running: UnitWorld) -> None:
    running.end("a")
    running.work()
    operation = running.start("a")
    refused = ClusterRejected("spec: Invalid", reason="Invalid", status=422)
    running.cluster.fail("patch", GPU_UNIT, refused, acts_first=True)

    assert running.run(operation).phase == OperationPhase.FAILED
    running.work()

    assert not is_running(running)
    assert (unit_row("a").phase, unit_row("a").is_suspended) == (UnitPhase.STOPPED, True)
    running.start("a")
    running.work()
    assert is_running(running)


def test_a_finished_job_that_is_deleted_is_not_run_again(running: UnitWorld) -> None:
    running.end("a")
    running.work()
    running.cluster.remove(JOB, "unit-a", namespace=NAMESPACE)

    running.work()

    assert running.job("a") is None
    assert unit_row("a").phase == UnitPhase.SUCCEEDED
    running.start("a")
    running.work()
    assert is_running(running)


def test_another_kind_of_program_stops_the_first_object(running: UnitWorld) -> None:
    running.update("a", template={"restart": "always"})
    running.work()
    deployment = running.deployment("a")
    assert running.job("a") is None
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 1

    running.update("a", template={"restart": "onFailure"})
    running.work()

    fence = running.deployment("a")
    assert is_running(running)
    assert fence is not None
    assert fence["spec"]["replicas"] == 0
    assert running.pods("a") == 1
    for verb in (running.stop, running.start):
        verb("a")
        running.work()
    assert is_running(running)


def test_a_deleted_ended_unit_is_not_replaced_in_stock(running: UnitWorld) -> None:
    GpuSpec.objects.update(restocks_on_delete=True)
    running.end("a")
    running.work()

    running.delete("a")
    running.work()

    assert Operation.objects.filter(kind="stock.seed").count() == 1
    assert unit_row("a").deleted_at is not None


class TestStaleDecisions:
    """Decisions that a paused worker executes late; see `units.core.jobs`."""

    def test_a_unit_that_changes_before_its_job_is_read_starts_nothing(
        self, running: UnitWorld
    ) -> None:
        """A worker reads the unit before its start, and the Job after it was replaced."""
        running.end("a")
        running.work()

        def start(verb: str, kind: object) -> None:
            if (verb, kind) == ("get", JOB):
                running.cluster.on_call = None
                running.finish(running.start("a"))
                _reconciled(running, "a")  # It deletes the finished Job.
                _reconciled(running, "a")  # It creates a suspended one.

        running.cluster.writes.clear()
        running.cluster.on_call = start
        _reconciled(running, "a")

        job = running.job("a")
        assert job is not None
        assert job["spec"]["suspend"] is True
        assert "patch Job unit-a" not in running.cluster.writes
        running.work()
        assert is_running(running)

    @pytest.mark.parametrize("verb", ["create", "patch"])
    def test_a_late_write_to_a_job_of_a_stopped_unit_runs_nothing(
        self, world: UnitWorld, verb: str
    ) -> None:
        """The unit is stopped and started again while a worker waits before its write."""
        world.seed(2)
        operation = world.create("a", template=NEVER)
        world.finish(operation)
        _until_written(world, verb)
        held = stock_rows()[1].name

        def overtaken(called: str, kind: object) -> None:
            if (called, kind) == (verb, JOB):
                world.cluster.on_call = None
                world.finish(world.stop("a"))
                world.reconcile()
                world.reconcile()
                start = world.start("a")
                world.finish(start)
                assert state(start).phase == OperationPhase.SUCCEEDED
                # The pod of the second stock unit still holds its GPU.
                assert world.cluster.get(GPU_UNIT, held, namespace="runtime-stock") is None

        world.cluster.on_call = overtaken
        _reconciled(world, "a")

        job = world.job("a")
        assert job is not None
        assert job["spec"]["suspend"] is True


def _until_written(world: UnitWorld, verb: str) -> None:
    """Reconcile until the next run writes with that verb to the Job."""
    for _ in range(8):
        if (world.job("a") is None) == (verb == "create") and _is_stock_gone(world):
            return
        world.reconcile()
        world.cluster.settle()
    raise AssertionError("the Job was not created")


def _is_stock_gone(world: UnitWorld) -> bool:
    first = stock_rows()[0]
    return world.resource(first.name, "runtime-stock") is None


def _reconciled(world: UnitWorld, name: str) -> None:
    """Let another worker reconcile a unit, even if one holds its lease."""
    row = GpuUnit.objects.filter(role="active", name=name)
    row.update(due_at=Now(), due_seq=F("due_seq") + 1, lease_token=None, lease_expires_at=None)
    run: Callable[[], object] = partial(driver.run, UNITS, row.get().pk)
    run()
