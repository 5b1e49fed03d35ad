"""Writes that people ask for, and the rows of their outcomes, one module a concern.

With `mirror` the only writers of this app's rows. Each call is one transaction without a network
call; API, admin, commands, tasks and workers all come here.
"""

from units.services.capacity import capacity_sample
from units.services.claims import (
    claimed_stock,
    free_stock,
    reassign,
    stock_of,
    unit_reconcile_soon,
)
from units.services.names import UNIT_KIND, UnitOperation, UnitTask, urgency_of
from units.services.nodes import short_nodes_seen
from units.services.retention import units_prune
from units.services.settling import (
    stock_made,
    stock_removal_refused,
    stock_removal_sent,
    stock_seeding_ended,
    stock_set_aside,
    stock_unmade,
    unit_changed,
    unit_created,
    unit_deletion_sent,
    unit_refused,
    unit_start_refused,
    unit_started,
)
from units.services.stock import (
    stock_drain,
    stock_remove,
    stock_remove_one,
    stock_seed,
    stock_tend,
    top_up,
    top_up_obstacle,
)
from units.services.units import (
    IF_MATCH,
    etag_of,
    unit_create,
    unit_request_deletion,
    unit_start,
    unit_stop,
    unit_update,
)

__all__ = [
    "IF_MATCH",
    "UNIT_KIND",
    "UnitOperation",
    "UnitTask",
    "capacity_sample",
    "claimed_stock",
    "etag_of",
    "free_stock",
    "reassign",
    "short_nodes_seen",
    "stock_drain",
    "stock_made",
    "stock_of",
    "stock_removal_refused",
    "stock_removal_sent",
    "stock_remove",
    "stock_remove_one",
    "stock_seed",
    "stock_seeding_ended",
    "stock_set_aside",
    "stock_tend",
    "stock_unmade",
    "top_up",
    "top_up_obstacle",
    "unit_changed",
    "unit_create",
    "unit_created",
    "unit_deletion_sent",
    "unit_reconcile_soon",
    "unit_refused",
    "unit_request_deletion",
    "unit_start",
    "unit_start_refused",
    "unit_started",
    "unit_stop",
    "unit_update",
    "units_prune",
    "urgency_of",
]
