"""Concurrent changes of the phase of a tenant and writes of the tenant, on PostgreSQL."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gpuplatform.errors import InUse, TenantSuspended
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenants.services.tenants import tenant_suspend
from tests.db.tenants.conftest import Tenants
from tests.db.tenants.test_suspension import create
from tests.factories.unit_rows import catalogued, stock_row
from tests.fakes.threads import at_once
from units.models import GpuUnit
from units.services.matcher import match
from units.waiting import requests_open

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

Job = Callable[[], object]
MANY = 12
ROUNDS = 4


def kinds(results: list[Any]) -> Counter[str]:
    return Counter(type(one).__name__ for one in results)


def test_no_unit_escapes_a_suspension_during_creations(tenants: Tenants) -> None:
    row = tenants.create()
    for _ in range(MANY * ROUNDS):
        stock_row()
    for number in range(ROUNDS):
        creations = [partial(create, row, f"unit-{number}-{one}") for one in range(MANY)]
        suspend = partial(tenants.ask, "suspend", operation_id=f"suspend-{number}")

        results: list[Any] = at_once([*creations, suspend])

        assert isinstance(results[-1], Accepted), results[-1]
        assert set(kinds(results[:-1])) <= {"Operation", "TenantSuspended"}, results
        tenants.finish(results[-1].operation)
        accepted = Operation.objects.filter(tenant=row, kind="unit.create")
        stopped = Operation.objects.filter(tenant=row, kind="unit.stop")
        names = set(accepted.values_list("object_name", flat=True))
        assert names == set(stopped.values_list("object_name", flat=True))
        assert names == set(GpuUnit.objects.filter(tenant=row).values_list("name", flat=True))
        tenants.finish(tenants.ask("resume", operation_id=f"resume-{number}").operation)


def test_a_deletion_and_a_creation_exclude_each_other(tenants: Tenants) -> None:
    for number in range(ROUNDS):
        name = f"acme-{number}"
        row = tenants.create(name)
        stock_row()
        creation: Job = partial(create, row, f"unit-{number}")
        deletion: Job = partial(tenants.ask, "request_deletion", name)

        created, deleted = at_once([creation, deletion])

        is_created = isinstance(created, Operation)
        assert isinstance(deleted, InUse) == is_created, (created, deleted)
        assert isinstance(created, TenantSuspended) == isinstance(deleted, Accepted)
        phase = Tenant.objects.get(name=name).phase
        assert phase == (TenantPhase.ACTIVE if is_created else TenantPhase.DELETING)
        assert GpuUnit.objects.filter(tenant=row).exists() == is_created


def test_concurrent_suspensions_and_resumptions_end_without_a_deadlock(tenants: Tenants) -> None:
    tenants.create()
    verbs = ["suspend", "resume"] * 4

    results = at_once(
        [
            partial(tenants.ask, verb, operation_id=f"{verb}-{number}")
            for number, verb in enumerate(verbs)
        ]
    )

    assert kinds(results) == {"Accepted": len(verbs)}
    newest = Operation.objects.filter(object_kind="Tenant").order_by("-id")[0]
    wanted = TenantPhase.SUSPENDED if newest.kind == "tenant.suspend" else TenantPhase.ACTIVE
    assert tenants.row().phase == wanted


def test_two_equal_suspensions_are_one_operation(tenants: Tenants) -> None:
    tenants.create()

    results = at_once([partial(tenants.ask, "suspend")] * MANY)

    assert Counter(one.is_replay for one in results if isinstance(one, Accepted)) == {
        False: 1,
        True: MANY - 1,
    }


def test_tenants_that_suspend_each_other_do_not_deadlock(tenants: Tenants) -> None:
    for number in range(ROUNDS):
        one, two = (tenants.create(f"{name}-{number}") for name in ("one", "two"))

        results = at_once(
            [
                partial(tenant_suspend, tenant=caller, name=target.name, operation_id="suspend")
                for caller, target in ((one, two), (two, one))
            ]
        )

        assert kinds(results) == {"Accepted": 1, "TenantSuspended": 1}, results


def test_a_grant_and_a_suspension_exclude_each_other(tenants: Tenants) -> None:
    for number in range(ROUNDS):
        row, spec_name = tenants.create(f"acme-{number}"), f"g{number}"
        catalogued(spec_name)
        create(row, f"unit-{number}", specName=spec_name, wait={"maxSeconds": 3600})
        stock_row(spec_name=spec_name)
        suspend: Job = partial(tenants.ask, "suspend", row.name)
        grant: Job = partial(match, spec_name)

        _, accepted = at_once([grant, suspend])

        assert isinstance(accepted, Accepted), accepted
        tenants.finish(accepted.operation)
        stops = Operation.objects.filter(tenant=row, kind="unit.stop").count()
        assert stops == (0 if requests_open(spec_name).exists() else 1)
