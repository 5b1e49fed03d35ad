"""Preemptible units and requests that lack GPUs, for the tests of preemptions."""

from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Now

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from tests.factories.unit_rows import catalogued, stock_row
from tests.fakes.unit_world import UnitWorld
from units.models import CapacityRequest, PreemptionNotice
from units.phases import RequestPhase
from units.requests import GpuUnitCreate
from units.services.matcher import match_spec
from units.services.units import unit_create

SPEC = "g1.1"


def run_preemptible(world: UnitWorld, *names: str) -> None:
    """Run preemptible units, and leave no room for further stock."""
    world.seed(len(names))
    for name in names:
        world.create(name, preemptible=True)
        world.work()
    leave_no_room()


def leave_no_room() -> None:
    """Insert a stock unit that fits no node."""
    spec = {"specName": SPEC, "gpu": 1}
    stock_row("Progressing", cause="Unschedulable", reason="StockNotReady", uid="", spec=spec)


def create(owner: Tenant, name: str, **fields: object) -> Operation:
    """Request a unit that waits for stock if none is left."""
    body = {
        "operationID": f"create-{name}",
        "name": name,
        "specName": SPEC,
        "image": "example.com/a:1",
        "wait": {"maxSeconds": 3600},
        **fields,
    }
    catalogued(SPEC)
    return unit_create(tenant=owner, body=GpuUnitCreate.parse(body)).operation


def ask(name: str, owner: str = "a", *, waited: int = 31, **fields: object) -> CapacityRequest:
    """Open a request some seconds ago."""
    found = Tenant.objects.get_or_create(name=owner, defaults={"namespace": f"tenant-{owner}"})
    operation = create(found[0], name, **fields)
    CapacityRequest.objects.filter(operation=operation).update(
        requested_at=F("requested_at") - timedelta(seconds=waited)
    )
    return CapacityRequest.objects.get(operation=operation)


def run_matcher() -> None:
    """Run the matcher as its task does."""
    match_spec(SPEC, may_seed=True)


def end_notices() -> None:
    """Let the time of all notices pass."""
    PreemptionNotice.objects.update(stops_at=Now())


def noticed() -> list[str]:
    """Return the names of the units with a valid notice."""
    valid = PreemptionNotice.objects.filter(request__phase=RequestPhase.OPEN)
    return list(valid.order_by("unit").values_list("unit__name", flat=True))


def stops() -> list[str]:
    """Return the names of the units that the platform has stopped for a request."""
    kinds = Operation.objects.filter(operation_id__startswith="preempt-", kind="unit.stop")
    return list(kinds.order_by("id").values_list("object_name", flat=True))
