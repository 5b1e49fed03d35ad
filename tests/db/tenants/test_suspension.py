"""A suspended tenant begins nothing, and its units are stopped by ordinary operations."""

from typing import Any

import pytest

from gpuplatform.errors import TenantSuspended
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenants.services.suspension import BATCH
from tests.db.tenants.conftest import Tenants
from tests.factories.unit_rows import catalogued
from units.models import CapacityRequest, GpuUnit
from units.requests import GpuUnitCreate, UnitGroupCreate, Wait
from units.services.groups import group_create
from units.services.units import unit_create, unit_request_deletion, unit_start, unit_stop

pytestmark = pytest.mark.django_db

WAIT = Wait.parse({"maxSeconds": 3600})


def create(tenant: Tenant, name: str, **fields: Any) -> Operation:
    catalogued("g1.1")
    body = {"operationID": f"create-{name}", "name": name, "specName": "g1.1", "image": "a:1"}
    return unit_create(tenant=tenant, body=GpuUnitCreate.parse({**body, **fields})).operation


def group(tenant: Tenant, **fields: Any) -> Operation:
    catalogued("g1.1")
    unit = {"specName": "g1.1", "image": "a:1"}
    body = {"operationID": "group", "name": "team", "size": 2, "unit": unit, **fields}
    return group_create(tenant=tenant, body=UnitGroupCreate.parse(body)).operation


def suspended(tenants: Tenants) -> Operation:
    operation = tenants.ask("suspend").operation
    tenants.finish(operation)
    tenants.world.work()
    return operation


def test_running_and_created_units_are_stopped_and_waiting_ones_are_not(tenants: Tenants) -> None:
    row = tenants.create()
    tenants.world.seed(2)
    create(row, "running")
    tenants.world.work()
    create(row, "accepted")
    create(row, "waiting", wait={"maxSeconds": 3600})

    operation = suspended(tenants)

    found = dict(GpuUnit.objects.filter(tenant=row).values_list("name", "phase"))
    assert found == {"running": "Stopped", "accepted": "Stopped", "waiting": "Pending"}
    stops = Operation.objects.filter(tenant=row, kind="unit.stop")
    assert sorted(stops.values_list("object_name", flat=True)) == ["accepted", "running"]
    assert CapacityRequest.objects.get().phase == "Open"
    operation.refresh_from_db()
    assert (operation.phase, operation.progress_done) == ("Succeeded", operation.progress_total)


def test_a_unit_that_is_being_started_is_stopped(tenants: Tenants) -> None:
    row = tenants.create()
    tenants.world.seed(2)
    create(row, "one")
    tenants.world.work()
    unit_stop(tenant=row, name="one", operation_id="stop")
    tenants.world.work()
    unit_start(tenant=row, name="one", operation_id="start")

    suspended(tenants)

    assert GpuUnit.objects.get(name="one").phase == "Stopped"


@pytest.mark.parametrize("is_created", [True, False], ids=["running", "accepted"])
def test_the_units_of_a_group_are_stopped(tenants: Tenants, *, is_created: bool) -> None:
    row = tenants.create()
    tenants.world.seed(2)
    group(row)
    if is_created:
        tenants.world.work()

    operation = suspended(tenants)

    phases = GpuUnit.objects.filter(tenant=row).values_list("phase", flat=True)
    assert list(phases) == ["Stopped", "Stopped"]
    operation.refresh_from_db()
    assert operation.phase == "Succeeded"


def test_a_suspension_does_not_wait_for_a_group_that_waits_for_stock(tenants: Tenants) -> None:
    row = tenants.create()
    group(row, wait={"maxSeconds": 3600})

    operation = suspended(tenants)

    operation.refresh_from_db()
    assert operation.phase == "Succeeded"
    assert CapacityRequest.objects.get().phase == "Open"


def test_a_waiting_start_of_a_unit_that_is_being_stopped_is_kept(tenants: Tenants) -> None:
    row = tenants.create()
    tenants.world.seed(1)
    create(row, "one")
    tenants.world.work()
    unit_stop(tenant=row, name="one", operation_id="stop")
    unit_start(tenant=row, name="one", operation_id="start", wait=WAIT)

    suspended(tenants)

    assert GpuUnit.objects.get(name="one").phase == "Stopped"
    assert CapacityRequest.objects.get().phase == "Open"
    assert Operation.objects.filter(kind="unit.stop").count() == 1


def test_more_units_than_a_batch_are_stopped(tenants: Tenants) -> None:
    row = tenants.create()
    tenants.world.seed(BATCH + 1)
    for number in range(BATCH + 1):
        create(row, f"unit-{number}")

    suspended(tenants)

    stops = Operation.objects.filter(tenant=row, kind="unit.stop")
    assert stops.count() == BATCH + 1


def test_a_suspended_tenant_begins_nothing_and_can_end_everything(tenants: Tenants) -> None:
    row = tenants.create()
    tenants.world.seed(2)
    create(row, "one")
    suspended(tenants)
    before = Operation.objects.count()

    with pytest.raises(TenantSuspended):
        create(row, "two")
    with pytest.raises(TenantSuspended):
        unit_start(tenant=row, name="one", operation_id="start")
    assert Operation.objects.count() == before
    assert not GpuUnit.objects.filter(name="two").exists()

    unit_request_deletion(tenant=row, name="one", operation_id="delete")
    tenants.world.work()
    assert GpuUnit.objects.get(name="one").deleted_at is not None


def test_a_waiting_request_is_granted_after_the_resumption_only(tenants: Tenants) -> None:
    row = tenants.create()
    create(row, "waiting", wait={"maxSeconds": 3600})
    suspended(tenants)
    tenants.world.seed(1)
    assert CapacityRequest.objects.get().phase == "Open"

    tenants.finish(tenants.ask("resume").operation)
    tenants.world.work()

    assert GpuUnit.objects.get(name="waiting").phase == "Ready"


def test_a_resumption_starts_no_unit(tenants: Tenants) -> None:
    row = tenants.create()
    tenants.world.seed(2)
    create(row, "one")
    suspended(tenants)

    tenants.finish(tenants.ask("resume").operation)
    tenants.world.work()

    assert GpuUnit.objects.get(name="one").phase == "Stopped"
    assert tenants.row().phase == TenantPhase.ACTIVE


def test_a_resumption_ends_a_suspension_that_has_not_stopped_the_units(tenants: Tenants) -> None:
    row = tenants.create()
    tenants.world.seed(1)
    create(row, "one")
    tenants.world.work()
    suspension = tenants.ask("suspend").operation
    tenants.ask("resume")

    tenants.finish(suspension)
    tenants.world.work()

    assert GpuUnit.objects.get(name="one").phase == "Ready"
    assert not Operation.objects.filter(kind="unit.stop").exists()


def test_the_weight_divides_the_share_in_the_queue(tenants: Tenants) -> None:
    light, heavy = tenants.create("light"), tenants.create("heavy", weight=4)
    tenants.world.seed(2)
    for tenant in (light, heavy):
        create(tenant, f"{tenant}-running")
    for tenant in (light, heavy):
        create(tenant, f"{tenant}-waiting", wait={"maxSeconds": 3600})
    tenants.world.work()

    tenants.world.seed(1)

    ready = GpuUnit.objects.filter(name__endswith="-waiting", phase="Ready")
    assert list(ready.values_list("name", flat=True)) == ["heavy-waiting"]
