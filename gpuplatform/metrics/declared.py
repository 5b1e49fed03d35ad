"""The metrics of the platform, with name, type, help text and labels.

Alerts and dashboards (deploy/monitoring) use only these metrics, which a test verifies. Labels
must have few values, such as routes and kinds. Do not use ids or names as labels, except for the
names of tenants.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Type(StrEnum):
    """The Prometheus type of a metric."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of the platform."""

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def series(self) -> frozenset[str]:
        """The names of the time series of the metric."""
        if self.type is Type.HISTOGRAM:
            return frozenset(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return frozenset({self.name})


_REQUEST_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_RUN_BUCKETS: Final = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WAIT_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0, 60.0, 300.0, 1800.0)

HTTP_SECONDS: Final = Metric(
    "gpuplatform_http_request_seconds",
    Type.HISTOGRAM,
    "Duration of an HTTP request in seconds.",
    ("method", "route"),
    _REQUEST_BUCKETS,
)
HTTP_REQUESTS: Final = Metric(
    "gpuplatform_http_requests_total",
    Type.COUNTER,
    "Number of HTTP requests.",
    ("method", "route", "status"),
)
RECONCILE_SECONDS: Final = Metric(
    "gpuplatform_reconcile_seconds",
    Type.HISTOGRAM,
    "Duration of a reconciliation in seconds. The outcome is done, conflict, failed or error.",
    ("kind", "outcome"),
    _RUN_BUCKETS,
)
CLAIM_SECONDS: Final = Metric(
    "gpuplatform_operation_claim_seconds",
    Type.HISTOGRAM,
    "Duration in seconds from the acceptance of an operation until a worker claims it.",
    ("kind",),
    _WAIT_BUCKETS,
)
SUCCESS_SECONDS: Final = Metric(
    "gpuplatform_operation_success_seconds",
    Type.HISTOGRAM,
    "Duration in seconds from the acceptance of an operation until it succeeds.",
    ("kind",),
    _WAIT_BUCKETS,
)
OPERATIONS_ENDED: Final = Metric(
    "gpuplatform_operations_ended_total",
    Type.COUNTER,
    "Number of operations that have ended, by phase.",
    ("kind", "phase"),
)
TASK_ERRORS: Final = Metric(
    "gpuplatform_task_errors_total",
    Type.COUNTER,
    "Number of Celery tasks that raised an unexpected exception.",
    ("task",),
)
IS_LEADER: Final = Metric(
    "gpuplatform_controller_is_leader",
    Type.GAUGE,
    "Whether this controller is the leader (1) or not (0).",
)
ACTIVATOR_IS_LEADER: Final = Metric(
    "gpuplatform_activator_is_leader",
    Type.GAUGE,
    "Whether this activator is the leader (1) or not (0).",
)
WATCH_RESTARTS: Final = Metric(
    "gpuplatform_watch_restarts_total",
    Type.COUNTER,
    "Number of lists after a gap in a watch, excluding the first list.",
    ("kind",),
)
WATCH_AGE: Final = Metric(
    "gpuplatform_watch_age_seconds",
    Type.GAUGE,
    "Duration in seconds since the leader received a list or an event of a kind.",
    ("kind",),
)
DATABASE_UP: Final = Metric(
    "gpuplatform_database_up",
    Type.GAUGE,
    "Whether the database responded to this scrape (1). If not (0), its metrics are absent.",
)
POOLS: Final = Metric("gpuplatform_stock_pools", Type.GAUGE, "Number of stock pools.", ("phase",))
POOL_REPLICAS: Final = Metric(
    "gpuplatform_stock_pool_replicas",
    Type.GAUGE,
    "Number of replicas of all stock pools, by state.",
    ("state",),
)
UNITS: Final = Metric("gpuplatform_units", Type.GAUGE, "Number of GPU units.", ("role", "phase"))
OPERATIONS: Final = Metric(
    "gpuplatform_operations", Type.GAUGE, "Number of open operations.", ("kind", "phase")
)
OLDEST_OPERATION: Final = Metric(
    "gpuplatform_oldest_open_operation_seconds",
    Type.GAUGE,
    "Age in seconds of the oldest open operation, or 0 without open operations.",
)
INVOCATIONS: Final = Metric(
    "gpuplatform_invocations", Type.GAUGE, "Number of open invocations.", ("state",)
)
FAILED_INVOCATIONS: Final = Metric(
    "gpuplatform_invocations_failed_last_hour",
    Type.GAUGE,
    "Number of invocations that failed, expired or were dead-lettered in the last hour.",
    ("state", "failure_class"),
)
WEBHOOKS: Final = Metric(
    "gpuplatform_webhooks",
    Type.GAUGE,
    "Number of webhooks of ended invocations that are not delivered yet, or that failed.",
    ("state",),
)
OLDEST_WEBHOOK: Final = Metric(
    "gpuplatform_oldest_due_webhook_seconds",
    Type.GAUGE,
    "Time in seconds for which the oldest webhook has been due, or 0 without due webhooks.",
)
OLDEST_INVOCATION: Final = Metric(
    "gpuplatform_oldest_open_invocation_seconds",
    Type.GAUGE,
    "Age in seconds of the oldest open invocation, or 0 without open invocations.",
)
OLDEST_DUE: Final = Metric(
    "gpuplatform_oldest_due_seconds",
    Type.GAUGE,
    "Duration in seconds for which the oldest unclaimed row has been due, or 0 without due rows.",
    ("rows",),
)
QUEUE_MESSAGES: Final = Metric(
    "gpuplatform_queue_messages",
    Type.GAUGE,
    "Number of messages in a broker queue. Absent if the broker does not respond.",
    ("queue",),
)
BROKER_UP: Final = Metric(
    "gpuplatform_broker_up",
    Type.GAUGE,
    "Whether the broker responded to this scrape (1) or not (0).",
)
CLUSTER_UP: Final = Metric(
    "gpuplatform_cluster_up",
    Type.GAUGE,
    "Whether the Kubernetes API server responded to the last request (1) or not (0).",
)
RECOVERY_NEEDED: Final = Metric(
    "gpuplatform_recovery_needed",
    Type.GAUGE,
    "Whether the epochs of database and cluster differ (1), so that nothing is written, or not"
    " (0).",
)
NODES: Final = Metric(
    "gpuplatform_nodes", Type.GAUGE, "Number of nodes, by readiness.", ("ready",)
)
PART_UP: Final = Metric(
    "gpuplatform_part_up",
    Type.GAUGE,
    "Whether a process has a recent heartbeat (1) or not (0). Absent for disabled processes.",
    ("part",),
)
CLAIMS_REJECTED: Final = Metric(
    "gpuplatform_claims_rejected_total",
    Type.COUNTER,
    "Number of requests and operations that failed because no stock was available.",
    ("kind",),
)
GRANTS: Final = Metric(
    "gpuplatform_capacity_grants_total",
    Type.COUNTER,
    "Number of grants of stock to waiting requests. The outcome is granted, overtaken or failed.",
    ("outcome",),
)
PREEMPTIONS: Final = Metric(
    "gpuplatform_preemptions_total",
    Type.COUNTER,
    "Number of preemptible units with a notice. The outcome is notified, stopped or kept.",
    ("outcome",),
)
CLAIM_TO_READY: Final = Metric(
    "gpuplatform_claim_to_ready_seconds",
    Type.GAUGE,
    "Duration in seconds from the claim of stock until the unit was ready, for units that became"
    " ready within the span. Absent if there are none.",
    ("span", "quantile"),
)
TENANT_LIMIT: Final = Metric(
    "gpuplatform_tenant_limit",
    Type.GAUGE,
    "Limit of a tenant for a resource. Only limited resources have a series.",
    ("tenant", "resource"),
)
TENANT_USED: Final = Metric(
    "gpuplatform_tenant_used",
    Type.GAUGE,
    "Number that a tenant uses of a limited resource.",
    ("tenant", "resource"),
)
TENANT_GPUS: Final = Metric(
    "gpuplatform_tenant_gpus",
    Type.GAUGE,
    "Number of GPUs of units that are not stopped, by tenant and extended resource.",
    ("tenant", "resource"),
)

USAGE_OVERDUE: Final = Metric(
    "gpuplatform_usage_unsealed_seconds",
    Type.GAUGE,
    "Time in seconds for which the oldest unsealed usage record is overdue, or 0. Records of units"
    " with an open operation are sealed later.",
)
AUDIT_OMITTED: Final = Metric(
    "gpuplatform_audit_omitted_total",
    Type.COUNTER,
    "Rejected requests of unknown callers that the audit log omits, because they were too many.",
)
AUDIT_UNSEALED: Final = Metric(
    "gpuplatform_audit_unsealed_entries",
    Type.GAUGE,
    "Number of audit entries that are not sealed yet, at most 100,000.",
)
AUDIT_UNSEALED_SECONDS: Final = Metric(
    "gpuplatform_audit_unsealed_seconds",
    Type.GAUGE,
    "Age in seconds of the oldest audit entry that is not sealed, or 0.",
)

GPUS: Final = Metric(
    "gpuplatform_gpus",
    Type.GAUGE,
    "Number of allocatable GPUs by GPU product, extended resource and use, including free ones."
    " The uses of a product add up to its allocatable GPUs.",
    ("product", "resource", "use"),
)

METRICS: Final = tuple(value for value in dict(globals()).values() if isinstance(value, Metric))
