"""Stop, update and delete affect exactly the created unit, in order of acceptance."""

import pytest

from gpuplatform.errors import StaleEtag
from gpuplatform.kube.errors import ClusterRejected
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.registry import kind_names
from gpuplatform.operations.selectors import operations_due
from gpuplatform.operations.versions import version_of
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from tests.fakes.unit_world import NAMESPACE, UnitWorld, state, stock_rows, unit_row
from units.core.sources import source_of
from units.models import GpuUnit, UnitHistory
from units.records import Records
from units.requests import StockSeed
from units.services.stock import stock_seed

pytestmark = pytest.mark.django_db

REFUSED = ClusterRejected("spec: Invalid", reason="Invalid", status=422)


@pytest.fixture
def running(world: UnitWorld) -> UnitWorld:
    """A platform with the unit `a`, and one more stock unit."""
    world.seed(2)
    world.create("a")
    world.work()
    assert unit_row("a").phase == "Ready"
    return world


def replaced_at(world: UnitWorld, verb: str) -> None:
    """Replace the unit as with kubectl, immediately before the call with this verb."""

    def replace(called: str, kind: object) -> None:
        if called == verb and kind == GPU_UNIT:
            world.cluster.on_call = None
            world.cluster.remove(GPU_UNIT, "a", namespace=NAMESPACE)
            world.by_hand("a")

    world.cluster.on_call = replace


def test_a_stop_releases_the_gpus_and_keeps_the_unit(running: UnitWorld) -> None:
    operation = running.run(running.stop("a"))
    running.work()

    assert operation.phase == "Succeeded"
    assert (unit_row("a").phase, unit_row("a").is_suspended) == ("Stopped", True)
    assert running.pods("a") == 0


def test_a_stop_of_a_deleted_unit_succeeds(running: UnitWorld) -> None:
    operation = running.stop("a")
    running.cluster.remove(GPU_UNIT, "a", namespace=NAMESPACE)

    assert running.run(operation).phase == "Succeeded"


def test_a_stop_of_a_unit_deleted_concurrently_succeeds(running: UnitWorld) -> None:
    operation = running.stop("a")

    def remove(verb: str, kind: object) -> None:
        if verb == "patch":
            running.cluster.on_call = None
            running.cluster.remove(GPU_UNIT, "a", namespace=NAMESPACE)

    running.cluster.on_call = remove

    assert running.run(operation).phase == "Succeeded"


def test_a_stop_never_fails(running: UnitWorld) -> None:
    operation = running.stop("a")
    running.cluster.fail("patch", GPU_UNIT, REFUSED)

    assert (running.run(operation).phase, state(operation).reason) == (
        "Pending",
        "ClusterRejected",
    )
    assert running.run(operation).phase == "Succeeded"


def test_recorduid_a_stop_leaves_the_next_unit_of_that_name_alone(running: UnitWorld) -> None:
    operation = running.stop("a")
    running.cluster.remove(GPU_UNIT, "a", namespace=NAMESPACE)
    running.by_hand("a")

    assert running.run(operation).phase == "Succeeded"
    assert "suspend" not in (running.resource("a") or {})["spec"]


def test_a_deletion_frees_the_name_when_the_unit_is_deleted(
    running: UnitWorld,
) -> None:
    operation = running.run(running.delete("a"))
    running.work()

    assert operation.phase == "Succeeded"
    assert running.resource("a") is None
    assert unit_row("a").deleted_at is not None
    assert running.finish(running.create("a")).phase == "Succeeded"


@pytest.mark.parametrize("verb", ["get", "delete"])
def test_uidunit_a_deletion_never_deletes_the_next_unit_of_that_name(
    running: UnitWorld, verb: str
) -> None:
    operation = running.delete("a")
    replaced_at(running, verb)

    assert running.finish(operation).phase == "Succeeded"
    assert running.resource("a") is not None


def test_an_update_changes_only_the_given_fields(running: UnitWorld) -> None:
    ports = [{"name": "web", "port": 80}]
    operation = running.run(running.update("a", template={"ports": ports}))

    spec = (running.resource("a") or {})["spec"]
    assert operation.phase == "Succeeded"
    assert spec["template"] == {"ports": ports}
    assert (spec["image"], spec["gpu"]) == ("example.com/a:1", 1)
    assert unit_row("a").spec == spec


def test_a_start_that_was_changed_later_began_with_its_stock(running: UnitWorld) -> None:
    running.run(running.stop("a"))
    running.work()
    running.run(running.start("a"))
    running.run(running.update("a", image="b:1"))
    unit = running.resource("a") or {}

    began = Records.of([unit]).claimed_at(unit)

    source = source_of(unit)
    assert source is not None
    assert began == GpuUnit.objects.get(uid=source.uid).consumed_at


def test_an_update_of_a_version_that_changed_after_it_was_accepted_fails(
    running: UnitWorld,
) -> None:
    row = unit_row("a")
    etag = version_of(row.uid, row.generation)
    operation = running.update("a", etag=etag, image="example.com/b:1")
    edited = {"spec": {"image": "example.com/c:1"}}
    running.cluster.merge_patch(GPU_UNIT, "a", edited, namespace=NAMESPACE)

    ended = running.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "stale_etag")
    assert (running.resource("a") or {})["spec"]["image"] == "example.com/c:1"


def test_an_update_of_a_version_is_refused_while_another_change_is_in_progress(
    running: UnitWorld,
) -> None:
    row = unit_row("a")
    etag = version_of(row.uid, row.generation)
    first = running.update("a", etag=etag, image="example.com/b:1")

    with pytest.raises(StaleEtag):
        running.update("a", etag=etag, image="example.com/c:1")
    assert running.run(first).phase == "Succeeded"
    with pytest.raises(StaleEtag):
        running.update("a", etag=etag, image="example.com/c:1")
    assert Operation.objects.filter(kind="unit.update").count() == 1


def test_an_update_of_a_deleted_unit_fails_with_not_found(running: UnitWorld) -> None:
    operation = running.update("a", image="example.com/b:1")
    running.cluster.remove(GPU_UNIT, "a", namespace=NAMESPACE)

    ended = running.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "not_found")


def test_an_update_that_has_become_invalid_fails(running: UnitWorld) -> None:
    with_port = running.update("a", template={"ports": [{"name": "web", "port": 80}]})
    running.run(with_port)
    operation = running.update("a", access={"primaryPort": "web"})
    unit = running.resource("a") or {}
    del unit["spec"]["template"]
    running.cluster.put(GPU_UNIT, unit)

    ended = running.run(operation)

    assert (ended.phase, ended.error_code) == ("Failed", "invalid_request")
    assert "primaryPort" in ended.error_message


def test_order_a_deletion_accepted_during_a_create_runs_after_it(world: UnitWorld) -> None:
    world.seed(1)
    create = world.create("a")
    delete = world.delete("a")

    assert operations_due(10, kind_names()) == [create.pk]
    assert driver.run(delete.pk) is None
    assert world.run(create).phase == "Succeeded"
    assert world.run(delete).phase == "Succeeded"
    world.work()

    assert world.cluster.names(GPU_UNIT) == []
    assert unit_row("a").deleted_at is not None
    assert stock_rows()[0].consumed_by == state(create).object_uid


def test_order_a_stop_accepted_during_the_hand_over_runs_after_it(world: UnitWorld) -> None:
    world.seed(1)
    create, stop = world.create("a"), world.stop("a")

    assert driver.run(stop.pk) is None
    world.work()

    assert [state(one).phase for one in (create, stop)] == ["Succeeded"] * 2
    assert (unit_row("a").phase, world.pods("a")) == ("Stopped", 0)


def test_order_stop_start_stop_ends_stopped_and_consumes_what_it_started_on(
    running: UnitWorld,
) -> None:
    asked = [running.stop("a"), running.start("a"), running.stop("a")]

    running.work(12)

    assert {state(one).phase for one in asked} <= {"Succeeded", "Failed"}
    assert state(asked[2]).phase == "Succeeded"
    assert unit_row("a").phase == "Stopped"
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 0


def test_a_deletion_ends_a_create_that_waits_for_stock(world: UnitWorld) -> None:
    world.seed(1)
    create = world.create("a")
    world.drop_stock(stock_rows()[0])
    world.run(create)
    delete = world.delete("a")

    assert world.run(create).error_code == "phase_conflict"
    assert world.run(delete).phase == "Succeeded"
    assert unit_row("a").deleted_at is not None


def test_a_change_of_a_unit_that_was_not_created_ends(world: UnitWorld) -> None:
    world.seed(1)
    create = world.create("a")
    asked = [world.update("a", image="example.com/b:1"), world.stop("a"), world.start("a")]
    asked.append(world.delete("a"))
    world.cluster.fail("create", GPU_UNIT, REFUSED)
    world.run(create)

    phases = [world.run(one).phase for one in asked]

    assert phases == ["Failed", "Succeeded", "Failed", "Succeeded"]
    assert world.cluster.names(GPU_UNIT) == [stock_rows()[0].name]
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 0


def test_a_deleted_unit_is_restocked_once_if_the_spec_requests_it(
    running: UnitWorld,
) -> None:
    GpuSpec.objects.update(restocks_on_delete=True)
    running.run(running.delete("a"))
    running.run(running.delete("a"))
    running.work()

    assert Operation.objects.filter(operation_id__startswith="restock-").count() == 1
    assert [row.phase for row in stock_rows() if not row.deleted_at] == ["Ready"] * 2


@pytest.mark.parametrize("is_known", [False, True], ids=["plain", "of another installation"])
def test_no_caller_can_prevent_the_restocking(running: UnitWorld, is_known: bool) -> None:
    """A caller knows the UID of a unit, but not the secret key of the platform."""
    GpuSpec.objects.update(restocks_on_delete=True)
    guess = f"restock-{unit_row('a').uid}" + "-0123456789abcdef" * is_known
    body = {"operationID": guess, "specName": "g1.1", "replicas": 3}
    stock_seed(tenant=tenant_by_name(), body=StockSeed.parse(body))

    running.run(running.delete("a"))

    restocked = Operation.objects.filter(operation_id__startswith="restock-", progress_total=1)
    assert restocked.count() == 1


def test_a_stopped_unit_is_not_restocked(running: UnitWorld) -> None:
    GpuSpec.objects.update(restocks_on_delete=True)
    running.stop("a")
    running.work()

    running.delete("a")
    running.work()

    assert not Operation.objects.filter(operation_id__startswith="restock-").exists()


def test_a_start_of_a_terminating_unit_consumes_no_stock(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.finish(world.stop("a"))
    world.work()
    start = world.start("a")
    unit = world.resource("a") or {}
    unit["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    world.cluster.put(GPU_UNIT, unit)

    ended = world.finish(start)

    assert (ended.phase, ended.error_code) == ("Failed", "not_found")
    assert [bool(row.consumed_by) for row in stock_rows()] == [True, False]
    assert stock_rows()[1].claimed_by is None


def test_the_history_names_the_operation_behind_each_change(running: UnitWorld) -> None:
    running.finish(running.update("a", image="example.com/b:1"))
    running.work()
    running.finish(running.stop("a"))
    running.work()
    running.finish(running.start("a"))
    running.work()

    rows = UnitHistory.objects.filter(unit=unit_row("a")).order_by("id")
    operations = [row.operation for row in rows if row.operation]

    assert len(operations) == len(rows)
    kinds = list(dict.fromkeys(operation.kind for operation in operations))
    assert kinds == ["unit.create", "unit.update", "unit.stop", "unit.start"]
    assert [one.pk for one in operations] == sorted(one.pk for one in operations)


def test_a_change_with_kubectl_is_no_operations(running: UnitWorld) -> None:
    running.finish(running.update("a", image="example.com/b:1"))
    running.work()
    known = UnitHistory.objects.filter(unit=unit_row("a")).count()

    edited = {"spec": {"image": "example.com/c:1"}}
    running.cluster.merge_patch(GPU_UNIT, "a", edited, namespace=NAMESPACE)
    running.work()

    later = UnitHistory.objects.filter(unit=unit_row("a")).order_by("id")[known:]
    assert [row.operation for row in later] == [None] * len(later)
    assert len(later) > 0
