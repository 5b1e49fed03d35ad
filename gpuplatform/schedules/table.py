"""Every beat schedule of the platform, as an installation gets it.

`manage.py prepare_database` brings the table into the database (`sync.py`); operators edit the
schedules there, in the admin under *Periodic tasks*. The name is a schedule's identity: a row that
is renamed here counts as one that was dropped and another that is new.
"""

from dataclasses import dataclass
from typing import Final

from gpuplatform.observability.reporter import PlatformTask
from gpuplatform.operations.services import OperationTask
from gpuplatform.queueing import Queue
from inventory.services.pools import InventoryTask
from serverless.services.names import ServerlessTask
from units.services.names import UnitTask

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


@dataclass(frozen=True, slots=True)
class Schedule:
    """One periodic task: what is sent, how often, and what it is for."""

    name: str
    task: str
    every_seconds: int
    description: str
    queue: Queue = Queue.PERIODIC

    @property
    def expire_seconds(self) -> int:
        """Seconds after which a worker drops the message: by then the next one was sent."""
        return max(self.every_seconds, MINUTE)


SCHEDULES: Final = (
    Schedule(
        "Sweep operations",
        OperationTask.SWEEP,
        15,
        "Enqueues every operation that is due, in case its message was lost.",
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
        "Enqueues every stock pool that is due, in case its message was lost.",
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
        "Enqueues every GPU unit that is due, in case its message was lost.",
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
        "Finds nodes that offer fewer GPUs than their pods hold. Stock on them is not claimed.",
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
        "Seeds stock up to the warm targets, and removes the stock of disabled GPU specs.",
    ),
    Schedule(
        "Sample capacity",
        UnitTask.SAMPLE_CAPACITY,
        5 * MINUTE,
        "Stores a sample of the units and the idle stock of each GPU spec.",
    ),
    Schedule(
        "Prune GPU units",
        UnitTask.PRUNE_UNITS,
        DAY,
        "Deletes the rows of deleted GPU units, their history and capacity samples after 30 days.",
    ),
    Schedule(
        "Prune invocations",
        ServerlessTask.PRUNE,
        HOUR,
        "Deletes invocations and their results after 7 days, and deleted functions after 30 days.",
    ),
    Schedule(
        "Report the steady state",
        PlatformTask.REPORT,
        30,
        "Logs one line with pools, units, operations, queues and the parts that are down.",
    ),
    Schedule(
        "Sample the platform",
        PlatformTask.SAMPLE,
        30,
        "Stores what the overview shows: capacity, operations per minute, time from claim to"
        " ready.",
    ),
    Schedule(
        "Prune samples",
        PlatformTask.PRUNE_SAMPLES,
        30 * MINUTE,
        "Deletes old samples of the platform, and all but the newest runs of each schedule.",
    ),
)
