"""Seeds and removes stock, maintains the warm targets, and removes stock of disabled GPU specs."""

import logging
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from gpuplatform.errors import (
    FieldError,
    InsufficientCapacity,
    NameConflict,
    PhaseConflict,
    RequestError,
)
from gpuplatform.formats.model import invalid_spec
from gpuplatform.operations.automatic import automatic_id
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.services import (
    Accepted,
    Request,
    operation_accept,
    set_progress_total,
)
from gpuplatform.queueing import Queue, enqueue_after_commit
from gpuplatform.reconciliation.mirror import request_deletion
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.workloads.resources import resources_error
from inventory.models import GpuSpec
from inventory.selectors import (
    is_spec_catalogued,
    node_records_known,
    spec_requested,
    spec_requirements,
)
from inventory.services.catalogue import SpecOperation
from units.core.capacity import units_that_fit
from units.core.names import stock_batch_name, stock_name
from units.core.withheld import units_missing
from units.history import append_history
from units.mirror import spec_columns
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE, UnitRole
from units.requests import StockSeed
from units.selectors import claimable_stock, stock_get
from units.services.names import UNIT_KIND, UnitOperation, UnitTask, urgency_of
from units.services.obstacles import (
    TOP_UP_PREFIX,
    top_up_obstacle,
    unclaimed_stock,
)
from units.stock_counts import UNCLAIMED, stock_counts, stock_spec
from units.waiting import hint_matcher, waiting_stock

logger = logging.getLogger(__name__)

MAX_TOP_UP: Final = 10
"""Maximum number of stock units that one top-up creates."""

_BATCH = 500


def stock_seed(*, tenant: Tenant, body: StockSeed) -> Accepted:
    """Accept a request to seed stock units, and insert their rows without UIDs.

    Raises:
        InvalidSpec: If the GPU spec is not in the catalogue or is disabled, or if a value differs
            from the catalogue.
        OperationConflict: If the operationID belongs to another request.
    """
    request = _request(
        tenant, UnitOperation.SEED, body.operation_id, body.spec_name, body.payload()
    )

    def prepare(operation: Operation) -> int:
        spec = spec_requested(body.spec_name, for_update=True)
        _check_values(body, spec)
        return _insert_stock(operation, spec, body.replicas)

    return operation_accept(request, prepare=prepare)


def stock_remove(*, tenant: Tenant, operation_id: str, spec_name: str, number: int) -> Accepted:
    """Accept a request to remove exactly `number` ready, unclaimed stock units.

    Raises:
        InsufficientCapacity: If fewer stock units are ready and unclaimed; none is removed then.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(operation: Operation) -> int:
        # Claims take the oldest stock units first, so the newest ones are removed.
        free = claimable_stock(spec_name).order_by("-id").select_for_update(of=("self",))
        rows = list(free.values_list("id", flat=True)[:number])
        if len(rows) < number:
            msg = (
                f"The removal of {number} stock units of the GPU spec '{spec_name}' was requested,"
                f" but the number of ready, unclaimed ones is {len(rows)}. None was removed."
            )
            raise InsufficientCapacity(msg)
        return _claim_for_removal(operation, rows)

    payload = {"specName": spec_name, "number": number}
    request = _request(tenant, UnitOperation.REMOVE, operation_id, spec_name, payload)
    return operation_accept(request, prepare=prepare)


def stock_remove_one(*, tenant: Tenant, operation_id: str, stock: GpuUnit) -> Accepted:
    """Accept a request to remove an unclaimed stock unit, whether it is ready or not.

    Raises:
        NotFound: If the stock unit is consumed or deleted.
        PhaseConflict: If the stock unit is claimed or being deleted.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(operation: Operation) -> int:
        rows = unclaimed_stock(stock.spec_name).filter(
            pk=stock.pk, deletion_requested_at__isnull=True
        )
        found = rows.select_for_update(of=("self",)).first()
        if found is None:
            held = stock_get(stock.name)
            msg = f"The stock unit '{held.name}' is claimed or is being deleted. Try again later."
            raise PhaseConflict(msg)
        return _claim_for_removal(operation, [found.pk])

    payload = {"specName": stock.spec_name, "stockName": stock.name}
    request = _request(tenant, UnitOperation.REMOVE, operation_id, stock.spec_name, payload)
    return operation_accept(request, prepare=prepare)


def stock_drain(spec: GpuSpec) -> Accepted | None:
    """Accept a request to remove all unclaimed stock units of a GPU spec.

    Returns `None` if all stock is claimed or deleted. Claimed stock is kept for its unit; if the
    claim is released, the next call removes it.
    """
    return _remove(spec.name, unclaimed_stock(spec.name))


def stock_move(spec_name: str, ids: Collection[int]) -> Accepted | None:
    """Accept a request to remove those stock units of a GPU spec that are unclaimed.

    The top-up replaces the stock of a GPU spec with a warm target, and it may have replaced
    withheld stock already. Other stock is seeded again in the same number.

    Returns `None` if all of it is claimed or deleted.
    """
    with transaction.atomic():
        removed = _remove(spec_name, unclaimed_stock(spec_name).filter(pk__in=ids))
        spec = GpuSpec.objects.filter(name=spec_name, is_enabled=True).first()
        if removed is None or spec is None:
            return removed
        operation = removed.operation
        if spec.warm_target and not spec.is_top_up_paused:
            enqueue_after_commit(UnitTask.TEND_SPEC, spec.pk, queue=Queue.PERIODIC)
        else:
            operation_id = automatic_id("replaces", operation.pk)
            _seed_automatically(spec, operation_id, operation.progress_total)
        return removed


def _remove(spec_name: str, unclaimed: QuerySet[GpuUnit]) -> Accepted | None:
    """Accept a request to remove unclaimed stock units, or return `None` if none is left."""
    left = unclaimed.filter(deletion_requested_at__isnull=True)
    if not left.exists():
        return None
    operation_id, payload = f"drain-{uuid.uuid4().hex}", {"specName": spec_name}
    request = _request(tenant_by_name(), UnitOperation.REMOVE, operation_id, spec_name, payload)

    def prepare(operation: Operation) -> int:
        locked = left.order_by("-id").select_for_update(of=("self",))
        return _claim_for_removal(operation, list(locked.values_list("id", flat=True)))

    with suppress(InsufficientCapacity):  # Other operations have claimed all of it.
        return operation_accept(request, prepare=prepare)
    return None


def top_up(spec: GpuSpec, *, waits: bool = False) -> Accepted | None:
    """Seed the stock units that are missing to the warm target of a GPU spec.

    Open requests raise the target by the stock units for which they wait, while stock of the GPU
    spec can be placed on a node (rule `seedforqueue`).

    Returns `None` if no stock is missing, or if the GPU spec cannot be topped up. At most one
    top-up of a GPU spec is open, with at most `MAX_TOP_UP` stock units; when it has succeeded,
    the GPU spec is topped up again. If `waits` is false, a GPU spec that another transaction has
    locked is skipped.
    """
    with transaction.atomic():
        rows = GpuSpec.objects.filter(pk=spec.pk).select_for_update(skip_locked=not waits)
        locked = rows.first()
        if locked is None or top_up_obstacle(locked):
            return None
        missing = _missing(locked)
        if missing <= 0:
            return None
        operation_id = f"{TOP_UP_PREFIX}-{uuid.uuid4().hex}"
        return _seed_automatically(locked, operation_id, min(missing, MAX_TOP_UP))


def _missing(spec: GpuSpec) -> int:
    """Return the number of stock units that are missing to the target of a GPU spec."""
    counts = stock_counts(spec)
    # Requests raise the target only while there is room for stock.
    target = spec.warm_target + (0 if counts.unscheduled else waiting_stock(spec.name))
    room = None
    if counts.withheld and (records := node_records_known()):
        fitting = units_that_fit(records.values(), spec_requirements(spec))
        room = fitting - counts.placeless  # Stock units without a node use the same capacity.
    return units_missing(target, counts.held, counts.withheld, room)


def stock_tend() -> None:
    """Top up the stock of enabled GPU specs, and remove the stock of disabled and deleted ones.

    A GPU spec that an earlier release accepted and that is invalid now does not affect the others.
    """
    for spec in GpuSpec.objects.order_by("name"):
        try:
            stock_tend_spec(spec)
        except RequestError as error:
            logger.warning("the stock of the GPU spec '%s' is unchanged: %s", spec.name, error)
    left = _stock_of_deleted_specs()
    for name in list(left.order_by().values_list("spec_name", flat=True).distinct()):
        _remove(name, left.filter(spec_name=name))


def _stock_of_deleted_specs() -> QuerySet[GpuUnit]:
    """Return the unclaimed stock that was seeded before its GPU spec was deleted.

    The operation of the deletion decides, not the missing entry: a new database has no entries.
    """
    deletions = Operation.objects.filter(
        kind=SpecOperation.DELETE,
        phase=OperationPhase.SUCCEEDED,
        object_name=OuterRef("spec_name"),
        pk__gt=OuterRef("operation_id"),
    )
    return GpuUnit.objects.filter(UNCLAIMED, ~is_spec_catalogued(), Exists(deletions))


def stock_tend_spec(spec: GpuSpec, *, waits: bool = False) -> None:
    """Top up the stock of a GPU spec, or remove it if the GPU spec is disabled.

    `waits` is the argument of `top_up`: after a change of the GPU spec, the call waits for the
    locks of concurrent requests, because the next periodic top-up is much later.
    """
    if spec.is_enabled:
        top_up(spec, waits=waits)
    else:
        stock_drain(spec)
    hint_matcher(spec.name)


def top_up_continue(seeding: Operation) -> None:
    """Enqueue the GPU spec of a top-up again, in the transaction that ends the top-up.

    The warm target may be further away than one top-up, or may have changed in the meantime. The
    seeding of a caller enqueues nothing.
    """
    if not seeding.operation_id.startswith(f"{TOP_UP_PREFIX}-"):
        return
    for spec in GpuSpec.objects.filter(name=seeding.payload.get("specName", "")):
        enqueue_after_commit(UnitTask.TEND_SPEC, spec.pk, queue=Queue.PERIODIC)


def restock(unit: GpuUnit) -> Accepted | None:
    """Seed one stock unit for a deleted unit that held GPUs, if its GPU spec requires it.

    Each unit is replaced at most once, even if its deletion is requested several times.
    """
    wanted = GpuSpec.objects.filter(
        name=unit.spec_name, restocks_on_delete=True, is_enabled=True
    ).first()
    is_idle = unit.is_suspended or unit.is_ended
    held = not is_idle and GpuUnit.objects.filter(consumed_by=unit.uid).exists()
    if wanted is None or not unit.uid or not held:
        return None
    return _seed_automatically(wanted, automatic_id("restock", unit.uid), 1)


def _seed_automatically(spec: GpuSpec, operation_id: str, number: int) -> Accepted:
    payload = {"specName": spec.name, "replicas": number}
    request = _request(tenant_by_name(), UnitOperation.SEED, operation_id, spec.name, payload)
    return operation_accept(
        request, prepare=lambda operation: _insert_stock(operation, spec, number)
    )


def _check_values(body: StockSeed, spec: GpuSpec) -> None:
    """Check that the values of a request equal the values of the catalogue.

    Raises:
        InvalidSpec: If a value differs from the catalogue, or if the GPU spec is invalid.
    """
    pairs = {
        "cpu": (body.cpu, spec.cpu),
        "memory": (body.memory, spec.memory),
        "gpu": (body.gpu, spec.gpu),
        "resourceName": (body.resource_name, spec.resource_name),
        "resources": (body.resources, spec.resources),
    }
    errors = [
        FieldError(
            name,
            f"The catalogue has the value {known or 'none'} for the GPU spec '{spec.name}', not"
            f" {given}.",
        )
        for name, (given, known) in pairs.items()
        if given is not None and given != known
    ]
    twice = resources_error(spec.resource_name, spec.resources)
    if errors or twice:
        raise invalid_spec([*errors, *([twice] if twice else [])])


def _insert_stock(operation: Operation, spec: GpuSpec, number: int) -> int:
    """Insert the rows of a seeding with the values of the catalogue.

    Returns the id of the first row.
    """
    batch = operation.object_name
    columns = spec_columns(stock_spec(spec))
    rows = [
        GpuUnit(
            role=UnitRole.STOCK,
            operation=operation,
            namespace=STOCK_NAMESPACE,
            name=stock_name(batch, ordinal),
            ordinal=ordinal,
            **columns,
        )
        for ordinal in range(1, number + 1)
    ]
    GpuUnit.objects.bulk_create(rows, batch_size=_BATCH, ignore_conflicts=True)
    inserted = list(operation.gpu_units.order_by("id").values_list("id", flat=True))
    if len(inserted) < number:
        msg = f"A stock unit whose name begins with '{batch}' already exists."
        raise NameConflict(msg)
    set_progress_total(operation, number)
    return inserted[0]


def _claim_for_removal(operation: Operation, rows: list[int]) -> int:
    if not rows:
        msg = "No unclaimed stock is left to remove."
        raise InsufficientCapacity(msg)
    claimed = GpuUnit.objects.filter(pk__in=rows)
    request_deletion(claimed, claimed_by=operation)
    append_history(claimed, operation)
    set_progress_total(operation, len(rows))
    return rows[0]


def _request(
    tenant: Tenant,
    kind: UnitOperation,
    operation_id: str,
    spec_name: str,
    payload: Mapping[str, Any],
) -> Request:
    """Return a request about a batch of stock, so that it does not wait for other operations."""
    batch = stock_batch_name(spec_name, tenant=tenant.name, operation_id=operation_id)
    urgency = urgency_of(UnitRole.STOCK)
    return Request(
        tenant, operation_id, kind, UNIT_KIND, STOCK_NAMESPACE, batch, payload, urgency=urgency
    )
