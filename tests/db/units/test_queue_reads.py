"""The statements that read parts of a queue agree with the pure order of the whole queue."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from gpuplatform.tenancy.limit_models import TenantLimit
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from tests.factories.gpu_counts import held
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.preemption import SPEC, ask, create
from tests.fakes.unit_world import UnitWorld
from units import waiting
from units.core.queue import (
    QueueRequest,
    QueueTenant,
    eligible,
    in_order,
    lane,
    left_over,
    next_grant,
)
from units.models import CapacityRequest, GpuUnit
from units.queue_statements import free_stock, positions
from units.queue_tenants import queue_tenants
from units.selectors import claimable_stock
from units.waiting import places_of_units, spec_queue

pytestmark = pytest.mark.django_db

OTHER = "example.com/other"


@pytest.fixture(params=range(4))
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def fill(chance: random.Random, number: int = 24) -> dict[int, QueueTenant]:
    """Open requests of several tenants and classes; return arbitrary tenants."""
    spec_row(gpu=2)
    Tenant.objects.update(max_priority=100)
    for n in range(number):
        ask(f"u{n}", f"t{chance.randrange(4)}")
    for row in CapacityRequest.objects.all():
        CapacityRequest.objects.filter(pk=row.pk).update(
            requested_at=Now() - timedelta(seconds=chance.randrange(4)),
            count=chance.choice([1, 1, 2, 3]),
            priority=chance.choice([0, 0, 9]),
            is_preemptible=chance.random() < 0.3,
            resource_name=chance.choice(["", "", OTHER]),
        )
    return {
        tenant: QueueTenant(
            weight=chance.choice([1, 3]),
            held=chance.randrange(3),
            limit=chance.choice([None, 3, 6]),
            is_active=chance.random() < 0.8,
        )
        for tenant in CapacityRequest.objects.values_list("tenant_id", flat=True).distinct()
    }


def whole(free: list[int], others: list[int]) -> list[QueueRequest]:
    return [
        QueueRequest(
            number=row.pk,
            tenant=row.tenant_id,
            size=row.count,
            gpus=row.count * 2,
            priority=row.priority,
            is_preemptible=row.is_preemptible,
            requested_at=row.requested_at.timestamp(),
            fits=frozenset(others) if row.resource_name else None,
        )
        for row in CapacityRequest.objects.all()
    ]


def test_positions_are_those_of_the_pure_order(world: UnitWorld, chance: random.Random) -> None:
    tenants = fill(chance)
    requests = whole([], [])
    first = eligible(requests, tenants)
    line = first + [one for one in in_order(requests, tenants) if one not in first]

    found = positions({SPEC: tenants})

    assert [one.number for one in found] == [one.number for one in line]
    assert [one.position for one in found] == list(range(1, len(line) + 1))
    some = {one.number for one in line[3::5]}
    assert positions({SPEC: tenants}, some) == [one for one in found if one.number in some]


def test_the_first_rows_of_each_lane_decide_as_the_whole_queue(
    world: UnitWorld, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = fill(chance)
    free = [stock_row(gpu=2).pk for _ in range(chance.randrange(1, 6))]
    others = [stock_row(gpu=2, resource_name=OTHER).pk for _ in range(chance.randrange(2))]
    monkeypatch.setattr(
        waiting, "queue_tenants", lambda ids, _: {one: tenants[one] for one in ids}
    )
    requests, rows = whole(free, others), free + others
    last = QueueRequest(2**62, requests[0].tenant, gpus=2, priority=5)

    grant = spec_queue(SPEC).next_grant()
    part = spec_queue(SPEC, depth=None)

    assert grant == next_grant(requests, tenants, rows)
    assert part.left_over(last) == left_over(requests, tenants, rows, last)
    assert len(spec_queue(SPEC).requests) == len({lane(one) for one in requests})


def test_the_free_rows_are_the_claimable_stock(world: UnitWorld) -> None:
    spec_row(gpu=2)
    operation = ask("a").operation
    rows = [stock_row(gpu=2), stock_row(gpu=2, resource_name=OTHER)]
    for change in (
        {"phase": "Progressing"},
        {"claimed_by": operation},
        {"consumed_by": "x", "consumed_at": Now()},
        {"deletion_requested_at": Now()},
        {"deleted_at": Now()},
        {"spec_name": "another"},
        {"role": "active"},
    ):
        GpuUnit.objects.filter(pk=stock_row(gpu=2).pk).update(**change)

    found = free_stock(SPEC)

    claimable = claimable_stock(SPEC).values_list("id", "resource_name")
    assert found.rows == list(claimable) == [(row.pk, row.resource_name) for row in rows]
    assert (found.gpus, found.pause_until) == (2, 0.0)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_gpu_spec_decides_about_its_stock(world: UnitWorld, *, is_enabled: bool) -> None:
    spec_row()
    stock_row()
    end = datetime(2030, 1, 1, tzinfo=UTC)
    GpuSpec.objects.filter(name=SPEC).update(is_enabled=is_enabled, hold_pause_until=end)

    found = free_stock(SPEC)

    assert [row_id for row_id, _ in found.rows] == list(
        claimable_stock(SPEC).values_list("pk", flat=True)
    )
    assert len(found.rows) == is_enabled
    assert found.pause_until == end.timestamp()


def test_stock_of_a_gpu_spec_outside_the_catalogue_is_free(world: UnitWorld) -> None:
    row = stock_row(spec_name="uncatalogued")

    assert free_stock("uncatalogued") == (0, 0.0, [(row.pk, row.resource_name)])


def test_a_request_with_a_hold_is_read_behind_its_lane(world: UnitWorld) -> None:
    first, second = ask("one"), ask("two")
    CapacityRequest.objects.filter(pk=second.pk).update(hold_begun_at=Now())

    assert {one.number for one in spec_queue(SPEC).requests} == {first.pk, second.pk}


def test_the_number_of_statements_does_not_depend_on_the_queue(world: UnitWorld) -> None:
    counts = []
    for number in (1, 12):
        opened = [ask(f"w{number}-{n}") for n in range(number)]
        with CaptureQueriesContext(connection) as captured:
            places_of_units([opened[-1].unit_id])
        counts.append(len(captured))

    assert counts == [4, 4]


def test_the_order_has_the_values_of_each_tenant(world: UnitWorld) -> None:
    """The limit is the smaller one of all GPUs, and of the GPUs of the GPU spec and the others."""
    names = ("unlimited", "whole", "of-spec", "both", "suspended")
    tenants = {name: Tenant.objects.create(name=name, namespace=name) for name in names}
    limits = {
        "whole": {"gpus": 7, "units": 1},
        "of-spec": {f"gpus.{SPEC}": 4, "gpus.other": 1},
        "both": {"gpus": 9, f"gpus.{SPEC}": 4},
    }
    for name, hard in limits.items():
        for resource, number in hard.items():
            TenantLimit.objects.create(tenant=tenants[name], resource=resource, hard=number)
    for tenant in tenants.values():
        unit_row(tenant=tenant, spec_name=SPEC, gpu=2, gpus_seen=2)
        unit_row(tenant=tenant, spec_name="other", gpu=3, gpus_seen=3)
    Tenant.objects.filter(name="suspended").update(phase="Suspended", weight=4)

    found = queue_tenants([one.pk for one in tenants.values()], SPEC)

    assert {name: found[one.pk] for name, one in tenants.items()} == {
        "unlimited": QueueTenant(held=5),
        "whole": QueueTenant(held=5, limit=7),
        "of-spec": QueueTenant(held=5, limit=3 + 4),
        "both": QueueTenant(held=5, limit=7),
        "suspended": QueueTenant(held=5, weight=4, is_active=False),
    }
    assert queue_tenants([], SPEC) == {}


def test_claimed_stock_and_units_that_hold_gpus_count(world: UnitWorld) -> None:
    stock_row()
    owner = Tenant.objects.create(name="a", namespace="tenant-a")
    create(owner, "claims")
    for phase, changes in (
        ("Ready", {"gpu": 2, "gpus_seen": 2}),
        ("Failed", {"gpu": 4, "gpus_seen": 4}),
        ("Stopped", {"gpu": 8}),
        ("Succeeded", {"gpu": 16, "is_ended": True}),
        ("Ready", {"gpu": 32, "gpus_seen": 32, "deleted_at": Now()}),
    ):
        unit_row(phase, tenant=owner, **changes)

    # The pods of a unit count until they are observed absent, whether its row is closed or not.
    assert held([owner.pk, tenant_by_name().pk]) == {owner.pk: 1 + 2 + 4 + 32}
    assert held([]) == {}


def test_stock_that_becomes_ready_is_left_to_the_request_that_needs_its_resource(
    world: UnitWorld,
) -> None:
    first, second = ask("one"), ask("two")
    CapacityRequest.objects.filter(pk=first.pk).update(resource_name=OTHER)
    CapacityRequest.objects.filter(pk=second.pk).update(priority=0)
    coming = stock_row("Progressing", resource_name=OTHER)
    free = stock_row()
    queue = spec_queue(SPEC, depth=None)
    last = QueueRequest(2**62, tenant_by_name().pk + 1)

    GpuUnit.objects.filter(pk=coming.pk).update(phase="Ready")

    rows = queue.restricted(claimable_stock(SPEC), [free.pk], last)
    assert [row.pk for row in rows] == [free.pk]
