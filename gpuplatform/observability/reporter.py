"""The state of the platform, which is logged periodically and served as metrics.

A value that cannot be read is omitted, never zero.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from django.db import Error as DatabaseFault
from django.db.models import Count, DurationField, ExpressionWrapper, Min, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Now

from gpuplatform.health import PartHealth, process_health, queue_lengths, recorded_cluster_health
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES, OperationPhase
from gpuplatform.operations.selectors import operations_runnable, pending_operations
from gpuplatform.quotas.selectors import LimitState, limit_states
from gpuplatform.reconciliation.gate import cluster_state
from inventory.models import StockPool
from serverless.models import OPEN_STATES, Invocation
from serverless.phases import FAILED_STATES, FailureClass
from serverless.selectors import webhooks_due, webhooks_undelivered
from units.models import GpuUnit
from units.tenant_usage import gpus_by_tenant

logger = logging.getLogger(__name__)

FAILED_WITHIN: Final = timedelta(hours=1)

MAX_LIMITS: Final = 1_000
"""Maximum number of limits of tenants that are served as metrics."""


class PlatformTask(StrEnum):
    """The names of the tasks that concern the whole platform."""

    REPORT = "platform.report_state"
    SAMPLE = "platform.take_sample"
    PRUNE_SAMPLES = "platform.prune_samples"


@dataclass(frozen=True, slots=True)
class SteadyState:
    """The state of the platform according to the database."""

    pools: Mapping[str, int]
    """Number of stock pools by phase."""
    available: int
    allocated: int
    units: Mapping[tuple[str, str], int]
    """Number of GPU units by role and phase."""
    tenant_gpus: Mapping[tuple[str, str], int]
    """Number of GPUs of active units that are not stopped, by tenant and resource."""
    tenant_limits: Sequence[LimitState]
    """At most `MAX_LIMITS` limits of tenants, with their use."""
    operations: Mapping[tuple[str, str], int]
    """Number of open operations by kind and phase."""
    failed_operations: int
    """Number of operations that failed within the last hour."""
    oldest_operation_seconds: float | None
    invocations: Mapping[str, int]
    """Number of open invocations by state."""
    failed_invocations: Mapping[tuple[str, str], int]
    """Number of invocations that ended without success in the last hour, by state and failure
    class."""
    oldest_invocation_seconds: float | None
    webhooks: Mapping[str, int]
    """Number of webhooks of ended invocations that are not delivered yet, or failed, by state."""
    oldest_webhook_seconds: float | None
    """Duration in seconds for which the oldest webhook has been due."""
    due_seconds: Mapping[str, float | None]
    """Duration in seconds for which the oldest unclaimed row of each table has been due."""
    cluster: PartHealth
    nodes: int | None
    ready_nodes: int | None
    processes: Sequence[PartHealth]

    @property
    def oldest_due_seconds(self) -> float | None:
        """The maximum of `due_seconds`, or `None` if no row is due."""
        known = [seconds for seconds in self.due_seconds.values() if seconds is not None]
        return max(known, default=None)


def read_state() -> SteadyState | None:
    """Return the state, or `None` if the database does not respond."""
    try:
        return _state()
    except DatabaseFault as error:
        logger.warning("the state of the platform cannot be read: %s", error)
        return None


def report() -> None:
    """Log the state of the platform."""
    logger.info("steady state", extra=fields_of(read_state(), queue_lengths()))


def fields_of(state: SteadyState | None, queues: Mapping[str, int] | None) -> Mapping[str, Any]:
    """Return the fields of the log line, without values that could not be read."""
    fields: dict[str, Any] = {"database": state is not None, "broker": queues is not None}
    if queues is not None:
        fields["queues"] = queues
    if state is not None:
        due = state.oldest_due_seconds
        fields |= {
            "pools": state.pools,
            "available": state.available,
            "allocated": state.allocated,
            "units": {f"{role}/{phase}": n for (role, phase), n in state.units.items()},
            "pendingOperations": sum(state.operations.values()),
            "failedOperationsLastHour": state.failed_operations,
            "openInvocations": state.invocations,
            "oldestDueSeconds": None if due is None else round(due, 1),
            "cluster": state.cluster.code.value,
            "nodes": state.nodes,
            "readyNodes": state.ready_nodes,
            "down": sorted(process.part for process in state.processes if not process.ok),
        }
    return fields


def _state() -> SteadyState:
    state, cluster = cluster_state(), recorded_cluster_health()
    live = StockPool.objects.filter(deleted_at__isnull=True)
    units = GpuUnit.objects.filter(deleted_at__isnull=True)
    replicas = live.aggregate(
        available=Sum("available_replicas"), allocated=Sum("allocated_replicas")
    )
    invocations = Invocation.objects.filter(state__in=OPEN_STATES)
    _pending, oldest = pending_operations()
    return SteadyState(
        pools=dict(_counted(live, "phase")),
        available=replicas["available"] or 0,
        allocated=replicas["allocated"] or 0,
        units=_pairs(units, "role", "phase"),
        tenant_gpus=gpus_by_tenant(),
        tenant_limits=list(limit_states(MAX_LIMITS)),
        operations=_pairs(Operation.objects.filter(phase__in=OPEN_PHASES), "kind", "phase"),
        failed_operations=Operation.objects.filter(
            phase=OperationPhase.FAILED, ended_at__gt=Now() - FAILED_WITHIN
        ).count(),
        oldest_operation_seconds=oldest,
        invocations=dict(_counted(invocations, "state")),
        failed_invocations=_pairs(
            Invocation.objects.filter(
                state__in=FAILED_STATES,
                failure_class__in=list(FailureClass),
                completed_at__gt=Now() - FAILED_WITHIN,
            ),
            "state",
            "failure_class",
        ),
        oldest_invocation_seconds=_seconds_since(invocations, "accepted_at"),
        webhooks=dict(_counted(webhooks_undelivered(), "webhook_state")),
        oldest_webhook_seconds=_seconds_since(
            webhooks_due().annotate(due_at=Coalesce("webhook_after", "completed_at")), "due_at"
        ),
        due_seconds={
            "operations": _due_seconds(operations_runnable()),
            "pools": _due_seconds(live.exclude(uid="")),
            "units": _due_seconds(units.exclude(uid="")),
        },
        cluster=cluster,
        nodes=state.node_count,
        ready_nodes=state.ready_node_count,
        processes=process_health(cluster),
    )


def _counted(rows: QuerySet[Any], name: str) -> list[tuple[str, int]]:
    return list(rows.order_by(name).values_list(name).annotate(Count("id")))


def _pairs(rows: QuerySet[Any], first: str, second: str) -> dict[tuple[str, str], int]:
    counted = rows.order_by(first, second).values_list(first, second).annotate(Count("id"))
    return {(one, other): number for one, other, number in counted}


def _due_seconds(rows: QuerySet[Any]) -> float | None:
    """Return the duration in seconds for which the oldest unclaimed row has been due."""
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now())
    return _seconds_since(rows.filter(free, due_at__lte=Now()), "due_at")


def _seconds_since(rows: QuerySet[Any], name: str) -> float | None:
    """Return the age in seconds of the earliest time in the column, or `None` without rows."""
    age = ExpressionWrapper(Now() - Min(name), output_field=DurationField())
    found: timedelta | None = rows.aggregate(age=age)["age"]
    return None if found is None else found.total_seconds()
