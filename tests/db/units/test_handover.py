"""The rules of the hand-over, with the names of `tests/model`."""

from typing import NoReturn

import pytest
from django.db.models.functions import Now

from gpuplatform.errors import InsufficientCapacity
from gpuplatform.kube.errors import ClusterRejected, ClusterUnavailable
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, Manifest, ResourceKind
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import APPLIED_OPERATION_ANNOTATION
from gpuplatform.reconciliation import driver as reconciliation
from gpuplatform.reconciliation import gate
from tests.fakes.cluster import Killed
from tests.fakes.unit_world import NAMESPACE, UnitWorld, release, state, stock_rows, unit_row
from units.comparison import delete_leftovers
from units.core.names import GENERATION_ANNOTATION
from units.core.sources import source_of
from units.models import CapacityRequest, GpuUnit
from units.phases import STOCK_NAMESPACE
from units.reconcile import UNITS
from units.services.claims import consume

pytestmark = pytest.mark.django_db

REFUSED = ClusterRejected("spec.image: Invalid", reason="Invalid", status=422)


def uid(resource: Manifest | None) -> str:
    assert resource is not None
    return str(resource["metadata"]["uid"])


def consumers() -> list[str]:
    return [row.consumed_by for row in stock_rows()]


def test_a_create_consumes_its_stock_and_runs_once_that_is_gone(world: UnitWorld) -> None:
    world.seed(2)

    operation = world.run(world.create("a"))
    made = world.resource("a")
    world.work()

    first, second = stock_rows()
    assert (operation.phase, operation.object_uid) == ("Succeeded", uid(made))
    assert (first.consumed_by, first.claimed_by, second.consumed_by) == (uid(made), None, "")
    assert first.deleted_at is not None
    assert world.cluster.names(GPU_UNIT) == ["a", second.name]
    assert unit_row("a").phase == "Ready"
    assert unit_row("a").spec["gpu"] == 1


def test_a_lost_stock_unit_is_replaced_by_another(world: UnitWorld) -> None:
    world.seed(2)
    operation = world.create("a")
    first, second = stock_rows()
    world.drop_stock(first)

    ended = world.run(operation)

    assert ended.phase == "Succeeded"
    assert consumers() == ["", uid(world.resource("a"))]
    source = source_of(world.resource("a") or {})
    assert source is not None
    assert source.uid == second.uid


def test_gonerow_a_row_whose_stock_is_gone_is_never_claimed_again(world: UnitWorld) -> None:
    world.seed(2)
    operation = world.create("a")
    world.drop_stock(stock_rows()[0])
    world.run(operation)

    with pytest.raises(InsufficientCapacity):
        world.create("b")


@pytest.mark.parametrize("replaced", [False, True], ids=["gone", "replaced"])
def test_named_a_success_consumes_the_stock_that_the_unit_names(
    world: UnitWorld, replaced: bool
) -> None:
    """A stalled POST is executed after another worker claimed other stock."""
    world.seed(2)
    operation = world.create("a")
    first, second = stock_rows()
    posts = late_post(world, operation)
    world.drop_stock(first)
    if replaced:
        world.by_hand("elsewhere")
    lands_after(world, posts, gets=2)

    ended = world.finish(operation)

    first.refresh_from_db()
    second.refresh_from_db()
    assert ended.phase == "Succeeded"
    assert first.consumed_by == ended.object_uid == uid(world.resource("a"))
    assert (second.consumed_by, second.claimed_by) == ("", None)
    world.work()
    assert unit_row("a").phase == "Ready"


def late_post(world: UnitWorld, operation: Operation) -> list[Manifest]:
    """Stall a worker at its POST; return the manifests that it would write."""
    posts: list[Manifest] = []

    def stall(_: ResourceKind, manifest: Manifest) -> NoReturn:
        posts.append(manifest)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.cluster, "create", stall)
        with pytest.raises(Killed):
            world.run(operation)
    return posts


def lands_after(world: UnitWorld, posts: list[Manifest], *, gets: int) -> None:
    """Execute the stalled POST after a number of reads."""
    seen = 0

    def land(verb: str, kind: object) -> None:
        nonlocal seen
        seen += verb == "get" and kind == GPU_UNIT
        if seen > gets:
            world.cluster.on_call = None
            world.cluster.create(GPU_UNIT, posts[0])

    world.cluster.on_call = land


def test_final_a_consumed_row_stays_with_its_unit(world: UnitWorld) -> None:
    world.seed(1)
    world.run(world.create("a"))
    unit = world.resource("a") or {}
    other = {**unit, "metadata": {**unit["metadata"], "uid": "another"}}

    consume(Operation.objects.get(kind="unit.create"), other)
    world.work()
    world.finish(world.delete("a"))
    world.work()

    assert consumers() == [uid(unit)]
    with pytest.raises(InsufficientCapacity):
        world.create("b")


def test_token_a_worker_that_lost_its_lease_records_nothing(world: UnitWorld) -> None:
    world.seed(2)
    operation = world.create("a")

    def taken_over(verb: str, kind: object) -> None:
        if verb == "create" and kind == GPU_UNIT:
            world.cluster.on_call = None
            world.run(operation)

    world.cluster.on_call = taken_over
    driver.run(operation.pk)

    assert state(operation).phase == "Succeeded"
    assert consumers() == [uid(world.resource("a")), ""]
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 0


def test_token_a_worker_that_lost_its_lease_assigns_no_stock(world: UnitWorld) -> None:
    world.seed(3)
    operation = world.create("a")
    world.drop_stock(stock_rows()[0])
    reads = 0

    def taken_over(verb: str, kind: object) -> None:
        nonlocal reads
        reads += verb == "get" and kind == GPU_UNIT
        if reads == 2:  # The first worker then finds its stock deleted.
            world.cluster.on_call = None
            world.run(operation)

    world.cluster.on_call = taken_over
    driver.run(operation.pk)

    assert state(operation).phase == "Succeeded"
    assert consumers() == ["", uid(world.resource("a")), ""]
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 0
    assert world.finish(world.create("b")).phase == "Succeeded"


def test_a_rejected_create_releases_its_claim_and_its_name(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a")
    world.cluster.fail("create", GPU_UNIT, REFUSED)

    ended = world.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "invalid_request")
    assert unit_row("a").deleted_at is not None
    assert world.run(world.create("a")).phase == "Succeeded"


def test_a_foreign_unit_of_that_name_is_a_conflict_that_releases_the_claim(
    world: UnitWorld,
) -> None:
    world.seed(1)
    operation = world.create("a")
    theirs = world.by_hand("a")

    ended = world.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "name_conflict")
    assert [row.claimed_by for row in stock_rows()] == [None]
    assert unit_row("a").uid == uid(theirs), "it is shown"


def test_a_lost_answer_is_no_conflict_with_itself(world: UnitWorld) -> None:
    world.seed(2)
    operation = world.create("a")
    world.cluster.fail("create", GPU_UNIT, ClusterUnavailable("cut"), acts_first=True)

    ended = world.finish(operation)

    assert ended.phase == "Succeeded"
    assert consumers() == [uid(world.resource("a")), ""]


def test_leftover_a_late_post_of_a_failed_create_is_deleted_and_consumes_nothing(
    world: UnitWorld,
) -> None:
    world.seed(1)
    operation = world.create("a")
    posts = late_post(world, operation)
    world.cluster.fail("create", GPU_UNIT, REFUSED)
    assert world.run(operation).phase == "Failed"
    world.cluster.create(GPU_UNIT, posts[0])

    again = world.create("a")
    assert (world.run(again).reason, world.run(again).phase) == ("LeftoverConflict", "Pending")
    assert world.deployment("a") is None
    delete_leftovers(world.cluster)

    assert world.finish(again).phase == "Succeeded"
    assert consumers() == [state(again).object_uid]


def test_arbiter_a_unit_of_kubectl_that_names_stock_consumes_none(world: UnitWorld) -> None:
    world.seed(1)
    [stock] = stock_rows()
    world.by_hand(
        "thief",
        annotations={
            "runtime.lokiwager.io/source-stock-name": stock.name,
            "runtime.lokiwager.io/source-stock-namespace": STOCK_NAMESPACE,
            "runtime.lokiwager.io/source-stock-uid": stock.uid,
        },
    )
    world.work()

    stock.refresh_from_db()
    assert (stock.consumed_by, stock.phase) == ("", "Ready")
    assert world.finish(world.create("a")).phase == "Succeeded"


def test_arbiter_a_started_unit_of_kubectl_waits_for_its_stock(
    world: UnitWorld,
) -> None:
    world.seed(1)
    world.by_hand("theirs")
    world.work()
    world.finish(world.stop("theirs"))
    world.work()
    start = world.start("theirs")
    world.cluster.fail("patch", GPU_UNIT, Killed(), acts_first=True)
    with pytest.raises(Killed):
        world.run(start)
    assert at_zero(world, "theirs"), "its row does not name its source yet"

    world.cluster.fail("delete", GPU_UNIT, ClusterUnavailable("cut"))
    world.run(start)
    [stock] = stock_rows()
    row = unit_row("theirs")
    assert stock.consumed_by == row.uid
    assert at_zero(world, "theirs"), "its stock is still there"
    world.work()

    deployment = world.deployment("theirs") or {}
    pod = deployment["spec"]["template"]["spec"]
    assert (unit_row("theirs").phase, pod["priorityClassName"]) == ("Ready", "gpu-platform-unit")


def at_zero(world: UnitWorld, unit: str) -> bool:
    """Reconcile only the unit; return whether its Deployment remains at 0."""
    rows = GpuUnit.objects.filter(pk=unit_row(unit).pk)
    rows.update(due_at=Now(), lease_expires_at=None)
    reconciliation.run(UNITS, rows.get().pk)
    return bool((world.deployment(unit) or {})["spec"]["replicas"] == 0)


def test_a_waiting_create_claims_stock_as_soon_as_it_exists(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a")
    world.drop_stock(stock_rows()[0])

    waiting = world.run(operation)
    assert (waiting.phase, waiting.reason) == ("Pending", "WaitingForCapacity")
    assert stock_rows()[0].claimed_by == operation, "nothing is written while it waits"
    world.seed(1)

    assert world.finish(operation).phase == "Succeeded"
    assert consumers() == ["", uid(world.resource("a"))]


def test_a_waiting_create_expires_after_ten_minutes(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a")
    world.drop_stock(stock_rows()[0])
    world.run(operation)
    since = state(operation).reason_since
    world.run(operation)
    assert state(operation).reason_since == since, "it waits since the first time"

    CapacityRequest.objects.update(expires_at=Now())
    ended = world.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "insufficient_capacity")
    assert ended.error_retryable
    assert unit_row("a").deleted_at is not None
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 0


def test_a_lost_stock_unit_that_was_named_is_not_replaced(world: UnitWorld) -> None:
    world.seed(2)
    first, second = stock_rows()
    operation = world.create("a", stockName=first.name)
    world.drop_stock(first)

    ended = world.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "insufficient_capacity")
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 0
    assert stock_rows()[1] == second


def test_stock_edited_with_kubectl_that_no_longer_fits_ends_the_create(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a")
    stock = world.resource(stock_rows()[0].name, STOCK_NAMESPACE) or {}
    stock["spec"]["memory"] = "a lot"
    world.cluster.put(GPU_UNIT, stock)

    ended = world.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "invalid_request")
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 0


def test_an_image_that_cannot_be_pulled_does_not_fail_the_operation(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a", image="registry.example.invalid/a:1")
    world.work(3)
    bad = {"name": "runtime-worker", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    world.cluster.settle({"phase": "Pending", "containerStatuses": [bad]})
    world.reconcile()

    assert state(operation).phase == "Succeeded"
    assert (unit_row("a").phase, unit_row("a").reason) == ("Failed", "PodStartupFailed")
    assert consumers() == [state(operation).object_uid], "counted once"


def test_startwaits_a_start_waits_for_the_old_pod_and_reads_nothing_before(
    world: UnitWorld,
) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.run(world.stop("a"))

    operation = world.start("a")
    waiting = world.run(operation)

    assert (waiting.phase, waiting.reason) == ("Pending", "Stopping")
    assert stock_rows()[1].claimed_by == operation
    assert (world.resource("a") or {})["spec"]["suspend"] is True
    world.work()
    assert state(operation).phase == "Succeeded"
    assert consumers() == [uid(world.resource("a"))] * 2
    assert unit_row("a").phase == "Ready"


def test_startwaits_pods_that_are_still_ending_count(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    pod = next(o for k, o in world.cluster._objects.items() if k[2] == "unit-a-0")
    world.run(world.stop("a"))
    world.reconcile()
    world.cluster.settle()
    ending = {**pod, "metadata": {**pod["metadata"], "ownerReferences": []}}
    world.cluster.put(POD, ending)
    operation = world.start("a")

    assert world.run(operation).reason == "Stopping"
    world.cluster.remove(POD, "unit-a-0", namespace=NAMESPACE)
    assert world.run(operation).phase == "Succeeded"


def test_stamp_a_start_waits_until_the_deployment_is_at_zero_for_this_stop(
    world: UnitWorld,
) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.run(world.stop("a"))
    world.reconcile()
    world.cluster.settle()
    older = {"metadata": {"annotations": {GENERATION_ANNOTATION: "1"}}}
    world.cluster.merge_patch(DEPLOYMENT, "unit-a", older, namespace=NAMESPACE)
    operation = world.start("a")

    assert world.run(operation).reason == "Stopping"
    world.reconcile()
    world.cluster.settle()
    assert world.run(operation).phase == "Succeeded"


def test_zero_a_unit_stopped_before_it_ran_gets_a_deployment_without_pods(
    world: UnitWorld,
) -> None:
    world.seed(2)
    world.run(world.create("a"))
    world.run(world.stop("a"))
    operation = world.start("a")

    assert world.run(operation).reason == "Stopping"
    world.reconcile()
    world.cluster.settle()

    assert (world.deployment("a") or {})["spec"]["replicas"] == 0
    assert world.run(operation).phase == "Succeeded"


def test_voidstart_a_unit_whose_start_failed_counts_as_stopped(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    operation = world.start("a")
    world.cluster.fail("patch", GPU_UNIT, REFUSED, acts_first=True)

    assert world.run(operation).phase == "Failed"
    assert "suspend" not in (world.resource("a") or {})["spec"], "the patch landed"
    world.work()

    assert consumers() == [uid(world.resource("a")), ""]
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 0
    assert (unit_row("a").phase, unit_row("a").is_suspended) == ("Stopped", True)
    again = world.start("a")
    world.work()
    assert state(again).phase == "Succeeded"
    assert consumers() == [uid(world.resource("a"))] * 2
    assert unit_row("a").phase == "Ready"


def test_a_start_without_stock_waits_for_some(world: UnitWorld) -> None:
    world.seed(1)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()

    operation = world.start("a")
    assert world.run(operation).reason == "WaitingForCapacity"
    world.seed(1)
    world.work()

    assert state(operation).phase == "Succeeded"
    assert unit_row("a").phase == "Ready"


def test_a_start_of_a_running_unit_claims_nothing(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    writes = len(world.cluster.writes)

    ended = world.run(world.start("a"))

    assert ended.phase == "Succeeded"
    assert consumers() == [uid(world.resource("a")), ""]
    assert stock_rows()[1].claimed_by is None
    assert len(world.cluster.writes) == writes


def test_a_start_of_a_deleted_unit_fails_and_releases_its_claim(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    operation = world.start("a")
    world.cluster.remove(GPU_UNIT, "a", namespace=NAMESPACE)

    ended = world.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "not_found")
    assert stock_rows()[1].claimed_by is None


def test_a_start_whose_stock_is_lost_claims_another(world: UnitWorld) -> None:
    world.seed(3)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    operation = world.start("a")
    world.drop_stock(stock_rows()[1])

    assert world.run(operation).phase == "Succeeded"
    made = uid(world.resource("a"))
    assert consumers() == [made, "", made]


def test_applied_a_later_operation_is_not_undone_by_an_earlier_one(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    operation, later = world.start("a"), world.stop("a")
    unit = world.resource("a") or {}
    unit["metadata"]["annotations"][APPLIED_OPERATION_ANNOTATION] = str(later.pk)
    world.cluster.put(GPU_UNIT, unit)

    assert world.run(operation).phase == "Succeeded"

    assert (world.resource("a") or {})["spec"]["suspend"] is True
    assert consumers() == [uid(unit), ""]
    assert stock_rows()[1].claimed_by is None


@pytest.mark.parametrize("what", ["stop", "start", "update"])
def test_applied_an_unknown_operation_id_delays_no_operation(world: UnitWorld, what: str) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    if what == "start":
        world.stop("a")
        world.work()
    unit = world.resource("a") or {}
    unit["metadata"]["annotations"][APPLIED_OPERATION_ANNOTATION] = "9" * 18
    world.cluster.put(GPU_UNIT, unit)
    operation = {
        "stop": lambda: world.stop("a"),
        "start": lambda: world.start("a"),
        "update": lambda: world.update("a", image="example.com/b:1"),
    }[what]()

    assert world.run(operation).phase == "Succeeded"

    spec = (world.resource("a") or {})["spec"]
    assert spec.get("suspend", False) is (what == "stop")
    assert (spec["image"] == "example.com/b:1") is (what == "update")


@pytest.mark.parametrize("what", ["stop", "start"])
def test_rvpatch_a_concurrent_edit_is_read_again(world: UnitWorld, what: str) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    if what == "start":
        world.stop("a")
        world.work()
    operation = world.stop("a") if what == "stop" else world.start("a")

    def edit(verb: str, kind: object) -> None:
        if verb == "patch" and kind == GPU_UNIT:
            world.cluster.on_call = None
            unit = world.resource("a") or {}
            unit["metadata"]["annotations"]["by-hand"] = "yes"
            world.cluster.put(GPU_UNIT, unit)

    world.cluster.on_call = edit

    assert world.run(operation).reason == "Conflict"
    assert world.run(operation).phase == "Succeeded"
    assert (world.resource("a") or {})["spec"].get("suspend", False) is (what == "stop")


def test_gate_stays_open_while_an_operation_waits_for_stock(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a")
    world.drop_stock(stock_rows()[0])
    world.run(operation)

    assert gate.is_closed() is False
    release(operation)
    assert world.cluster.names(DEPLOYMENT) == []
