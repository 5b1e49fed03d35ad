"""What the activator writes: workers that start and stop, and how a function is doing."""

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
from serverless.core.spec import FunctionSpec
from serverless.core.workers import worker_name, worker_request
from serverless.models import Function
from serverless.phases import FUNCTION_TRANSITIONS
from serverless.selectors import workers_of
from units.services.units import unit_create, unit_request_deletion

SHOWN_SECONDS: Final = 10.0
"""So often it is written that a function was looked at, though nothing changed."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of a function."""

    backlog: int | None
    """None: the queue does not say."""
    workers: Mapping[WorkerState, int]
    is_active: bool


def worker_start(function: Function, *, seen: int) -> bool:
    """Ask for one more worker; return False when something changed since `function` was read.

    Args:
        function: its row as it was read.
        seen: the workers that there were then, in any state, with those started since.

    Raises:
        InsufficientCapacity: no ready stock of its GPU spec is left.
        InvalidSpec: its spec, or the address of the queue, does not fit a worker.
    """
    check_writable()  # Before the transaction: it may open connections.
    name = worker_name(function.pk, function.generation, secrets.token_hex(4))
    asked = worker_request(
        FunctionSpec.parse(function.spec),
        function=function.pk,
        tenant=function.tenant.name,
        name=name,
        queue_url=settings.NATS_URL,
    )
    with transaction.atomic():
        # Of two activators at the moment of a change one finds what the other did.
        same = Function.objects.select_for_update().filter(
            pk=function.pk,
            generation=function.generation,
            spec=function.spec,  # How many workers there may be is in it.
            deletion_requested_at__isnull=True,
        )
        if same.first() is None or workers_of(function).count() != seen:
            return False
        unit_create(tenant=function.tenant, body=asked)
    return True


def worker_stop(tenant: Tenant, name: str) -> None:
    """Have a worker drained and removed; again is as good as once."""
    operation_id = f"{name}-stop"
    with suppress(NotFound):
        try:
            unit_request_deletion(tenant=tenant, name=name, operation_id=operation_id)
        except OperationConflict:
            # The tenant's programs choose operationIDs too, and may have chosen this one.
            own = f"{operation_id}-{secrets.token_hex(8)}"
            unit_request_deletion(tenant=tenant, name=name, operation_id=own)


def function_observed(function: Function, plan: Plan, observed: Observed) -> None:
    """Record how a function is doing, if that is news."""
    changes = _changes(plan, observed)
    standing = None if function.deletion_requested_at else plan.standing
    phase, since = function.phase, {}
    if standing is not None:
        phase = standing.phase
        changes |= {"reason": standing.reason.value, "message": standing.message}
        if (function.phase, function.reason) != (standing.phase, standing.reason):
            since = {"phase_since": Now()}
    is_news = bool(since) or any(getattr(function, key) != new for key, new in changes.items())
    if not is_news and _was_shown(function):
        return
    seen: dict[str, Any] = {} if observed.backlog is None else {"observed_at": Now()}
    if observed.is_active:
        seen["last_active_at"] = Now()
    rows = Function.objects.filter(pk=function.pk)
    if standing is None:
        rows.update(**changes, **seen)
    else:
        transition(rows, FUNCTION_TRANSITIONS, phase, **changes, **seen, **since)


def _was_shown(function: Function) -> bool:
    shown = function.observed_at
    return shown is not None and clock.now() - shown < timedelta(seconds=SHOWN_SECONDS)


def _changes(plan: Plan, observed: Observed) -> dict[str, Any]:
    counts = observed.workers
    changes: dict[str, Any] = {
        "workers_ready": counts.get(WorkerState.READY, 0),
        "workers_starting": counts.get(WorkerState.STARTING, 0),
        "workers_draining": counts.get(WorkerState.DRAINING, 0),
        "start_failures": plan.backoff.failures,
        "starts_after": plan.backoff.until,
    }
    return changes if observed.backlog is None else {**changes, "backlog": observed.backlog}
