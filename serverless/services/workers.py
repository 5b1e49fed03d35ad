"""Starts and stops workers, and records the status of functions, for the activator."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import NotFound
from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.automatic import automatic_id
from gpuplatform.operations.services import check_writable
from gpuplatform.tenancy.models import Tenant
from serverless.core.scaling import Plan, WorkerState
from serverless.core.workers import worker_name, worker_request
from serverless.models import Function
from serverless.phases import FUNCTION_TRANSITIONS
from serverless.selectors import workers_of
from units.selectors import is_waiting_for_stock
from units.services.units import unit_create, unit_request_deletion

OBSERVED_SECONDS: Final = 10.0
"""Interval in seconds at which `observed_at` is written if nothing else changes."""


@dataclass(frozen=True, slots=True)
class FunctionCounts:
    """Counts that the activator observed for a function."""

    backlog: int | None
    """Number of open invocations, or `None` if the queue is unavailable."""
    workers: Mapping[WorkerState, int]
    """Number of workers by state."""
    is_active: bool
    """Whether the function has open invocations."""


class WorkerStart(StrEnum):
    """The results of a request for one more worker."""

    CLAIMED = "claimed"
    """The worker has claimed a stock unit."""
    WAITING = "waiting"
    """The worker waits for stock in the queue of the GPU spec."""
    CHANGED = "changed"
    """The function or its workers changed, so that no worker was requested."""


def worker_start(function: Function, *, observed: int) -> WorkerStart:
    """Request one more worker, unless the function or its workers changed.

    Args:
        function: The row of the function as it was read.
        observed: Number of workers when the row was read, plus the workers started since then.

    Raises:
        CapacityExceeded: If no node is large enough for the function's GPU spec.
        QueueFull: If too many requests wait for stock of the function's GPU spec.
        QuotaExceeded: If a limit of the tenant allows no further worker.
        InvalidSpec: If the spec or the address of the queue is not valid for a worker.
    """
    check_writable()  # Called before the transaction because it can open connections.
    name = worker_name(function.pk, function.generation, secrets.token_hex(4))
    request = worker_request(
        function.parsed_spec,
        function=function.pk,
        tenant=function.tenant.name,
        name=name,
        queue_url=settings.NATS_URL,
    )
    with transaction.atomic():
        # After a change of the leader, this check detects workers that the other one started.
        # An invocation locks its tenant before it refers to the function: the lock allows that.
        unchanged = Function.objects.select_for_update(no_key=True).filter(
            pk=function.pk,
            generation=function.generation,
            spec=function.spec,  # The spec contains the limits for the number of workers.
            deletion_requested_at__isnull=True,
        )
        if unchanged.first() is None or workers_of(function).count() != observed:
            return WorkerStart.CHANGED
        accepted = unit_create(tenant=function.tenant, body=request)
        is_waiting = is_waiting_for_stock(accepted.operation)
    return WorkerStart.WAITING if is_waiting else WorkerStart.CLAIMED


def worker_stop(tenant: Tenant, name: str) -> None:
    """Request that a worker is drained and deleted; idempotent."""
    operation_id = automatic_id("stop", name)
    with suppress(NotFound):
        unit_request_deletion(tenant=tenant, name=name, operation_id=operation_id)


def function_update_status(function: Function, plan: Plan, counts: FunctionCounts) -> None:
    """Record the status of a function if it changed or `OBSERVED_SECONDS` have passed."""
    changes = _columns(plan, counts)
    status = None if function.deletion_requested_at else plan.status
    if status is not None:
        changes |= {
            "phase": status.phase,
            "reason": status.reason.value,
            "message": status.message,
            "cause": status.cause,
        }
    changed = {key for key, value in changes.items() if getattr(function, key) != value}
    if not changed and _is_recent(function):
        return
    times: dict[str, Any] = {} if counts.backlog is None else {"observed_at": Now()}
    if counts.is_active:
        times["last_active_at"] = Now()
    if changed & {"phase", "reason"}:
        times["phase_since"] = Now()
    rows = Function.objects.filter(pk=function.pk)
    if status is None:
        rows.update(**changes, **times)
    else:
        phase = changes.pop("phase")
        transition(rows, FUNCTION_TRANSITIONS, phase, **changes, **times)


def _is_recent(function: Function) -> bool:
    observed = function.observed_at
    return observed is not None and clock.now() - observed < timedelta(seconds=OBSERVED_SECONDS)


def _columns(plan: Plan, counts: FunctionCounts) -> dict[str, Any]:
    workers = counts.workers
    columns: dict[str, Any] = {
        "workers_ready": workers.get(WorkerState.READY, 0),
        "workers_starting": workers.get(WorkerState.STARTING, 0),
        "workers_draining": workers.get(WorkerState.DRAINING, 0),
        "start_failures": plan.backoff.failures,
        "starts_after": plan.backoff.until,
    }
    return columns if counts.backlog is None else {**columns, "backlog": counts.backlog}
