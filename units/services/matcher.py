"""The matcher: grants free stock to the open requests of a GPU spec, in order.

It runs for each hint (`units.waiting.hint_matcher`) and in a sweep. Several matchers can run
concurrently: the turn of the GPU spec saves work, and the guards under the locks make each grant
safe. The locks are taken in the order tenant, operation, unit, request, stock.
"""

import logging
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import Final

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from gpuplatform.errors import InvalidSpec
from gpuplatform.locks import take_turn
from gpuplatform.metrics.declared import GRANTS
from gpuplatform.metrics.recorder import count
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import OperationTask
from gpuplatform.queueing import Queue, enqueue_after_commit
from inventory.models import GpuSpec
from inventory.services.catalogue import holds_pause
from units.core.queue import Hold, NextGrant, QueueRequest, hold_seconds, is_hold_over
from units.core.spec import GPUUnitSpec
from units.grant_statements import operation_granted, request_granted, unit_locked
from units.mirror import spec_columns
from units.models import CapacityRequest, GpuUnit
from units.requests import create_body
from units.selectors import claimable_stock
from units.services.claims import abandon, claim_all, claimed_gpus
from units.services.names import UnitOperation
from units.services.preemption import preempt, withdraw_notices
from units.services.queue import turn_of
from units.services.quota import GpuQuota, gpu_quota, tenant_lock_for_grant
from units.services.stock import top_up
from units.waiting import (
    OPEN,
    SpecQueue,
    hint_matcher,
    requests_held,
    requests_open,
    spec_queue,
)

logger = logging.getLogger(__name__)

MAX_STEPS: Final = 500
"""Maximum number of transactions of one run. A hint continues the work."""


class _Step(Enum):
    """The result of one transaction of the matcher."""

    GRANTED = "granted"
    OVERTAKEN = "overtaken"
    """The rows or the request changed after they were read, so that nothing was granted."""
    FAILED = "failed"
    IDLE = "idle"
    """No request can be granted."""


class _Overtaken(Exception):
    """A guard under the locks prevents the grant; the transaction is rolled back.

    The argument is the number of the request, if the request itself cannot be granted.
    """


class _GrantFailed(Exception):
    """The grant of the request whose number is the argument raised an unexpected exception."""


def match(spec_name: str) -> int:
    """Grant stock until no request of the GPU spec can be granted; return the number of grants.

    Each grant is one transaction, after which the order is determined again. A request whose
    grant raises an exception is passed over for this run (rule `poison`).
    """
    passed: set[int] = set()
    granted = 0
    if not (claimable_stock(spec_name).exists() or requests_held(spec_name).exists()):
        return 0  # Nothing can be granted, and no hold can be over.
    for _ in range(MAX_STEPS):
        step = _step(spec_name, passed)
        if step is _Step.IDLE:
            return granted
        granted += step is _Step.GRANTED
        count(GRANTS, outcome=step.value)
    hint_matcher(spec_name)
    return granted


def match_spec(spec_name: str, *, may_seed: bool) -> None:
    """Grant stock to the open requests of a GPU spec, and seed stock for those that still wait.

    If no stock can be seeded, preemptible units are stopped for the first request. `may_seed` is
    whether the cluster responds and belongs to the database.
    """
    match(spec_name)
    spec = GpuSpec.objects.filter(name=spec_name, is_enabled=True).first()
    if spec is None:
        withdraw_notices(spec_name)
    elif may_seed and requests_open(spec_name).exists():
        preempt(spec, may_notify=top_up(spec) is None)


def _step(spec_name: str, passed: set[int]) -> _Step:
    try:
        with transaction.atomic():
            take_turn(turn_of(spec_name))
            queue = _with_holds_ended(spec_name, spec_queue(spec_name, without=passed))
            found = queue.next_grant()
            _begin_hold(queue, found)
            if found.request is None:
                return _Step.IDLE
            free = queue.restricted(claimable_stock(spec_name), found.rows, found.request)
            _grant_or_fail(found.request, free)
    except _Overtaken as overtaken:
        passed.update(overtaken.args)  # The request itself cannot be granted.
        return _Step.OVERTAKEN
    except _GrantFailed as failed:
        passed.update(failed.args)
        logger.exception("the grant of the request %s failed", *failed.args)
        return _Step.FAILED
    return _Step.GRANTED


def _grant_or_fail(request: QueueRequest, free: QuerySet[GpuUnit]) -> None:
    try:
        _grant(request, free)
    except (_Overtaken, InterfaceError, OperationalError):
        raise  # If the database failed, a hint or the sweep continues.
    except Exception as error:  # One request must not stop the queue of the others.
        raise _GrantFailed(request.number) from error


def _grant(wanted: QueueRequest, free: QuerySet[GpuUnit]) -> None:
    """Claim rows of `free` for the operation of a request, and mark it due (rule `dueatgrant`).

    Raises:
        _Overtaken: If the tenant is not active, if its limits do not allow the grant, if the
            operation or the request is not open, or if other operations have claimed the rows.
    """
    limits = tenant_lock_for_grant(wanted.tenant)
    operation = None if limits is None else operation_granted(wanted.number)
    if limits is None or operation is None:
        raise _Overtaken(wanted.number)
    unit = unit_locked(wanted.number)
    claims = None if unit is None else request_granted(wanted.number)
    if unit is None or claims is None:
        raise _Overtaken(wanted.number)
    is_group = operation.kind == UnitOperation.GROUP_CREATE
    # The claims that a group keeps count in addition to those that it requests.
    quota = gpu_quota(operation, limits, unit.spec_name, unit=0 if is_group else unit.pk)
    if not quota.allows(wanted.gpus):  # Rule `grantquota`.
        raise _Overtaken(wanted.number)
    lost: list[int] = []
    if claims and not is_group:  # A group keeps its other claims, and requests only what it lost.
        rows = GpuUnit.objects.filter(pk__in=claims, claimed_by=operation).order_by("pk")
        lost = list(rows.select_for_update().values_list("pk", flat=True))
    stock = _claim(wanted, operation, free, quota, unit.image)
    if operation.kind == UnitOperation.CREATE and not unit.uid:
        _set_size(operation, unit.pk, stock)
    if lost:
        abandon(lost)
    enqueue_after_commit(OperationTask.RUN, operation.pk, queue=Queue.OPERATIONS)


def _claim(
    wanted: QueueRequest,
    operation: Operation,
    free: QuerySet[GpuUnit],
    quota: GpuQuota,
    image: str,
) -> GpuUnit:
    """Claim the rows of a grant, and return the first one.

    Raises:
        _Overtaken: If other operations have claimed the rows (rule `rowguard`), or if the stock
            has more GPUs than the catalogue has, and the limits do not allow them.
    """
    before = claimed_gpus(operation) if quota.limits else 0
    stock = claim_all(operation, free, wanted.size, waits=True, image=image)
    if stock is None:
        raise _Overtaken
    if quota.limits and not quota.allows(claimed_gpus(operation) - before):
        raise _Overtaken(wanted.number)
    return stock


def _set_size(operation: Operation, unit: int, stock: GpuUnit) -> None:
    """Write the spec of the unit, which has the size of its stock unit, to its row."""
    body = create_body(operation.payload, operation.operation_id, operation.object_name)
    with suppress(InvalidSpec):  # The worker reports an invalid spec of the stock unit.
        wanted = body.spec(GPUUnitSpec.parse(stock.spec)).normalised()
        GpuUnit.objects.filter(pk=unit).update(**spec_columns(wanted))


def _with_holds_ended(spec_name: str, queue: SpecQueue) -> SpecQueue:
    """End the holds that have reached their duration; the GPU spec then pauses as long."""
    over = {number: hold for number, hold in queue.holds.items() if is_hold_over(hold, queue.now)}
    if not over:
        return queue
    for number, hold in over.items():
        CapacityRequest.objects.filter(OPEN, pk=number).update(
            hold_begun_at=None, hold_times=hold.times + 1
        )
    pause = max(hold_seconds(hold.times) for hold in over.values())
    holds_pause(spec_name, pause)
    ended = {number: Hold(None, hold.times + 1) for number, hold in over.items()}
    return replace(queue, holds={**queue.holds, **ended}, pause_until=queue.now + pause)


def _begin_hold(queue: SpecQueue, found: NextGrant) -> None:
    if found.held and queue.holds[found.holder].begun_at is None:
        CapacityRequest.objects.filter(OPEN, pk=found.holder).update(hold_begun_at=Now())
