"""Accepts requests to create, change, stop, start and delete GPU units."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from gpuplatform.errors import (
    InsufficientCapacity,
    InvalidSpec,
    NotFound,
    PhaseConflict,
)
from gpuplatform.metrics.declared import CLAIMS_REFUSED
from gpuplatform.metrics.recorder import count
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, Request, name_conflict, operation_accept
from gpuplatform.operations.versions import IF_MATCH, check_version, version_of
from gpuplatform.reconciliation.mirror import request_deletion
from gpuplatform.tenancy.models import Tenant
from units.core.spec import parse_unit_spec
from units.history import append_history
from units.mirror import spec_columns
from units.models import GpuUnit
from units.phases import UnitRole
from units.requests import GpuUnitCreate, GpuUnitUpdate
from units.selectors import unit_get
from units.services.claims import claim, claimable_stock
from units.services.names import UNIT_KIND, UnitOperation


def unit_create(*, tenant: Tenant, body: GpuUnitCreate) -> Accepted:
    """Accept the creation of a unit: insert its row and claim a ready stock unit for it.

    Raises:
        InvalidSpec: the namespace is not the tenant's.
        NameConflict: the name is in use.
        InsufficientCapacity: no stock of that spec, or not the named stock unit, can be claimed.
        OperationConflict: the operationID belongs to another request.
    """
    body.check_namespace(tenant.namespace)

    def prepare(operation: Operation) -> int:
        unit = _insert(operation, body)
        free = claimable_stock(body.spec_name, stock_name=body.stock_name or "")
        stock = claim(operation, free, waits=True)
        if stock is None:
            count(CLAIMS_REFUSED, kind=UnitOperation.CREATE)
            raise _insufficient(body)
        with suppress(InvalidSpec):  # The stock was edited by hand; the worker reports it.
            wanted = body.spec(parse_unit_spec(stock.spec)).normalised()
            GpuUnit.objects.filter(pk=unit.pk).update(**spec_columns(wanted))
        append_history([unit], operation)
        return unit.pk

    request = _request(tenant, UnitOperation.CREATE, body.operation_id, body.name)
    return operation_accept(replace(request, payload=body.payload()), prepare=prepare)


def unit_update(
    *, tenant: Tenant, name: str, body: GpuUnitUpdate, etag: str | None = None
) -> Accepted:
    """Accept a change of a unit; with `etag`, of exactly that version of it.

    Raises:
        NotFound: the unit does not exist.
        PhaseConflict: it is being deleted.
        StaleEtag: it was changed after the caller read it, or a change is in progress.
        InvalidSpec: the changed spec breaks a rule.
    """

    def check(operation: Operation, unit: GpuUnit) -> None:
        current = version_of(unit.uid, unit.generation)
        check_version(operation, etag, current, f"the GPU unit '{name}'")
        body.applied_to(parse_unit_spec(unit.spec))

    request = _request(tenant, UnitOperation.UPDATE, body.operation_id, name)
    version = {} if etag is None else {IF_MATCH: etag}
    payload = {**body.payload(), **version}
    return operation_accept(
        replace(request, payload=payload), prepare=_changing(tenant, name, check)
    )


def unit_stop(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept the stop of a unit: it releases its GPUs and keeps its name.

    Raises:
        NotFound: the unit does not exist.
        PhaseConflict: it is being deleted.
    """
    request = _request(tenant, UnitOperation.STOP, operation_id, name)
    return operation_accept(request, prepare=_changing(tenant, name))


def unit_start(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept the start of a stopped unit, and claim ready stock for it.

    Without ready stock the operation waits with the reason `WaitingForStock`.

    Raises:
        NotFound: the unit does not exist.
        PhaseConflict: it is being deleted.
    """
    lock = _changing(tenant, name)

    def prepare(operation: Operation) -> int:
        row_id = lock(operation)
        spec_name = GpuUnit.objects.values_list("spec_name", flat=True).get(pk=row_id)
        claim(operation, claimable_stock(spec_name), waits=True)
        return row_id

    request = _request(tenant, UnitOperation.START, operation_id, name)
    return operation_accept(request, prepare=prepare)


def unit_request_deletion(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept the deletion of a unit; its phase is `Terminating` from then on.

    Raises:
        NotFound: the unit does not exist.
    """

    def prepare(operation: Operation) -> int:
        unit = _locked(tenant, name)
        rows = GpuUnit.objects.filter(pk=unit.pk, deletion_requested_at__isnull=True)
        if request_deletion(rows):
            append_history(GpuUnit.objects.filter(pk=unit.pk), operation)
        return unit.pk

    request = _request(tenant, UnitOperation.DELETE, operation_id, name)
    return operation_accept(request, prepare=prepare)


def _changing(
    tenant: Tenant, name: str, check: Callable[[Operation, GpuUnit], None] = lambda *_: None
) -> Callable[[Operation], int]:
    """Return a `prepare` that locks the row of a unit, and checks that it may be changed."""

    def prepare(operation: Operation) -> int:
        unit = _locked(tenant, name)
        if unit.deletion_requested_at:
            msg = f"The GPU unit '{name}' is being deleted. Wait until it is deleted."
            raise PhaseConflict(msg)
        check(operation, unit)
        return unit.pk

    return prepare


def _insert(operation: Operation, body: GpuUnitCreate) -> GpuUnit:
    """Insert the row of a new unit and return it.

    Raises:
        NameConflict: the name is in use.
    """
    row = GpuUnit(
        role=UnitRole.ACTIVE,
        tenant=operation.tenant,
        operation=operation,
        namespace=operation.object_namespace,
        name=body.name,
        spec_name=body.spec_name,
    )
    # The unique name decides: of two concurrent inserts the second one inserts nothing.
    GpuUnit.objects.bulk_create([row], ignore_conflicts=True)
    row_id = operation.gpu_units.values_list("id", flat=True).first()
    if row_id is None:
        holders = GpuUnit.objects.filter(namespace=row.namespace, name=row.name)
        raise name_conflict(holders, f"GPU unit '{body.name}'")
    row.pk = row_id
    return row


def _insufficient(body: GpuUnitCreate) -> InsufficientCapacity:
    if body.stock_name:
        msg = (
            f"The stock unit '{body.stock_name}' of the GPU spec '{body.spec_name}' cannot be"
            " claimed: it is not ready, or it is claimed. Choose another one."
        )
    else:
        msg = f"No stock of the GPU spec '{body.spec_name}' is ready. Try again later."
    return InsufficientCapacity(msg)


def _locked(tenant: Tenant, name: str) -> GpuUnit:
    """Return the live unit, locked, so that operations on it are accepted in one order.

    Raises:
        NotFound: the unit does not exist.
    """
    unit = unit_get(tenant.namespace, name)
    rows = GpuUnit.objects.select_for_update().filter(pk=unit.pk, deleted_at__isnull=True)
    found = rows.first()
    if found is None:
        msg = f"The GPU unit '{name}' does not exist."
        raise NotFound(msg)
    return found


def _request(tenant: Tenant, kind: UnitOperation, operation_id: str, name: str) -> Request:
    return Request(tenant, operation_id, kind, UNIT_KIND, tenant.namespace, name)
