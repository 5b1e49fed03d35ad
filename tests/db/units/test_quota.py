"""The limits of tenants for units: what counts, what is rejected, and what waits."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from gpuplatform.errors import QuotaExceeded, QuotaShortage
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.tenancy.quota import Usage, usage_of
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.gpu_counts import held
from tests.factories.limits import limit, limit_all
from tests.factories.unit_rows import spec_row, stock_row
from tests.fakes.preemption import SPEC, ask, end_notices, run_matcher, run_preemptible
from tests.fakes.unit_world import UnitWorld, state, unit_row
from units.consistency import unit_inconsistencies
from units.models import CapacityRequest, GpuUnit, PreemptionNotice
from units.phases import QueueCause, RequestPhase, UnitPhase, UnitReason, UnitRole
from units.queue_entries import queue_entries
from units.recovery import recover_units
from units.selectors import units_live
from units.services import matcher
from units.waiting import spec_queue
from units.waiting_display import show_waiting, shown_with

pytestmark = pytest.mark.django_db

WAIT = {"wait": {"maxSeconds": 600}}


def rejected(call: Callable[[], object]) -> tuple[QuotaShortage, ...]:
    """Return the values of the rejection. It leaves no operation and no unit."""

    def rows() -> tuple[int, int, int]:
        claims = GpuUnit.objects.filter(claimed_by__isnull=False)
        return Operation.objects.count(), GpuUnit.objects.count(), claims.count()

    before = rows()
    with pytest.raises(QuotaExceeded) as raised:
        call()
    assert rows() == before
    return raised.value.quota


def used(resource: str) -> Usage:
    tenant = tenant_by_name().pk
    return usage_of([tenant])[tenant].get(resource, Usage())


def reasons() -> dict[str, str]:
    rows = list(units_live(UnitRole.ACTIVE))
    show_waiting(rows)
    return {row.name: row.reason for row in rows}


def test_a_create_beyond_a_limit_is_rejected_with_the_values(world: UnitWorld) -> None:
    world.seed(3)
    limit(gpus=1)
    world.create("a")

    assert rejected(lambda: world.create("b")) == (QuotaShortage("gpus", 1, 0, 1, 1),)
    assert rejected(lambda: world.create("b")) == (QuotaShortage("gpus", 1, 0, 1, 1),)


def test_the_limit_of_a_gpu_spec_does_not_limit_another_one(world: UnitWorld) -> None:
    world.seed(1)
    world.seed(1, "g2.1")
    limit_all(tenant_by_name(), {"gpus": 2, "gpus.g1.1": 0})

    assert rejected(lambda: world.create("a")) == (QuotaShortage("gpus.g1.1", 0, 0, 0, 1),)
    world.create("b", specName="g2.1")
    assert used("gpus.g2.1") == Usage(1)


@pytest.mark.parametrize("resource", ["units", "openOperations"])
def test_a_waiting_unit_counts_to_units_and_operations_but_not_to_gpus(
    world: UnitWorld, resource: str
) -> None:
    world.create("waits", **WAIT)
    limit_all(tenant_by_name(), {resource: 1})

    assert used("gpus") == Usage()
    assert used(resource) == Usage(1)
    assert rejected(lambda: world.create("b", **WAIT)) == (QuotaShortage(resource, 1, 0, 1, 1),)
    world.delete("waits")


def test_gpus_count_until_the_pods_are_observed_absent(world: UnitWorld) -> None:
    world.seed(2)
    limit(gpus=1)
    world.create("a")
    world.work()
    assert used("gpus") == Usage(1)

    world.finish(world.stop("a"))
    assert used("gpus") == Usage(1, releasing=1)
    assert rejected(lambda: world.create("b")) == (QuotaShortage("gpus", 1, 1, 1, 1),)
    world.work()
    assert used("gpus") == Usage()

    world.create("b")
    world.work()
    world.delete("b")
    assert used("gpus") == Usage(1, releasing=1)
    world.work()
    assert unit_row("a").phase == UnitPhase.STOPPED
    assert used("gpus") == Usage()
    assert list(unit_inconsistencies(world.cluster)) == []


def test_a_unit_counts_between_its_start_and_the_next_reconciliation(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    limit(gpus=1)

    start = world.start("a")
    assert used("gpus") == Usage(1)
    assert world.finish(start).phase == OperationPhase.SUCCEEDED
    assert unit_row("a").phase == UnitPhase.STOPPED
    assert held([start.tenant_id]) == {start.tenant_id: 1}
    world.work()
    assert used("gpus") == Usage(1)


def test_a_reconciliation_of_the_stopped_unit_does_not_clear_a_later_start(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    start = world.start("a")
    began: list[str] = []

    def start_meanwhile(verb: str, _: object) -> None:
        if verb == "list" and not began:
            began.append(verb)
            world.finish(start)

    world.cluster.on_call = start_meanwhile
    world.reconcile()
    world.cluster.on_call = None

    assert began
    assert held([start.tenant_id]) == {start.tenant_id: 1}


def test_a_failed_start_releases_what_it_reserved_only(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.finish(world.stop("a"))
    start = world.start("a")
    assert used("gpus").used == 1

    Operation.objects.filter(pk=start.pk).update(starts=11)
    assert world.run(start).phase == OperationPhase.FAILED
    assert used("gpus") == Usage(1, releasing=1)
    world.work()
    assert used("gpus") == Usage()


def test_a_request_that_waits_for_quota_is_granted_when_gpus_are_released(
    world: UnitWorld,
) -> None:
    world.seed(3)
    limit(gpus=1)
    world.create("a")
    world.work()

    waiting = world.create("b", **WAIT)
    later = world.create("c", **WAIT)
    world.work()

    assert state(waiting).phase == OperationPhase.PENDING
    assert reasons()["b"] == UnitReason.WAITING_FOR_QUOTA
    assert [one.cause for one in queue_entries()] == [QueueCause.WAITING_FOR_QUOTA] * 2
    shown = shown_with(units_live(UnitRole.ACTIVE), (), (UnitReason.WAITING_FOR_QUOTA,))
    assert {row.name for row in shown} == {"b", "c"}
    others = shown_with(units_live(UnitRole.ACTIVE), (), (UnitReason.WAITING_FOR_CAPACITY,))
    assert not others.exists()

    world.delete("a")
    world.work()
    assert state(waiting).phase == OperationPhase.SUCCEEDED
    assert state(later).phase == OperationPhase.PENDING
    limit(gpus=2)
    world.work()
    assert state(later).phase == OperationPhase.SUCCEEDED


def test_a_request_for_more_than_the_limit_never_waits(world: UnitWorld) -> None:
    spec_row(SPEC, gpu=2)
    limit(gpus=1)

    assert rejected(lambda: world.create("a", **WAIT)) == (QuotaShortage("gpus", 0, 0, 1, 2),)


def test_stock_with_more_gpus_than_the_catalogue_is_not_claimed_beyond_a_limit(
    world: UnitWorld,
) -> None:
    world.seed(1)
    GpuUnit.objects.update(gpu=4)
    limit(gpus=2)

    assert rejected(lambda: world.create("a")) == (QuotaShortage("gpus", 0, 0, 2, 4),)


def test_a_lower_limit_stops_nothing_and_nothing_new_starts(world: UnitWorld) -> None:
    world.seed(3)
    world.create("a")
    world.create("b")
    world.work()
    world.stop("b")
    world.work()

    limit(gpus=0, units=0)
    world.work()
    assert unit_row("a").phase == UnitPhase.READY
    assert {one.resource for one in rejected(lambda: world.create("c"))} == {"units"}
    limit(gpus=1)
    start = world.start("b")  # A start waits.
    world.work()
    assert state(start).phase == OperationPhase.PENDING
    assert reasons()["b"] == UnitReason.WAITING_FOR_QUOTA
    world.delete("a")
    world.work()
    assert state(start).phase == OperationPhase.SUCCEEDED


def test_a_group_counts_as_a_whole(world: UnitWorld) -> None:
    world.seed(4)
    limit(gpus=3)
    world.create("a")

    shortage = QuotaShortage("gpus", 1, 0, 3, 3)
    assert rejected(lambda: world.create_group("team", 3)) == (shortage,)
    waiting = world.create_group("team", 3, **WAIT)
    world.work()
    assert state(waiting).phase == OperationPhase.PENDING
    assert held([waiting.tenant_id]) == {waiting.tenant_id: 1}
    assert set(reasons().values()) == {UnitReason.UNIT_READY, UnitReason.WAITING_FOR_QUOTA}

    world.delete("a")
    world.work()
    assert state(waiting).phase == OperationPhase.SUCCEEDED
    assert held([waiting.tenant_id]) == {waiting.tenant_id: 3}


def test_a_group_larger_than_the_limit_of_units_is_rejected(world: UnitWorld) -> None:
    limit(units=2)

    shortage = QuotaShortage("units", 0, 0, 2, 3)
    assert rejected(lambda: world.create_group("team", 3, **WAIT)) == (shortage,)


def test_a_grant_checks_the_limits_again(world: UnitWorld) -> None:
    request = ask("one")
    stock_row()
    queue = spec_queue(SPEC)
    found = queue.next_grant().request
    assert found is not None
    limit(request.tenant, gpus=0)

    with pytest.raises(matcher._Overtaken), transaction.atomic():
        matcher._grant(found, GpuUnit.objects.filter(role=UnitRole.STOCK))

    assert matcher.match(SPEC) == 0
    request.refresh_from_db()
    assert request.phase == RequestPhase.OPEN


def test_stock_is_not_held_for_a_request_beyond_a_limit(world: UnitWorld) -> None:
    first = world.create_group("team", 3, **WAIT)
    stock_row()
    limit(gpus=2)

    assert matcher.match(SPEC) == 0

    assert CapacityRequest.objects.get(operation=first).hold_begun_at is None


@pytest.mark.parametrize("gpus", [0, 1])
def test_units_are_stopped_only_for_a_request_within_its_limits(
    world: UnitWorld, gpus: int
) -> None:
    run_preemptible(world, "victim")
    request = ask("important", "b")
    limit(request.tenant, gpus=gpus)

    run_matcher()
    assert PreemptionNotice.objects.count() == gpus
    end_notices()
    run_matcher()
    stops = Operation.objects.filter(kind="unit.stop")
    assert stops.count() == gpus


def test_a_difference_between_rows_and_cluster_is_found(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.create("b")
    world.work()
    world.stop("b")
    world.work()
    assert list(unit_inconsistencies(world.cluster)) == []

    GpuUnit.objects.filter(name="b").update(gpus_seen=1)
    found = [(one.kind, one.name) for one in unit_inconsistencies(world.cluster)]
    assert found == [("miscounted", "runtime-instance/b")]
    world.reconcile()
    assert list(unit_inconsistencies(world.cluster)) == []


def test_a_recovery_counts_the_gpus_that_an_older_database_did_not(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.create("b")
    world.work()
    world.stop("b")
    world.work()
    GpuUnit.objects.update(gpus_seen=0)

    list(recover_units(world.cluster, dry_run=False))

    tenant = tenant_by_name().pk
    assert held([tenant]) == {tenant: 1}


def test_a_tenant_without_limits_is_not_locked_and_nothing_is_counted(
    world: UnitWorld,
) -> None:
    world.seed(1)
    limit(tokens=1)

    with CaptureQueriesContext(connection) as captured:
        world.create("a")

    statements = [one["sql"] for one in captured]
    assert not any("tenancy_tenant" in one and "FOR NO KEY UPDATE" in one for one in statements)
    assert not any("gpus_seen > 0" in one for one in statements)
    assert sum("tenancy_tenantlimit" in one for one in statements) == 1
