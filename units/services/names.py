"""Names of the Celery tasks and the operation kinds of this app."""

from enum import StrEnum
from typing import Final

from gpuplatform.queueing import Urgency
from inventory.services.catalogue import SPEC_CHANGED_TASK
from units.phases import UnitRole
from units.selectors import START_KIND

UNIT_KIND: Final = "GPUUnit"
"""The Kubernetes kind of the objects of this app's operations."""


class UnitTask(StrEnum):
    """Names of the Celery tasks of this app."""

    RECONCILE_UNIT = "units.reconcile_unit"
    SWEEP_UNITS = "units.sweep_units"
    RECONCILE_ALL = "units.reconcile_all"
    COMPARE_NODES = "units.compare_nodes"
    PRUNE_UNITS = "units.prune_units"
    DELETE_LEFTOVERS = "units.delete_leftovers"
    TOP_UP_STOCK = "units.top_up_stock"
    TEND_SPEC = SPEC_CHANGED_TASK
    SAMPLE_CAPACITY = "units.sample_capacity"


class UnitOperation(StrEnum):
    """The kinds of operation on GPU units and stock."""

    CREATE = "unit.create"
    UPDATE = "unit.update"
    STOP = "unit.stop"
    START = START_KIND
    DELETE = "unit.delete"
    SEED = "stock.seed"
    REMOVE = "stock.remove"


def urgency_of(role: UnitRole) -> Urgency:
    """Return the urgency of work on units of a role. Users wait for active units."""
    return Urgency.LAST if role == UnitRole.STOCK else Urgency.NEXT
