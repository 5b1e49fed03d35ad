"""Names of the Celery tasks and the operation kinds of this app."""

from enum import StrEnum
from typing import Final

from gpuplatform.queueing import Urgency
from inventory.services.catalogue import SPEC_CHANGED_TASK
from inventory.services.drains import DRAIN_TASK
from units.group_members import GROUP_START_KIND, GROUP_STOP_KIND
from units.makers import GROUP_CREATE_KIND
from units.phases import UnitRole
from units.void_starts import START_KIND
from units.waiting import MATCH_TASK

UNIT_KIND: Final = "GPUUnit"
"""The Kubernetes kind of the objects of this app's operations."""


GROUP_KIND: Final = "UnitGroup"
"""The kind of the objects of operations on groups, which is not a kind of Kubernetes."""


class UnitTask(StrEnum):
    """Names of the Celery tasks of this app."""

    RECONCILE_UNIT = "units.reconcile_unit"
    SWEEP_UNITS = "units.sweep_units"
    RECONCILE_ALL = "units.reconcile_all"
    COMPARE_NODES = "units.compare_nodes"
    KEEP_WARM_IMAGES = "units.keep_warm_images"
    PRUNE_UNITS = "units.prune_units"
    DELETE_LEFTOVERS = "units.delete_leftovers"
    TOP_UP_STOCK = "units.top_up_stock"
    TEND_SPEC = SPEC_CHANGED_TASK
    SAMPLE_CAPACITY = "units.sample_capacity"
    MATCH_REQUESTS = MATCH_TASK
    SWEEP_REQUESTS = "units.sweep_requests"
    ANNOUNCE_PREEMPTIONS = "units.announce_preemptions"
    ADVANCE_DRAIN = DRAIN_TASK
    SWEEP_DRAINS = "units.sweep_drains"
    SWEEP_USAGE = "units.sweep_usage"


class UnitOperation(StrEnum):
    """The kinds of operation on GPU units and stock."""

    CREATE = "unit.create"
    UPDATE = "unit.update"
    STOP = "unit.stop"
    START = START_KIND
    DELETE = "unit.delete"
    GROUP_CREATE = GROUP_CREATE_KIND
    GROUP_STOP = GROUP_STOP_KIND
    GROUP_START = GROUP_START_KIND
    GROUP_DELETE = "group.delete"
    SEED = "stock.seed"
    REMOVE = "stock.remove"


def urgency_of(role: UnitRole) -> Urgency:
    """Return the urgency of work on units of a role. Users wait for active units."""
    return Urgency.LAST if role == UnitRole.STOCK else Urgency.NEXT
