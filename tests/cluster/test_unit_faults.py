"""The hand-over with a failing connection to the API server: same result, no duplicates."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from tests.cluster.pools import Pools
from tests.cluster.tenant_units import Units
from tests.fakes.fault_proxy import FaultProxy
from tests.fakes.faults import Cut, Fault, Hold, Refuse, Rule
from units.comparison import delete_leftovers
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE
from units.services.stock import stock_remove

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

FAULTS: dict[str, Fault] = {
    "lost before the server knew": Cut(),
    "lost after the server acted": Cut(is_after=True),
    "answered with 500": Refuse(500, "InternalError"),
    "answered with 409": Refuse(409, "Conflict"),
}
CALLS = {
    "the read of the unit": Rule(Cut(), verbs=("get",), resource="gpuunits"),
    "the read of the stock": Rule(Cut(), verbs=("get",), resource="gpuunits", skip=1),
    "the POST of the unit": Rule(Cut(), verbs=("create",), resource="gpuunits"),
    "the deletion of the stock": Rule(Cut(), verbs=("delete",), resource="gpuunits"),
    "the POST of the Deployment": Rule(Cut(), verbs=("create",), resource="deployments"),
    "the list of the pods": Rule(Cut(), verbs=("list",), resource="pods"),
}
LEASE_IS_OVER = timedelta(seconds=-1)


def resources(units: Units, namespace: str) -> set[str]:
    found = units.cluster.list(GPU_UNIT, namespace=namespace).items
    return {one["metadata"]["uid"] for one in found}


def fault_at(call: str, fault: str) -> Rule:
    rule = CALLS[call]
    return Rule(FAULTS[fault], verbs=rule.verbs, resource=rule.resource, skip=rule.skip)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", FAULTS)
def test_one_call_that_fails_during_a_hand_over_changes_nothing_in_the_end(
    units: Units, proxy: FaultProxy, call: str, fault: str
) -> None:
    first, second = units.seed(2)
    rule = fault_at(call, fault)
    proxy.add(rule)

    ended = units.create("a")
    row = units.settle("a", "Ready")
    units.until(lambda: units.live(GPU_UNIT, first) is None)

    first.refresh_from_db()
    second.refresh_from_db()
    assert rule.hits == 1
    assert ended.phase == "Succeeded"
    assert resources(units, units.namespace) == {ended.object_uid} == {row.uid}
    assert (first.consumed_by, second.consumed_by, second.claimed_by) == (row.uid, "", None)
    assert second.phase == "Ready"
    assert resources(units, STOCK_NAMESPACE) == {second.uid}
    assert len(units.cluster.list(DEPLOYMENT, namespace=units.namespace).items) == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_one_post_that_fails_during_a_seeding_makes_nothing_twice(
    units: Units, proxy: FaultProxy, fault: str
) -> None:
    rule = Rule(FAULTS[fault], verbs=("create",), resource="gpuunits", skip=1)
    proxy.add(rule)

    rows = units.seed(3)

    assert rule.hits == 1
    assert resources(units, STOCK_NAMESPACE) == {row.uid for row in rows}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_patch_that_fails_during_a_start_consumes_once(
    units: Units, proxy: FaultProxy, fault: str
) -> None:
    first, second, third = units.seed(3)
    units.create("a")
    units.settle("a", "Ready")
    units.stop("a")
    units.settle("a", "Stopped")
    rule = Rule(FAULTS[fault], verbs=("patch",), resource="gpuunits")
    proxy.add(rule)

    assert units.start("a").phase == "Succeeded"
    row = units.settle("a", "Ready")

    assert rule.hits == 1
    for stock in (first, second, third):
        stock.refresh_from_db()
    assert [stock.consumed_by for stock in (first, second, third)] == [row.uid, row.uid, ""]
    assert third.claimed_by is None


@pytest.mark.parametrize("fault", FAULTS)
def test_one_deletion_that_fails_during_a_removal_removes_exactly_so_many(
    units: Units, proxy: FaultProxy, fault: str
) -> None:
    rows = units.seed(3)
    rule = Rule(FAULTS[fault], verbs=("delete",), resource="gpuunits", skip=1)
    proxy.add(rule)

    removal = stock_remove(tenant=units.tenant, operation_id="remove", spec_name="g1.1", number=2)
    assert units.finish(removal).phase == "Succeeded"

    assert rule.hits == 1
    assert resources(units, STOCK_NAMESPACE) == {rows[0].uid}


@pytest.mark.parametrize("is_deleted", [False, True], ids=["unit is there", "unit was deleted"])
def test_a_post_that_wakes_up_late_makes_no_second_unit(
    units: Units, proxy: FaultProxy, is_deleted: bool
) -> None:
    """Its worker lost the lease; another one finished, and the unit may no longer exist."""
    first, second = units.seed(2)
    accepted = units.accept("a")
    gate = threading.Event()
    held = Rule(Hold(gate), verbs=("create",), resource="gpuunits")
    proxy.add(held)
    late = threading.Thread(target=_run_elsewhere, args=(accepted.operation.pk,), daemon=True)
    late.start()
    Pools.wait(lambda: held.hits == 1, lambda: "the POST was not sent")
    Operation.objects.filter(pk=accepted.operation.pk).update(
        lease_expires_at=Now() + LEASE_IS_OVER
    )

    ended = units.finish(accepted)
    units.settle("a", "Ready")
    if is_deleted:
        units.delete("a")
        units.until(lambda: units.row("a").deleted_at)
    gate.set()
    late.join(30)
    units.tick()
    delete_leftovers(units.platform())
    units.tick()

    assert ended.phase == "Succeeded"
    assert resources(units, units.namespace) == (set() if is_deleted else {ended.object_uid})
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.consumed_by, second.consumed_by) == (ended.object_uid, "")
    assert second.claimed_by is None
    assert not Operation.objects.filter(phase__in=OPEN_PHASES).exists()
    assert GpuUnit.objects.filter(role="active").count() == 1


def _run_elsewhere(number: int) -> None:
    try:
        driver.run(number)
    finally:
        connection.close()
