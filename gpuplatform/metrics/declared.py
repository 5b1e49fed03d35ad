"""Every metric of the platform, declared once: name, type, help and labels.

Alerts and dashboards (deploy/monitoring) use these names only; a test compares. Labels have few
values: routes and kinds, never ids, and no names but those of tenants.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Type(StrEnum):
    """The type of a metric in Prometheus."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def series(self) -> frozenset[str]:
        """The names of its series in a scrape."""
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
    ("method", "route"),
    _REQUEST_BUCKETS,
)
HTTP_REQUESTS: Final = Metric(
    "gpuplatform_http_requests_total",
    Type.COUNTER,
    "Number of answered requests.",
    ("method", "route", "status"),
)
RECONCILE_SECONDS: Final = Metric(
    "gpuplatform_reconcile_seconds",
    Type.HISTOGRAM,
    "Time of one reconciliation; the outcome is done, conflict, failed or fault.",
    ("kind", "outcome"),
    _RUN_BUCKETS,
)
CLAIM_SECONDS: Final = Metric(
    "gpuplatform_operation_claim_seconds",
    Type.HISTOGRAM,
    "Time from the acceptance of an operation to its first claim by a worker.",
    ("kind",),
    _WAIT_BUCKETS,
)
SUCCESS_SECONDS: Final = Metric(
    "gpuplatform_operation_success_seconds",
    Type.HISTOGRAM,
    "Time from the acceptance of an operation to its success.",
    ("kind",),
    _WAIT_BUCKETS,
)
OPERATIONS_ENDED: Final = Metric(
    "gpuplatform_operations_ended_total",
    Type.COUNTER,
    "Number of ended operations, by their final phase.",
    ("kind", "phase"),
)
TASK_FAULTS: Final = Metric(
    "gpuplatform_task_faults_total",
    Type.COUNTER,
    "Number of tasks that raised an unexpected error.",
    ("task",),
)
IS_LEADER: Final = Metric(
    "gpuplatform_controller_is_leader",
    Type.GAUGE,
    "1 if this controller is the leader.",
)
ACTIVATOR_IS_LEADER: Final = Metric(
    "gpuplatform_activator_is_leader",
    Type.GAUGE,
    "1 if this activator is the leader.",
)
WATCH_RESTARTS: Final = Metric(
    "gpuplatform_watch_restarts_total",
    Type.COUNTER,
    "Number of lists after a gap in a watch; the first list does not count.",
    ("kind",),
)
WATCH_AGE: Final = Metric(
    "gpuplatform_watch_age_seconds",
    Type.GAUGE,
    "Maximum time for which the leader may have missed changes of a kind.",
    ("kind",),
)
STATE_IS_READ: Final = Metric(
    "gpuplatform_state_is_read",
    Type.GAUGE,
    "1 if the database answered this scrape; at 0 the metrics from it are absent.",
)
POOLS: Final = Metric("gpuplatform_stock_pools", Type.GAUGE, "Number of stock pools.", ("phase",))
POOL_REPLICAS: Final = Metric(
    "gpuplatform_stock_pool_replicas",
    Type.GAUGE,
    "Number of replicas of all stock pools, available or allocated.",
    ("state",),
)
UNITS: Final = Metric("gpuplatform_units", Type.GAUGE, "Number of GPU units.", ("role", "phase"))
OPERATIONS: Final = Metric(
    "gpuplatform_operations", Type.GAUGE, "Number of open operations.", ("kind", "phase")
)
OLDEST_OPERATION: Final = Metric(
    "gpuplatform_oldest_open_operation_seconds",
    Type.GAUGE,
    "Age of the oldest open operation; 0 without one.",
)
INVOCATIONS: Final = Metric(
    "gpuplatform_invocations", Type.GAUGE, "Number of open invocations.", ("state",)
)
OLDEST_INVOCATION: Final = Metric(
    "gpuplatform_oldest_open_invocation_seconds",
    Type.GAUGE,
    "Age of the oldest open invocation; 0 without one.",
)
OLDEST_DUE: Final = Metric(
    "gpuplatform_oldest_due_seconds",
    Type.GAUGE,
    "Time for which the oldest unclaimed row has been due; 0 without one.",
    ("rows",),
)
QUEUE_MESSAGES: Final = Metric(
    "gpuplatform_queue_messages",
    Type.GAUGE,
    "Number of waiting messages; absent if the broker does not answer.",
    ("queue",),
)
BROKER_UP: Final = Metric(
    "gpuplatform_broker_up", Type.GAUGE, "1 if the broker answered this scrape."
)
CLUSTER_UP: Final = Metric(
    "gpuplatform_cluster_up",
    Type.GAUGE,
    "0 if the last request to the Kubernetes API server was not answered, else 1.",
)
RECOVERY_NEEDED: Final = Metric(
    "gpuplatform_recovery_needed",
    Type.GAUGE,
    "1 if the epochs of database and cluster differ, so that nothing is written.",
)
NODES: Final = Metric(
    "gpuplatform_nodes", Type.GAUGE, "Number of nodes, by readiness.", ("ready",)
)
PART_UP: Final = Metric(
    "gpuplatform_part_up",
    Type.GAUGE,
    "1 for a process with a recent heartbeat; without those that are off by configuration.",
    ("part",),
)
CLAIMS_REFUSED: Final = Metric(
    "gpuplatform_claims_refused_total",
    Type.COUNTER,
    "Number of requests and operations that failed because no stock could be claimed.",
    ("kind",),
)
CLAIM_TO_READY: Final = Metric(
    "gpuplatform_claim_to_ready_seconds",
    Type.GAUGE,
    "Time from the claim of stock until the unit was ready first, of the units that became ready"
    " within the span; absent without any.",
    ("span", "quantile"),
)
TENANT_GPUS: Final = Metric(
    "gpuplatform_tenant_gpus",
    Type.GAUGE,
    "Number of GPUs of each tenant's units that are not stopped.",
    ("tenant",),
)

METRICS: Final = tuple(value for value in dict(globals()).values() if isinstance(value, Metric))
