"""What the activator writes: workers that start and stop, and how a function is doing."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import NotFound
from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.services import check_writable
from serverless.core.scaling import Plan, WorkerState
from serverless.core.spec import FunctionSpec
from serverless.core.workers import worker_name, worker_request
from serverless.models import Function
from serverless.phases import FUNCTION_TRANSITIONS
from serverless.selectors import workers_of
from units.services import unit_create, unit_request_deletion

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
            pk=function.pk, generation=function.generation, deletion_requested_at__isnull=True
        )
        if same.first() is None or workers_of(function).count() != seen:
            return False
        unit_create(tenant=function.tenant, asked=asked)
    return True


def worker_stop(function: Function, name: str) -> None:
    """Have a worker drained and removed; again is as good as once."""
    try:
        unit_request_deletion(tenant=function.tenant, name=name, operation_id=f"{name}-stop")
    except NotFound:
        return


def function_observed(function: Function, plan: Plan, observed: Observed) -> None:
    """Record how a function is doing, if that is news."""
    changes = _changes(function, plan, observed)
    is_shown = function.observed_at is not None and clock.now() - function.observed_at < timedelta(
        seconds=SHOWN_SECONDS
    )
    standing = plan.standing
    if function.deletion_requested_at:
        standing = None
    news = standing is not None and _differs(function, standing.phase, standing.reason)
    if standing is not None:
        changes["message"] = standing.message
        changes["reason"] = standing.reason.value
    if is_shown and not news and not _is_new(function, changes):
        return
    if observed.backlog is not None:
        changes["observed_at"] = Now()
        if observed.is_active:
            changes["last_active_at"] = Now()
    rows = Function.objects.filter(pk=function.pk)
    if standing is None:
        rows.update(**changes)
        return
    if news:
        changes["phase_since"] = Now()
    transition(rows, FUNCTION_TRANSITIONS, standing.phase, **changes)


def _changes(function: Function, plan: Plan, observed: Observed) -> dict[str, Any]:
    counts = observed.workers
    changes: dict[str, Any] = {
        "workers_ready": counts.get(WorkerState.READY, 0),
        "workers_starting": counts.get(WorkerState.STARTING, 0),
        "workers_draining": counts.get(WorkerState.DRAINING, 0),
        "start_failures": plan.backoff.failures,
        "starts_after": plan.backoff.until,
    }
    if observed.backlog is not None:
        changes["backlog"] = observed.backlog
    return changes


def _differs(function: Function, phase: str, reason: str) -> bool:
    return (function.phase, function.reason) != (phase, reason)


def _is_new(function: Function, changes: Mapping[str, Any]) -> bool:
    return any(getattr(function, name) != value for name, value in changes.items())


def last_active(function: Function, newest: datetime | None) -> datetime:
    """Return when the function had something to do last, as far as the rows tell."""
    known = (function.last_active_at, newest, function.created_at)
    return max(moment for moment in known if moment is not None)
