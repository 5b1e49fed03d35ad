"""Seeds and removes stock, maintains warm targets, and removes the stock of disabled specs."""

import uuid
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from django.db import transaction
from django.db.models import Q, QuerySet

from gpuplatform.errors import (
    FieldError,
    InsufficientCapacity,
    NameConflict,
    OperationConflict,
    PhaseConflict,
)
from gpuplatform.formats.model import invalid_spec
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.services import Accepted, Request, operation_accept
from gpuplatform.reconciliation.mirror import request_deletion
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from units.core.names import stock_batch_name, stock_name
from units.core.spec import parse_unit_spec
from units.history import append_history
from units.mirror import spec_columns
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitRole
from units.requests import StockSeed
from units.selectors import stock_get
from units.services.claims import claimable_stock
from units.services.names import UNIT_KIND, UnitOperation, urgency_of

MAX_TOP_UP: Final = 10
"""Maximum number of stock units of one top-up; a large target is reached in several."""

MAX_FAILED: Final = 3
"""Number of failed stock units of a spec at which its top-up stops."""

_TOP_UP_PREFIX = "top-up"
_BATCH = 500


def stock_seed(*, tenant: Tenant, body: StockSeed) -> Accepted:
    """Accept the seeding of stock and insert its rows, `Pending` and without a UID.

    A spec that is not in the catalogue is added with the values of this request.

    Raises:
        InvalidSpec: a value differs from the catalogue.
        PhaseConflict: the spec is disabled.
        OperationConflict: the operationID belongs to another request.
    """
    request = _request(tenant, UnitOperation.SEED, body.operation_id, body.spec_name)

    def prepare(operation: Operation) -> int:
        spec = _catalogued(body)
        if not spec.is_enabled:
            msg = f"The GPU spec '{spec.name}' is disabled. Enable it first."
            raise PhaseConflict(msg)
        return _insert_stock(operation, spec, body.replicas)

    return operation_accept(replace(request, payload=body.payload()), prepare=prepare)


def stock_remove(*, tenant: Tenant, operation_id: str, spec_name: str, number: int) -> Accepted:
    """Accept the removal of exactly `number` ready, unclaimed stock units, or of none.

    Raises:
        InsufficientCapacity: fewer are ready and unclaimed.
        OperationConflict: the operationID belongs to another request.
    """
    request = _request(tenant, UnitOperation.REMOVE, operation_id, spec_name)

    def prepare(operation: Operation) -> int:
        # Creates claim the oldest first, so removing the newest disturbs them least.
        free = claimable_stock(spec_name).order_by("-id").select_for_update(of=("self",))
        rows = list(free.values_list("id", flat=True)[:number])
        if len(rows) < number:
            msg = (
                f"{number} stock units of the GPU spec '{spec_name}' are requested, and"
                f" {len(rows)} are ready and unclaimed. None was removed."
            )
            raise InsufficientCapacity(msg)
        return _claim_for_removal(operation, rows)

    payload = {"specName": spec_name, "number": number}
    return operation_accept(replace(request, payload=payload), prepare=prepare)


def stock_remove_one(*, tenant: Tenant, operation_id: str, stock: GpuUnit) -> Accepted:
    """Accept the removal of this unclaimed stock unit, whether it is ready or not.

    Raises:
        NotFound: it is consumed or deleted.
        PhaseConflict: it is claimed or being deleted.
        OperationConflict: the operationID belongs to another request.
    """
    request = _request(tenant, UnitOperation.REMOVE, operation_id, stock.spec_name)

    def prepare(operation: Operation) -> int:
        rows = _unclaimed(stock.spec_name).filter(pk=stock.pk, deletion_requested_at__isnull=True)
        found = rows.select_for_update(of=("self",)).first()
        if found is None:
            held = stock_get(stock.name)
            msg = f"The stock unit '{held.name}' is claimed or being deleted."
            raise PhaseConflict(msg)
        return _claim_for_removal(operation, [found.pk])

    payload = {"specName": stock.spec_name, "stockName": stock.name}
    return operation_accept(replace(request, payload=payload), prepare=prepare)


def stock_drain(spec: GpuSpec) -> Accepted | None:
    """Accept the removal of all unclaimed stock of a spec; None without any.

    Claimed stock stays for its unit; if the claim is released, the next call removes it.
    """
    left = _unclaimed(spec.name).filter(deletion_requested_at__isnull=True)
    if not left.exists():
        return None
    tenant = tenant_by_name()
    operation_id = f"drain-{uuid.uuid4().hex}"
    request = _request(tenant, UnitOperation.REMOVE, operation_id, spec.name)

    def prepare(operation: Operation) -> int:
        locked = left.order_by("-id").select_for_update(of=("self",))
        return _claim_for_removal(operation, list(locked.values_list("id", flat=True)))

    with suppress(InsufficientCapacity):  # All of it has just been claimed.
        return operation_accept(replace(request, payload={"specName": spec.name}), prepare=prepare)
    return None


def top_up(spec: GpuSpec) -> Accepted | None:
    """Seed the stock that is missing to the warm target of a spec; None if none is needed.

    At most one top-up of a spec is open, with at most `MAX_TOP_UP` units; of two concurrent calls
    one returns None.
    """
    with transaction.atomic():
        rows = GpuSpec.objects.filter(pk=spec.pk).select_for_update(skip_locked=True)
        locked = rows.first()
        if locked is None or top_up_obstacle(locked):
            return None
        held = _unclaimed(locked.name).filter(deletion_requested_at__isnull=True)
        missing = locked.warm_target - held.exclude(phase=UnitPhase.FAILED).count()
        if missing <= 0:
            return None
        operation_id = f"{_TOP_UP_PREFIX}-{uuid.uuid4().hex}"
        return _seed_automatically(locked, operation_id, min(missing, MAX_TOP_UP))


def top_up_obstacle(spec: GpuSpec) -> str:
    """Return why a spec has no top-up, as a sentence; empty if it may have one."""
    if not spec.is_enabled:
        return "The GPU spec is disabled."
    if spec.is_top_up_paused:
        return "The top-up is paused."
    failed = _unclaimed(spec.name).filter(phase=UnitPhase.FAILED).count()
    if failed >= MAX_FAILED:
        return f"{failed} stock units have failed. The top-up resumes when fewer have."
    open_seeds = Operation.objects.filter(
        kind=UnitOperation.SEED,
        operation_id__startswith=f"{_TOP_UP_PREFIX}-",
        payload__specName=spec.name,
        phase__in=OPEN_PHASES,
    )
    return "A top-up is in progress." if open_seeds.exists() else ""


def stock_tend() -> None:
    """Top up the stock of every enabled spec, and remove the stock of disabled ones."""
    for spec in GpuSpec.objects.order_by("name"):
        stock_tend_spec(spec)


def stock_tend_spec(spec: GpuSpec) -> None:
    """Top up the stock of a spec, or remove it if the spec is disabled."""
    if spec.is_enabled:
        top_up(spec)
    else:
        stock_drain(spec)


def restock(unit: GpuUnit) -> Accepted | None:
    """Seed one stock unit for a deleted unit that held a GPU, if its spec requests it.

    At most once for each unit, however often its deletion is requested.
    """
    wanted = GpuSpec.objects.filter(
        name=unit.spec_name, restocks_on_delete=True, is_enabled=True
    ).first()
    held = not unit.is_suspended and GpuUnit.objects.filter(consumed_by=unit.uid).exists()
    if wanted is None or not unit.uid or not held:
        return None
    with suppress(OperationConflict):  # A caller used that operationID; the deletion succeeds.
        return _seed_automatically(wanted, f"restock-{unit.uid}", 1)
    return None


def _seed_automatically(spec: GpuSpec, operation_id: str, number: int) -> Accepted:
    request = _request(tenant_by_name(), UnitOperation.SEED, operation_id, spec.name)
    payload = {"specName": spec.name, "replicas": number}
    return operation_accept(
        replace(request, payload=payload),
        prepare=lambda operation: _insert_stock(operation, spec, number),
    )


def _catalogued(body: StockSeed) -> GpuSpec:
    """Return the catalogue's entry, or a new one with the values of the request.

    Raises:
        InvalidSpec: a value differs from the entry.
        PhaseConflict: the entry was deleted at the same time.
    """
    entry = GpuSpec(
        name=body.spec_name,
        cpu=body.cpu or "",
        memory=body.memory or "",
        gpu=body.gpu or 0,
    )
    GpuSpec.objects.bulk_create([entry], ignore_conflicts=True)
    spec = GpuSpec.objects.filter(name=body.spec_name).first()
    if spec is None:
        msg = f"The GPU spec '{body.spec_name}' was deleted at the same time. Try again."
        raise PhaseConflict(msg)
    pairs = {
        "cpu": (body.cpu, spec.cpu),
        "memory": (body.memory, spec.memory),
        "gpu": (body.gpu, spec.gpu),
    }
    faults = [
        FieldError(name, f"The catalogue has {known or 'none'} for '{spec.name}', not {given}.")
        for name, (given, known) in pairs.items()
        if given is not None and given != known
    ]
    if faults:
        raise invalid_spec(faults)
    return spec


def _insert_stock(operation: Operation, spec: GpuSpec, number: int) -> int:
    """Insert the rows of a seeding and return the id of the first.

    The values of the catalogue are copied, so a change of the catalogue does not affect them.
    """
    batch = operation.object_name
    columns = spec_columns(_stock_spec(spec))
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
        msg = f"A stock unit whose name begins with '{batch}' exists already."
        raise NameConflict(msg)
    _set_total(operation, number)
    return inserted[0]


def _stock_spec(spec: GpuSpec) -> dict[str, Any]:
    placement = dict(spec.placement)
    if spec.product:
        selector = {**placement.get("nodeSelector", {}), "nvidia.com/gpu.product": spec.product}
        placement["nodeSelector"] = selector
    values = {"cpu": spec.cpu, "memory": spec.memory, "gpu": spec.gpu, "placement": placement}
    given = {key: value for key, value in values.items() if value}
    return parse_unit_spec({"specName": spec.name, **given}).normalised()


def _claim_for_removal(operation: Operation, rows: list[int]) -> int:
    if not rows:
        msg = "No unclaimed stock is left to remove."
        raise InsufficientCapacity(msg)
    claimed = GpuUnit.objects.filter(pk__in=rows)
    request_deletion(claimed, claimed_by=operation)
    append_history(claimed, operation)
    _set_total(operation, len(rows))
    return rows[0]


def _set_total(operation: Operation, number: int) -> None:
    operation.progress_total = number
    Operation.objects.filter(pk=operation.pk).update(progress_total=number)


def _unclaimed(spec_name: str) -> QuerySet[GpuUnit]:
    is_stock = Q(role=UnitRole.STOCK, deleted_at__isnull=True, consumed_by="")
    return GpuUnit.objects.filter(is_stock, claimed_by__isnull=True, spec_name=spec_name)


def _request(tenant: Tenant, kind: UnitOperation, operation_id: str, spec_name: str) -> Request:
    """Return a request whose object is its batch, so that it waits for no other operation."""
    batch = stock_batch_name(spec_name, tenant=tenant.name, operation_id=operation_id)
    request = Request(tenant, operation_id, kind, UNIT_KIND, STOCK_NAMESPACE, batch)
    return replace(request, urgency=urgency_of(UnitRole.STOCK))
