"""What operators do about GPU units and stock in the admin, by the services of the API."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from gpuplatform.adminkit.actions.action import (
    Action,
    ActionRequest,
    ActionResult,
    Creation,
    Values,
    counted,
)
from gpuplatform.adminkit.actions.forms import (
    CPU_HELP,
    MEMORY_HELP,
    OPERATION_ID,
    DeclaredForm,
    Suggestions,
)
from gpuplatform.operations.admin_actions import result_of
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name, tenant_of
from gpuplatform.workloads.causes import UNPLACED
from inventory.models import GpuSpec
from inventory.selectors import spec_names
from units.models import GpuUnit, StockUnit
from units.phases import UnitPhase
from units.requests import StockSeed
from units.selectors import claimable
from units.services.claims import unit_reconcile_soon
from units.services.stock import stock_remove_one, stock_seed
from units.services.units import unit_request_deletion, unit_start, unit_stop

SEED_LABELS: Final = {
    "specName": "GPU spec",
    "replicas": "Stock units",
    "cpu": "CPU",
    "gpu": "GPUs",
}


class SeedForm(DeclaredForm):
    """Asks for stock of any GPU spec; the first of a spec enters it into the catalogue."""

    declaration = StockSeed
    field_names = ("specName", "replicas", "gpu", "cpu", "memory")
    labels = SEED_LABELS
    help_texts: ClassVar[Mapping[str, str]] = {
        "gpu": "Request and limit.",
        "cpu": CPU_HELP,
        "memory": MEMORY_HELP,
    }
    suggestions: ClassVar[Suggestions] = {"specName": spec_names}


def _seeded(operation_id: str, values: Values) -> tuple[ActionResult, GpuUnit]:
    asked = StockSeed.parse({**values, OPERATION_ID: operation_id})
    accepted = stock_seed(tenant=tenant_by_name(), body=asked)
    return result_of(accepted), StockUnit.objects.get(pk=accepted.operation.object_row or 0)


def _by(service: Callable[..., Accepted]) -> Callable[[ActionRequest], ActionResult]:
    """Return what asks a service for a unit, on behalf of the tenant whose it is."""

    def ask(asked: ActionRequest) -> ActionResult:
        unit: GpuUnit = asked.row
        tenant: Tenant = unit.tenant or tenant_of(unit.namespace)
        return result_of(service(tenant=tenant, name=unit.name, operation_id=asked.operation_id))

    return ask


def _removed(asked: ActionRequest) -> ActionResult:
    tenant = tenant_by_name()
    return result_of(
        stock_remove_one(tenant=tenant, operation_id=asked.operation_id, stock=asked.row)
    )


def _reconciled(asked: ActionRequest) -> ActionResult:
    unit_reconcile_soon(asked.row)
    return ActionResult("It is looked at now.")


def is_going(unit: GpuUnit) -> str:
    """Return why nothing can be asked of a unit any more; empty where something can."""
    if unit.deleted_at:
        return "It is deleted."
    is_ending = unit.deletion_requested_at or unit.phase == UnitPhase.TERMINATING
    return "It is being deleted." if is_ending else ""


def _not_stopping(unit: GpuUnit) -> str:
    return is_going(unit) or ("It is stopped already." if unit.is_suspended else "")


def _not_starting(unit: GpuUnit) -> str:
    return is_going(unit) or ("" if unit.is_suspended else "It is not stopped.")


def _not_removable(stock: GpuUnit) -> str:
    if stock.consumed_by:
        return "A unit has taken it; delete that unit."
    if stock.claimed_by_id and not stock.deletion_requested_at:
        return "It is set aside for a job; cancel that job, or let it end."
    return is_going(stock)


def _unseen(unit: GpuUnit) -> str:
    if unit.deleted_at:
        return "It is deleted."
    return "" if unit.uid else "It has no resource in the cluster yet."


def _delete_consequence(units: Sequence[GpuUnit], _: Values) -> str:
    running = [unit for unit in units if unit.phase != UnitPhase.STOPPED]
    restocked = _restocked(running)
    again = (
        f" {counted(restocked, 'stock unit', 'is', 'are')} made in their place."
        if restocked
        else ""
    )
    ends = f" What runs in {_it(units)} ends, and what is kept inside is lost."
    return (
        f"Deletes {_of_tenants(units)}; {_freed(running)}.{again}"
        f"{ends if running else ''} It cannot be undone."
    )


def _stop_consequence(units: Sequence[GpuUnit], _: Values) -> str:
    can = "it can" if len(units) == 1 else "they can"
    return (
        f"Stops {_of_tenants(units)}; {_freed(units)}. What runs in {_it(units)} ends;"
        f" name and settings stay, and {can} be started again on ready stock."
    )


def _start_consequence(units: Sequence[GpuUnit], _: Values) -> str:
    names = sorted({unit.spec_name for unit in units})
    stands = [
        f"{sum(1 for unit in units if unit.spec_name == name)} of '{name}',"
        f" {claimable(name).count()} ready"
        for name in names
    ]
    return (
        f"Starts {_of_tenants(units)}; {counted(_gpus(units), 'GPU', 'is', 'are')} taken from"
        f" stock ({'; '.join(stands)}). What finds none waits for it, up to 10 minutes."
    )


def _remove_consequence(stock: Sequence[GpuUnit], _: Values) -> str:
    ready = sum(1 for unit in stock if unit.phase == UnitPhase.READY)
    kept = GpuSpec.objects.filter(
        name__in={unit.spec_name for unit in stock},
        warm_target__gt=0,
        is_top_up_paused=False,
        is_enabled=True,
    )
    names = sorted(kept.values_list("name", flat=True))
    again = sum(1 for unit in stock if unit.spec_name in names)
    warm = f" {again} of them are of GPU specs with a warm target ({', '.join(names)}): the top-up"
    return (
        f"Removes {counted(len(stock), 'stock unit')}, {ready} of them ready;"
        f" {_freed(stock)}." + (f"{warm} makes what is missing to it again." if names else "")
    )


def _reconcile_consequence(units: Sequence[GpuUnit], _: Values) -> str:
    paused = sum(1 for unit in units if unit.failures)
    return (
        f"Looks at {counted(len(units), 'unit')} now and brings the cluster to what is wanted;"
        f" {paused} of them waited out a pause after failures. Nothing else changes."
    )


def _gpus(units: Iterable[GpuUnit]) -> int:
    return sum(unit.gpu for unit in units)


def _freed(units: Iterable[GpuUnit]) -> str:
    """Return how many GPUs are given up: what no node could take holds none."""
    holding = [unit for unit in units if unit.cause not in UNPLACED]
    if not (gpus := _gpus(holding)):
        return "no GPU becomes free"
    return f"{counted(gpus, 'GPU', 'becomes', 'become')} free"


def _it(units: Sequence[GpuUnit]) -> str:
    return "it" if len(units) == 1 else "them"


def _of_tenants(units: Sequence[GpuUnit]) -> str:
    tenants = len({unit.namespace for unit in units})
    return counted(len(units), "unit") + (f" of {tenants} tenants" if tenants > 1 else "")


def _restocked(units: Sequence[GpuUnit]) -> int:
    """Return for how many of these a stock unit is made when they are deleted."""
    names = set(
        GpuSpec.objects.filter(
            name__in={unit.spec_name for unit in units}, restocks_on_delete=True, is_enabled=True
        ).values_list("name", flat=True)
    )
    return sum(1 for unit in units if unit.spec_name in names and unit.source_uid)


SEED: Final = Creation(form=SeedForm, title="Seed stock", service=_seeded)
_RECONCILE: Final[dict[str, Any]] = {
    "name": "reconcile",
    "label": "Reconcile now",
    "consequence": _reconcile_consequence,
    "obstacle": _unseen,
    "service": _reconciled,
}
UNIT_ACTIONS: Final = (
    Action(
        name="stop",
        label="Stop",
        consequence=_stop_consequence,
        obstacle=_not_stopping,
        service=_by(unit_stop),
    ),
    Action(
        name="start",
        label="Start",
        consequence=_start_consequence,
        obstacle=_not_starting,
        service=_by(unit_start),
    ),
    Action(**_RECONCILE),
    Action(
        name="delete",
        label="Delete",
        consequence=_delete_consequence,
        obstacle=is_going,
        service=_by(unit_request_deletion),
        is_final=True,
    ),
)
STOCK_ACTIONS: Final = (
    Action(**_RECONCILE),
    Action(
        name="remove",
        label="Remove",
        consequence=_remove_consequence,
        obstacle=_not_removable,
        service=_removed,
        right="delete",
        is_final=True,
    ),
)
