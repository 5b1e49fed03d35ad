"""The initial beat schedules of the platform.

`manage.py prepare_database` writes the table to the database (`sync.py`). Operators edit the
schedules in the admin under *Periodic tasks*. The name identifies a schedule: renaming an entry
here deletes the schedule and creates a new one.
"""

from dataclasses import dataclass
from typing import Final

from gpuplatform.audit.services.seals import AuditTask
from gpuplatform.observability.reporter import PlatformTask
from gpuplatform.operations.services import OperationTask
from gpuplatform.queueing import Queue
from gpuplatform.tenants.names import TenantTask
from inventory.services.pools import InventoryTask
from serverless.services.names import ServerlessTask
from units.services.names import UnitTask

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


@dataclass(frozen=True, slots=True)
class Schedule:
    """A periodic task: the message, its interval and its purpose."""

    name: str
    task: str
    every_seconds: int
    description: str
    queue: Queue = Queue.PERIODIC

    @property
    def expire_seconds(self) -> int:
        """Seconds after which a worker discards the message, since a newer one was sent."""
        return max(self.every_seconds, MINUTE)


SCHEDULES: Final = (
    Schedule(
        "Sweep operations",
        OperationTask.SWEEP,
        15,
        "Enqueues every due operation, in case its message was lost.",
    ),
    Schedule(
        "Prune operations",
        OperationTask.PRUNE,
        DAY,
        "Deletes operations that ended more than 30 days ago.",
    ),
    Schedule(
        "Sweep stock pools",
        InventoryTask.SWEEP_POOLS,
        15,
        "Enqueues every due stock pool, in case its message was lost.",
    ),
    Schedule(
        "Reconcile all stock pools",
        InventoryTask.RECONCILE_ALL,
        10 * MINUTE,
        "Compares all stock pools in the cluster with their rows, in case the watch missed a"
        " change.",
    ),
    Schedule(
        "Delete leftovers",
        InventoryTask.DELETE_LEFTOVERS,
        MINUTE,
        "Deletes stock pools that late writes of ended operations created.",
    ),
    Schedule(
        "Prune stock pools",
        InventoryTask.PRUNE_POOLS,
        DAY,
        "Deletes the rows of stock pools that were deleted more than 30 days ago.",
    ),
    Schedule(
        "Sweep GPU units",
        UnitTask.SWEEP_UNITS,
        15,
        "Enqueues every due GPU unit, in case its message was lost.",
    ),
    Schedule(
        "Reconcile all GPU units",
        UnitTask.RECONCILE_ALL,
        10 * MINUTE,
        "Compares all GPU units in the cluster with their rows, in case the watch missed a"
        " change.",
    ),
    Schedule(
        "Compare GPUs of nodes",
        UnitTask.COMPARE_NODES,
        2 * MINUTE,
        "Corrects the mirror of the nodes, and withholds stock whose node would not accept a unit."
        " Records the images of nodes with units.",
    ),
    Schedule(
        "Keep warm images",
        UnitTask.KEEP_WARM_IMAGES,
        MINUTE,
        "Creates and deletes the pods that keep the warm images of GPU specs on nodes.",
    ),
    Schedule(
        "Delete leftovers of GPU units",
        UnitTask.DELETE_LEFTOVERS,
        MINUTE,
        "Deletes GPU units that late writes of ended operations created.",
    ),
    Schedule(
        "Top up stock",
        UnitTask.TOP_UP_STOCK,
        30,
        "Seeds stock up to the warm targets and removes the stock of disabled GPU specs.",
    ),
    Schedule(
        "Match capacity requests",
        UnitTask.SWEEP_REQUESTS,
        15,
        "Grants free stock to waiting requests, in case a hint was lost.",
    ),
    Schedule(
        "Drain nodes",
        UnitTask.SWEEP_DRAINS,
        15,
        "Moves stock from drained nodes, and stops units whose notice has expired.",
    ),
    Schedule(
        "Sample capacity",
        UnitTask.SAMPLE_CAPACITY,
        5 * MINUTE,
        "Stores the numbers of units and of idle stock units of each GPU spec.",
    ),
    Schedule(
        "Record usage",
        UnitTask.SWEEP_USAGE,
        5 * MINUTE,
        "Computes the hourly records of the usage ledger, and seals past hours.",
    ),
    Schedule(
        "Prune GPU units",
        UnitTask.PRUNE_UNITS,
        DAY,
        "Deletes the rows and the history of deleted GPU units, and capacity samples, after 30"
        " days.",
    ),
    Schedule(
        "Prune invocations",
        ServerlessTask.PRUNE,
        HOUR,
        "Deletes invocations and results after 7 days, and rows of deleted functions after 30"
        " days.",
    ),
    Schedule(
        "Record usage of invocations",
        ServerlessTask.RECORD_USAGE,
        5 * MINUTE,
        "Computes the hourly usage records of invocations, and seals past hours.",
    ),
    Schedule(
        "Prune tenants",
        TenantTask.PRUNE,
        DAY,
        "Deletes the rows of tenants that were deleted more than 30 days ago.",
    ),
    Schedule(
        "Seal audit entries",
        AuditTask.SEAL,
        MINUTE,
        "Chains the new entries of the audit log, so that a changed or removed one is found.",
    ),
    Schedule(
        "Prune audit entries",
        AuditTask.PRUNE,
        DAY,
        "Deletes audit entries after GPUPLATFORM_AUDIT_RETENTION_DAYS.",
    ),
    Schedule(
        "Report the steady state",
        PlatformTask.REPORT,
        30,
        "Logs the state of pools, units, operations and queues, and the parts that are down.",
    ),
    Schedule(
        "Sample the platform",
        PlatformTask.SAMPLE,
        30,
        "Stores the values that the overview displays: capacity, operations per minute and time"
        " from claim to ready.",
    ),
    Schedule(
        "Prune samples",
        PlatformTask.PRUNE_SAMPLES,
        30 * MINUTE,
        "Deletes old samples of the platform, and all but the newest runs of each schedule.",
    ),
)
