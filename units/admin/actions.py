"""The admin actions on GPU units and stock, which call the services of the API."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from gpuplatform.adminkit.actions.action import Action, Values
from gpuplatform.adminkit.actions.forms import Choices, DeclaredForm
from gpuplatform.adminkit.actions.mirrors import ending_obstacle, reconcile_action
from gpuplatform.adminkit.display.text import all_gpus_text, counted, visible
from gpuplatform.operations.admin_actions import creation, service_call
from gpuplatform.tenancy.selectors import tenant_by_name, tenant_of
from gpuplatform.workloads.causes import UNPLACED
from inventory.models import GpuSpec
from inventory.selectors import spec_names
from units.models import GpuUnit, StockUnit
from units.phases import UnitPhase
from units.requests import StockSeed
from units.selectors import capacity_by_spec, claimable
from units.services.claims import unit_reconcile_soon
from units.services.stock import stock_remove_one, stock_seed
from units.services.units import unit_request_deletion, unit_start, unit_stop


class SeedForm(DeclaredForm):
    """The form that seeds stock of a GPU spec of the catalogue, which determines the size."""

    declaration = StockSeed
    field_names = ("specName", "replicas")
    labels: ClassVar = {"specName": "GPU spec", "replicas": "Stock units"}
    help_texts: ClassVar = {
        "specName": "Enabled GPU spec of the catalogue, which determines the size of each unit."
    }
    choices: ClassVar[Choices] = {"specName": spec_names}


def _address(unit: GpuUnit) -> dict[str, Any]:
    return {"tenant": unit.tenant or tenant_of(unit.namespace), "name": unit.name}


def _stock_address(stock: GpuUnit) -> dict[str, Any]:
    return {"tenant": tenant_by_name(), "stock": stock}


def _group_obstacle(unit: GpuUnit) -> str:
    name = visible(unit.group_name)
    return f"It belongs to the group '{name}'. Use the action of the group." if name else ""


def _stop_obstacle(unit: GpuUnit) -> str:
    return (
        ending_obstacle(unit)
        or _group_obstacle(unit)
        or ("It is already stopped." if unit.is_suspended else "")
    )


def _start_obstacle(unit: GpuUnit) -> str:
    if unit.waits_since is not None:
        return "It is already being started and waits for stock."
    return (
        ending_obstacle(unit)
        or _group_obstacle(unit)
        or ("" if unit.is_suspended or unit.is_ended else "It is running.")
    )


def _delete_obstacle(unit: GpuUnit) -> str:
    return ending_obstacle(unit) or _group_obstacle(unit)


def _remove_obstacle(stock: GpuUnit) -> str:
    if stock.consumed_by:
        return "A unit has consumed it. Delete that unit instead."
    if stock.claimed_by_id and not stock.deletion_requested_at:
        return "An operation has claimed it. Cancel that operation, or wait until it ends."
    return ending_obstacle(stock)


def _delete_consequence(units: Sequence[GpuUnit], _: Values) -> str:
    running = [unit for unit in units if not _is_released(unit)]
    replaced = _replaced(running)
    ends = " The workload is terminated and its local data is lost." if running else ""
    stock = f" {counted(replaced, 'stock unit', 'is', 'are')} created as a replacement."
    return (
        f"Deletes {_of_tenants(units)} and releases {_released(running)}."
        f"{ends}{stock if replaced else ''} This cannot be undone."
    )


def _stop_consequence(units: Sequence[GpuUnit], _: Values) -> str:
    return (
        f"Stops {_of_tenants(units)} and releases {_released(units)}. The workload is terminated."
        " Names and settings are kept. A stopped unit can be started again when stock is"
        " available."
    )


def _start_consequence(units: Sequence[GpuUnit], _: Values) -> str:
    names = sorted({unit.spec_name for unit in units})
    demand = [
        f"{sum(1 for unit in units if unit.spec_name == name)} of '{name}',"
        f" {claimable(name).count()} ready"
        for name in names
    ]
    gpus = all_gpus_text((unit.resource_name, unit.gpu) for unit in units)
    return (
        f"Starts {_of_tenants(units)} and claims {gpus} of stock ({'; '.join(demand)}). Units"
        " without available stock wait in the queue for up to 10 minutes."
    )


def _remove_consequence(stock: Sequence[GpuUnit], _: Values) -> str:
    ready = sum(1 for unit in stock if unit.phase == UnitPhase.READY)
    topped_up = GpuSpec.objects.filter(
        name__in={unit.spec_name for unit in stock},
        warm_target__gt=0,
        is_top_up_paused=False,
        is_enabled=True,
    )
    names = sorted(topped_up.values_list("name", flat=True))
    again = sum(1 for unit in stock if unit.spec_name in names)
    warm = f" The top-up recreates up to {again} of them ({', '.join(names)})." if names else ""
    return (
        f"Removes {counted(len(stock), 'stock unit')} ({ready} ready) and releases"
        f" {_released(stock)}.{warm}"
    )


def _is_released(unit: GpuUnit) -> bool:
    """Return whether a unit holds no GPUs, because it is stopped or has ended."""
    return unit.phase == UnitPhase.STOPPED or unit.is_ended


def _released(units: Iterable[GpuUnit]) -> str:
    """Return the number of GPUs that become free; a unit without a node holds no GPUs."""
    holding = [unit for unit in units if unit.cause not in UNPLACED and not _is_released(unit)]
    return all_gpus_text((unit.resource_name, unit.gpu) for unit in holding)


def _of_tenants(units: Sequence[GpuUnit]) -> str:
    tenants = len({unit.namespace for unit in units})
    return counted(len(units), "unit") + (f" of {tenants} tenants" if tenants > 1 else "")


def _replaced(units: Sequence[GpuUnit]) -> int:
    """Return the number of stock units that the deletion of the units creates."""
    names = set(
        GpuSpec.objects.filter(
            name__in={unit.spec_name for unit in units}, restocks_on_delete=True, is_enabled=True
        ).values_list("name", flat=True)
    )
    return sum(1 for unit in units if unit.spec_name in names and unit.source_uid)


def _seed_consequence(values: Values) -> str:
    spec = GpuSpec.objects.filter(name=values["specName"]).first()
    return seed_consequence([spec], int(values["replicas"])) if spec else ""


def seed_consequence(specs: Sequence[GpuSpec], each: int) -> str:
    """Return the effects of the seeding of `each` stock units of each GPU spec."""
    gpus = all_gpus_text((spec.resource_name, each * spec.gpu) for spec in specs)
    names = {spec.name for spec in specs}
    ready = sum(one.ready for one in capacity_by_spec() if one.name in names)
    return (
        f"Creates {counted(each * len(specs), 'stock unit')} of {counted(len(specs), 'GPU spec')}"
        f" with {gpus}. {counted(ready, 'stock unit', 'is', 'are')} ready now."
    )


SEED: Final = creation(
    "Seed stock", SeedForm, stock_seed, StockUnit.objects, consequence=_seed_consequence
)
_RECONCILE: Final = reconcile_action("unit", unit_reconcile_soon)
UNIT_ACTIONS: Final = (
    Action(
        name="stop",
        label="Stop",
        consequence=_stop_consequence,
        obstacle=_stop_obstacle,
        service=service_call(unit_stop, _address),
    ),
    Action(
        name="start",
        label="Start",
        consequence=_start_consequence,
        obstacle=_start_obstacle,
        service=service_call(unit_start, _address),
    ),
    _RECONCILE,
    Action(
        name="delete",
        label="Delete",
        consequence=_delete_consequence,
        obstacle=_delete_obstacle,
        service=service_call(unit_request_deletion, _address),
        is_final=True,
    ),
)
STOCK_ACTIONS: Final = (
    _RECONCILE,
    Action(
        name="remove",
        label="Remove",
        consequence=_remove_consequence,
        obstacle=_remove_obstacle,
        service=service_call(stock_remove_one, _stock_address),
        permission="delete",
        is_final=True,
    ),
)
