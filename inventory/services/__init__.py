"""Writes that people ask for, one module a noun.

With `mirror` the only writers of the inventory's rows. Each call is one transaction without a
network call; API, admin and commands all come here.
"""

from inventory.services.catalogue import (
    SpecOperation,
    gpu_spec_create,
    gpu_spec_delete,
    gpu_spec_update,
)
from inventory.services.pools import (
    InventoryTask,
    PoolOperation,
    pool_changed,
    pool_create,
    pool_created,
    pool_deletion_sent,
    pool_reconcile_soon,
    pool_refused,
    pool_request_deletion,
    pool_update,
    pools_prune,
)

__all__ = [
    "InventoryTask",
    "PoolOperation",
    "SpecOperation",
    "gpu_spec_create",
    "gpu_spec_delete",
    "gpu_spec_update",
    "pool_changed",
    "pool_create",
    "pool_created",
    "pool_deletion_sent",
    "pool_reconcile_soon",
    "pool_refused",
    "pool_request_deletion",
    "pool_update",
    "pools_prune",
]
