"""The admin actions that drain nodes and cancel drains, which call the services of the API."""

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar, Final, get_args

from gpuplatform.adminkit.actions.action import Action, ActionRequest, ActionResult, Values
from gpuplatform.adminkit.actions.forms import Choices, DeclaredForm
from gpuplatform.adminkit.display.text import counted, visible
from gpuplatform.operations.admin_actions import result_of, service_call
from inventory.models import GpuSpec, Node, NodeDrain
from inventory.requests.drains import DrainedUnits, NodeDrainBody
from inventory.services.drains import node_drain, node_drain_cancel
from units.admin.node_actions import node_address, pods_of
from units.core.capacity import HELD_BY_POOLS, OTHERS
from units.drain_progress import UnitsOnNode, is_worker, units_on
from units.drain_states import DrainState
from units.models import GpuUnit
from units.node_capacity import node_capacities

MOST_NAMED: Final = 20
"""Maximum number of units that the confirmation names."""


class DrainForm(DeclaredForm):
    """The form that drains nodes."""

    declaration = NodeDrainBody
    field_names = ("units", "noticeMinutes")
    labels: ClassVar = {"units": "GPU units", "noticeMinutes": "Notice in minutes"}
    help_texts: ClassVar = {
        "units": "keep: the units run until their owners stop them. stop: the units are stopped"
        " when the notice has expired, and can be started again on another node.",
        "noticeMinutes": "Time until the units are stopped. Leave empty to keep them.",
    }
    choices: ClassVar[Choices] = {"units": lambda: get_args(DrainedUnits)}
    defaults: ClassVar = {"units": "keep"}


def _drain(request: ActionRequest) -> ActionResult:
    body = request.parse(NodeDrainBody)
    return result_of(node_drain(body=body, **node_address(request.row)))


def _drain_obstacle(node: Node) -> str:
    return "" if node.is_present else "It no longer exists."


def _cancel_obstacle(node: Node) -> str:
    is_draining = NodeDrain.objects.filter(node=node.name).exists()
    return "" if is_draining else "It is not being drained."


def _drain_consequence(rows: Sequence[Node], values: Values) -> str:
    nodes = node_capacities(rows)
    here = units_on({one.record.state.name: one.record for one in nodes})
    workers = [unit for unit in here.units if is_worker(unit)]
    units = [unit for unit in here.units if not is_worker(unit)]
    replaced = sum(node.drain is not None for node in nodes)
    ends = f" Replaces {counted(replaced, 'drain')} in progress." if replaced else ""
    moved = f" Deletes and replaces {counted(len(workers), 'worker')} of functions."
    rest = pods_of(nodes, {HELD_BY_POOLS, OTHERS})
    return (
        f"Cordons {counted(len(rows), 'node')}.{ends} {_stock_text(here)}"
        f" {_units_text(units, values)}{moved if workers else ''}"
        f" Not affected: {counted(rest, 'other pod')} with GPUs."
    )


def _stock_text(here: UnitsOnNode) -> str:
    names = {unit.spec_name for unit in here.stock}
    specs = GpuSpec.objects.filter(name__in=names, warm_target__gt=0, is_top_up_paused=False)
    topped_up = sorted(specs.filter(is_enabled=True).values_list("name", flat=True))
    text = f"Moves {counted(len(here.stock), 'stock unit')}."
    return (
        f"{text} The top-up replaces the stock of {', '.join(topped_up)}." if topped_up else text
    )


def _units_text(units: Sequence[GpuUnit], values: Values) -> str:
    if values.get("units") != "stop":
        text = f"Keeps {counted(len(units), 'unit')}"
    else:
        minutes = int(values["noticeMinutes"])
        when = f"after a notice of {counted(minutes, 'minute')}" if minutes else "immediately"
        text = f"Stops {counted(len(units), 'unit')} {when}"
    return f"{text}{f': {_owners(units)}' if units else ''}."


def _owners(units: Sequence[GpuUnit]) -> str:
    """Return the names of units by tenant, at most `MOST_NAMED`."""
    by_tenant: dict[str, list[str]] = defaultdict(list)
    for unit in units[:MOST_NAMED]:
        by_tenant[unit.tenant.name if unit.tenant else ""].append(visible(unit.name))
    listed = [
        f"{', '.join(names)} ({f'tenant {tenant}' if tenant else 'no tenant'})"
        for tenant, names in sorted(by_tenant.items())
    ]
    more = len(units) - MOST_NAMED
    return "; ".join(listed) + (f"; and {more} more" if more > 0 else "")


def _cancel_consequence(rows: Sequence[Node], _: Values) -> str:
    drains = [node.drain for node in node_capacities(rows) if node.drain]
    kept = sum(len(one.left.units) for one in drains if one.state != DrainState.STOPPING_UNITS)
    return (
        f"Cancels {counted(len(drains), 'drain')} and keeps {counted(kept, 'unit')} that no stop"
        f" was requested for. {counted(len(rows), 'node', 'remains', 'remain')} cordoned. Moved"
        " stock is not moved back."
    )


DRAIN_ACTIONS: Final = (
    Action(
        name="drain",
        label="Drain",
        consequence=_drain_consequence,
        obstacle=_drain_obstacle,
        service=_drain,
        form=DrainForm,
    ),
    Action(
        name="canceldrain",
        label="Cancel drain",
        consequence=_cancel_consequence,
        obstacle=_cancel_obstacle,
        service=service_call(node_drain_cancel, node_address),
        permission="drain",
    ),
)
