"""Writes of the activator: starts and stops of workers, and the status of a function."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import NotFound, OperationConflict
from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.services import check_writable
from gpuplatform.tenancy.models import Tenant
from serverless.core.scaling import Plan, WorkerState
from serverless.core.workers import worker_name, worker_request
from serverless.models import Function
from serverless.phases import FUNCTION_TRANSITIONS
from serverless.selectors import workers_of
from units.services.units import unit_create, unit_request_deletion

OBSERVED_SECONDS: Final = 10.0
"""Interval at which `observed_at` is written while nothing else changes."""


@dataclass(frozen=True, slots=True)
class FunctionCounts:
    """Numbers that the activator observed of a function."""

    backlog: int | None
    """None: the queue is unavailable."""
    workers: Mapping[WorkerState, int]
    is_active: bool
    """Whether the function has open invocations."""


def worker_start(function: Function, *, observed: int) -> bool:
    """Request one more worker; return False if the function changed since it was read.

    Args:
        function: its row as it was read.
        observed: number of workers when it was read, in any state, plus those started since.

    Raises:
        InsufficientCapacity: no stock of its GPU spec is ready.
        InvalidSpec: its spec, or the address of the queue, does not fit a worker.
    """
    check_writable()  # Before the transaction: it may open connections.
    name = worker_name(function.pk, function.generation, secrets.token_hex(4))
    request = worker_request(
        function.parsed_spec,
        function=function.pk,
        tenant=function.tenant.name,
        name=name,
        queue_url=settings.NATS_URL,
    )
    with transaction.atomic():
        # When the leader changes, one of two activators sees here what the other one started.
        unchanged = Function.objects.select_for_update().filter(
            pk=function.pk,
            generation=function.generation,
            spec=function.spec,  # It holds the limits of the number of workers.
            deletion_requested_at__isnull=True,
        )
        if unchanged.first() is None or workers_of(function).count() != observed:
            return False
        unit_create(tenant=function.tenant, body=request)
    return True


def worker_stop(tenant: Tenant, name: str) -> None:
    """Request that a worker is drained and deleted; idempotent."""
    operation_id = f"{name}-stop"
    with suppress(NotFound):
        try:
            unit_request_deletion(tenant=tenant, name=name, operation_id=operation_id)
        except OperationConflict:
            # Callers of the tenant choose operationIDs too, and one of them uses this one.
            unique = f"{operation_id}-{secrets.token_hex(8)}"
            unit_request_deletion(tenant=tenant, name=name, operation_id=unique)


def function_update_status(function: Function, plan: Plan, counts: FunctionCounts) -> None:
    """Record the status of a function, if it changed or `OBSERVED_SECONDS` have passed."""
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
