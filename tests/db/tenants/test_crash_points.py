"""A process is killed before or after any write of an operation on a tenant.

The next process reaches the same end state. By default a random point of each scenario is tested;
with CRASH_POINTS=all, all points.
"""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from gpuplatform.kube.kinds import NAMESPACE
from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation import epoch
from gpuplatform.tenancy.models import Tenant
from tests.db.tenants.conftest import Tenants
from tests.db.tenants.test_suspension import create
from tests.db.units.test_crash_points import Points, chosen, undone
from tests.fakes.cluster import Killed
from tests.fakes.unit_world import UnitWorld
from units.models import GpuUnit

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(3600)]


def nothing(_: Tenants) -> None:
    """Prepare nothing."""


def active(tenants: Tenants) -> None:
    tenants.create()


def adopted(tenants: Tenants) -> None:
    tenants.cluster.put(NAMESPACE, {"metadata": {"name": "team"}})
    tenants.create(namespace="team", adoptNamespace=True)


def with_units(tenants: Tenants) -> None:
    row = tenants.create()
    tenants.world.seed(2)
    create(row, "one")
    tenants.world.work()
    create(row, "two")


def suspended(tenants: Tenants) -> None:
    with_units(tenants)
    tenants.ask("suspend", operation_id="earlier")
    tenants.world.work()


SCENARIOS: dict[str, tuple[Callable[[Tenants], object], Callable[[Tenants], object]]] = {
    "create": (nothing, lambda tenants: tenants.ask_create()),
    "suspend": (with_units, lambda tenants: tenants.ask("suspend")),
    "resume": (suspended, lambda tenants: tenants.ask("resume")),
    "delete": (active, lambda tenants: tenants.ask("request_deletion")),
    "delete of an adopted namespace": (
        adopted,
        lambda tenants: tenants.ask("request_deletion"),
    ),
}


def end_of(
    world: UnitWorld, act: Callable[[Tenants], object], points: Points
) -> dict[str, object]:
    with undone(world) as copy:
        copy.disturbed = lambda: points.passed(copy)
        try:
            with copy.disturbed():
                act(Tenants(copy))
        except Killed:  # Without a response, the caller repeats the request.
            copy.numbers = itertools.count(100)
            act(Tenants(copy))
        copy.work(12)
        return picture(copy)


def picture(world: UnitWorld) -> dict[str, object]:
    def marks(found: dict[str, Any]) -> dict[str, Any]:
        metadata = found["metadata"]
        return {key: metadata.get(key) for key in ("labels", "annotations")}

    return {
        "operations": list(
            Operation.objects.order_by("object_kind", "object_name", "id").values_list(
                "kind", "phase", "error_code"
            )
        ),
        "tenants": list(Tenant.objects.order_by("name").values_list("name", "phase")),
        "units": list(GpuUnit.objects.order_by("role", "name").values_list("name", "phase")),
        "objects": {
            key: marks(found) if key[0] == NAMESPACE.plural else None
            for key, found in world.cluster._objects.items()
        },
    }


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_crash_at_any_point_changes_no_result(world: UnitWorld, scenario: str) -> None:
    prepare, act = SCENARIOS[scenario]
    assert epoch.matches()
    prepare(Tenants(world))
    undisturbed = Points()
    expected = end_of(world, act, undisturbed)
    assert undisturbed.seen > 10, "the points are not counted"

    different = {
        point: {key: found for key, found in ended.items() if found != expected[key]}
        for point in chosen(undisturbed.seen)
        if (ended := end_of(world, act, Points(point))) != expected
    }

    assert different == {}, f"of {undisturbed.seen} points; undisturbed: {expected}"
