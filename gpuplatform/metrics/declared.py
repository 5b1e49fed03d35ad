"""Every metric of the platform, declared once: what it counts, by which labels, and who serves it.

Alerts (deploy/monitoring) may use these names and no others; a test compares. Labels have few
values: routes and kinds, never names or ids.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Type(StrEnum):
    """How a metric's values add up."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str
    type: Type
    help: str
    served_by: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def series(self) -> frozenset[str]:
        """The names that its values have when they are asked for."""
        if self.type is Type.HISTOGRAM:
            return frozenset(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return frozenset({self.name})


_REQUEST_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_RUN_BUCKETS: Final = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WAIT_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0, 60.0, 300.0, 1800.0)

HTTP_SECONDS: Final = Metric(
    "gpuplatform_http_request_seconds",
    Type.HISTOGRAM,
    "Time to answer a request.",
    "web",
    ("method", "route"),
    _REQUEST_BUCKETS,
)
HTTP_REQUESTS: Final = Metric(
    "gpuplatform_http_requests_total",
    Type.COUNTER,
    "Answered requests.",
    "web",
    ("method", "route", "status"),
)
RECONCILE_SECONDS: Final = Metric(
    "gpuplatform_reconcile_seconds",
    Type.HISTOGRAM,
    "Time of one run over one object; the outcome is done, conflict, failed or fault.",
    "reconcile",
    ("kind", "outcome"),
    _RUN_BUCKETS,
)
CLAIM_SECONDS: Final = Metric(
    "gpuplatform_operation_claim_seconds",
    Type.HISTOGRAM,
    "Time from the acceptance of an operation until a worker first took it.",
    "operations",
    ("kind",),
    _WAIT_BUCKETS,
)
SUCCESS_SECONDS: Final = Metric(
    "gpuplatform_operation_success_seconds",
    Type.HISTOGRAM,
    "Time from the acceptance of an operation until it succeeded.",
    "operations",
    ("kind",),
    _WAIT_BUCKETS,
)
OPERATIONS_ENDED: Final = Metric(
    "gpuplatform_operations_ended_total",
    Type.COUNTER,
    "Operations that ended, by the phase they ended in.",
    "operations",
    ("kind", "phase"),
)
TASK_FAULTS: Final = Metric(
    "gpuplatform_task_faults_total",
    Type.COUNTER,
    "Tasks that ended with an error: a fault of the platform, or a database that is away.",
    "operations, reconcile, periodic",
    ("task",),
)
IS_LEADER: Final = Metric(
    "gpuplatform_controller_is_leader",
    Type.GAUGE,
    "1 where this controller holds the lease.",
    "controller",
)
ACTIVATOR_IS_LEADER: Final = Metric(
    "gpuplatform_activator_is_leader",
    Type.GAUGE,
    "1 where this activator holds the lease.",
    "activator",
)
WATCH_RESTARTS: Final = Metric(
    "gpuplatform_watch_restarts_total",
    Type.COUNTER,
    "Lists after a gap in a watch; the first list of a reflector is none.",
    "controller",
    ("kind",),
)
WATCH_AGE: Final = Metric(
    "gpuplatform_watch_age_seconds",
    Type.GAUGE,
    "For how long the leader may have missed changes of a kind.",
    "controller",
    ("kind",),
)
STATE_IS_READ: Final = Metric(
    "gpuplatform_state_is_read",
    Type.GAUGE,
    "1 when the database answered this scrape; at 0 all that it knows is left out.",
    "beat",
)
POOLS: Final = Metric(
    "gpuplatform_stock_pools", Type.GAUGE, "Stock pools that are there.", "beat", ("phase",)
)
POOL_REPLICAS: Final = Metric(
    "gpuplatform_stock_pool_replicas",
    Type.GAUGE,
    "Replicas of all stock pools: available or allocated.",
    "beat",
    ("state",),
)
UNITS: Final = Metric(
    "gpuplatform_units", Type.GAUGE, "GPU units that are there.", "beat", ("role", "phase")
)
OPERATIONS: Final = Metric(
    "gpuplatform_operations", Type.GAUGE, "Operations not ended.", "beat", ("kind", "phase")
)
OLDEST_OPERATION: Final = Metric(
    "gpuplatform_oldest_open_operation_seconds",
    Type.GAUGE,
    "Age of the oldest operation that has not ended; 0 when there is none.",
    "beat",
)
INVOCATIONS: Final = Metric(
    "gpuplatform_invocations", Type.GAUGE, "Invocations not ended.", "beat", ("state",)
)
OLDEST_INVOCATION: Final = Metric(
    "gpuplatform_oldest_open_invocation_seconds",
    Type.GAUGE,
    "Age of the oldest invocation that has not ended; 0 when there is none.",
    "beat",
)
OLDEST_DUE: Final = Metric(
    "gpuplatform_oldest_due_seconds",
    Type.GAUGE,
    "For how long the oldest due row that nobody works on is due; 0 when there is none.",
    "beat",
    ("rows",),
)
QUEUE_MESSAGES: Final = Metric(
    "gpuplatform_queue_messages",
    Type.GAUGE,
    "Messages that wait; left out when the broker does not answer.",
    "beat",
    ("queue",),
)
BROKER_UP: Final = Metric(
    "gpuplatform_broker_up", Type.GAUGE, "1 when the broker answered this scrape.", "beat"
)
CLUSTER_UP: Final = Metric(
    "gpuplatform_cluster_up",
    Type.GAUGE,
    "1 unless the cluster did not answer when it was last asked.",
    "beat",
)
RECOVERY_NEEDED: Final = Metric(
    "gpuplatform_recovery_needed",
    Type.GAUGE,
    "1 while nothing is written since database and cluster do not belong together.",
    "beat",
)
NODES: Final = Metric(
    "gpuplatform_nodes", Type.GAUGE, "Nodes that the controller saw.", "beat", ("ready",)
)
PART_UP: Final = Metric(
    "gpuplatform_part_up",
    Type.GAUGE,
    "1 for a process with a recent heartbeat; without those that are off by configuration.",
    "beat",
    ("part",),
)

METRICS: Final = tuple(value for value in dict(globals()).values() if isinstance(value, Metric))
