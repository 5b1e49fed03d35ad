"""The rows of a long capacity queue, for the benchmarks of the matcher."""

import time
from functools import cache
from itertools import pairwise

from django.db import connection

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from tests.benchmarks.queue import SPEC
from tests.factories.unit_rows import spec_row, stock_row
from units.models import CapacityRequest, GpuUnit, UnitHistory
from units.requests import GpuUnitCreate
from units.services.units import unit_create
from units.waiting import places_of_units


@cache
def tenant(number: int) -> Tenant:
    """Return a tenant of the benchmark."""
    name = f"bench-{number}"
    return Tenant.objects.get_or_create(name=name, namespace=f"tenant-{name}")[0]


def clear() -> None:
    """Delete all units, operations and requests."""
    CapacityRequest.objects.all().delete()
    UnitHistory.objects.all().delete()
    GpuUnit.objects.all().delete()
    Operation.objects.all().delete()
    for name in (SPEC, "bench-2g"):
        spec_row(name)


def stock(number: int, spec_name: str = SPEC) -> None:
    """Insert ready stock units, and update the statistics of the tables."""
    for _ in range(number):
        stock_row(spec_name=spec_name)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def ask(name: str, owner: int, *, waits: bool, spec_name: str = SPEC) -> tuple[Operation, float]:
    """Request a unit; return its operation and the seconds until it was accepted."""
    body = {
        "operationID": f"create-{name}",
        "name": name,
        "specName": spec_name,
        "image": "example.com/a:1",
        **({"wait": {"maxSeconds": 3600}} if waits else {}),
    }
    requested, of = GpuUnitCreate.parse(body), tenant(owner)
    begun = time.perf_counter()
    accepted = unit_create(tenant=of, body=requested)
    return accepted.operation, time.perf_counter() - begun


def wait_for_other_stock(spec_name: str, number: int, tenants: int) -> None:
    """Open requests that the stock of the benchmark cannot serve."""
    for n in range(number):
        ask(f"waiting-{n}", n % tenants, waits=True, spec_name=spec_name)
    CapacityRequest.objects.update(resource_name="example.com/other")


def reads_of_places(number: int) -> list[float]:
    """Read the places of waiting units one by one; return the seconds of each read."""
    units = CapacityRequest.objects.order_by("-id").values_list("unit_id", flat=True)[:number]
    took = []
    for unit in units:
        begun = time.perf_counter()
        places_of_units([unit])
        took.append(time.perf_counter() - begun)
    return took


def times_between_grants() -> list[float]:
    """Return the seconds between the grants of one run of the matcher."""
    granted = CapacityRequest.objects.filter(granted_at__isnull=False).order_by("granted_at")
    times = [at.timestamp() for at in granted.values_list("granted_at", flat=True) if at]
    return [after - before for before, after in pairwise(times)]
