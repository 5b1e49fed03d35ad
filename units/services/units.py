"""Accepts requests to create, change, stop, start and delete GPU units."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from gpuplatform.errors import InsufficientCapacity, InvalidSpec, PhaseConflict
from gpuplatform.metrics.declared import CLAIMS_REFUSED
from gpuplatform.metrics.recorder import count
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, Request, name_conflict, operation_accept
from gpuplatform.operations.versions import IF_MATCH, check_version, version_of
from gpuplatform.reconciliation.mirror import request_deletion
from gpuplatform.tenancy.models import Tenant
from units.core.spec import GPUUnitSpec
from units.history import append_history
from units.mirror import spec_columns
from units.models import GpuUnit
from units.phases import UnitRole
from units.requests import GpuUnitCreate, GpuUnitUpdate
from units.selectors import unit_get
from units.services.claims import claim, claimable_stock
from units.services.names import UNIT_KIND, UnitOperation


def unit_create(*, tenant: Tenant, body: GpuUnitCreate) -> Accepted:
    """Accept a request to create a unit, insert its row, and claim a ready stock unit.

    Raises:
        InvalidSpec: If the namespace is not the namespace of the tenant.
        NameConflict: If the name is in use.
        InsufficientCapacity: If no stock unit of the GPU spec can be claimed, or if the named
            stock unit cannot be claimed.
        OperationConflict: If the operationID belongs to another request.
    """
    body.check_namespace(tenant.namespace)

    def prepare(operation: Operation) -> int:
        unit = _insert(operation, body)
        free = claimable_stock(body.spec_name, stock_name=body.stock_name or "")
        stock = claim(operation, free, waits=True)
        if stock is None:
            count(CLAIMS_REFUSED, kind=UnitOperation.CREATE)
            raise _insufficient(body)
        with suppress(InvalidSpec):  # The worker reports an invalid spec of the stock unit.
            wanted = body.spec(GPUUnitSpec.parse(stock.spec)).normalised()
            GpuUnit.objects.filter(pk=unit.pk).update(**spec_columns(wanted))
        append_history([unit], operation)
        return unit.pk

    request = _request(tenant, UnitOperation.CREATE, body.operation_id, body.name, body.payload())
    return operation_accept(request, prepare=prepare)


def unit_update(
    *, tenant: Tenant, name: str, body: GpuUnitUpdate, etag: str | None = None
) -> Accepted:
    """Accept a request to change a unit. If `etag` is specified, only that version is changed.

    Raises:
        NotFound: If the unit does not exist.
        PhaseConflict: If the unit is being deleted.
        StaleEtag: If the unit is not at version `etag`, or if a change is in progress.
        InvalidSpec: If the changed spec is invalid.
    """

    def check(operation: Operation, unit: GpuUnit) -> None:
        current = version_of(unit.uid, unit.generation)
        check_version(operation, etag, current, f"the GPU unit '{name}'")
        body.applied_to(GPUUnitSpec.parse(unit.spec))

    payload = body.payload() | ({} if etag is None else {IF_MATCH: etag})
    request = _request(tenant, UnitOperation.UPDATE, body.operation_id, name, payload)
    return operation_accept(request, prepare=_changing(tenant, name, check))


def unit_stop(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept a request to stop a unit, which releases its GPUs and keeps its name and spec.

    Raises:
        NotFound: If the unit does not exist.
        PhaseConflict: If the unit is being deleted.
    """
    request = _request(tenant, UnitOperation.STOP, operation_id, name)
    return operation_accept(request, prepare=_changing(tenant, name))


def unit_start(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept a request to start a stopped unit, and claim a ready stock unit.

    If no stock unit is ready, the operation waits with the reason `WaitingForStock`.

    Raises:
        NotFound: If the unit does not exist.
        PhaseConflict: If the unit is being deleted.
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
    """Accept a request to delete a unit, and set its phase to `Terminating`.

    Raises:
        NotFound: If the unit does not exist.
    """

    def prepare(operation: Operation) -> int:
        unit = unit_get(tenant.namespace, name, for_update=True)
        rows = GpuUnit.objects.filter(pk=unit.pk, deletion_requested_at__isnull=True)
        if request_deletion(rows):
            append_history(GpuUnit.objects.filter(pk=unit.pk), operation)
        return unit.pk

    request = _request(tenant, UnitOperation.DELETE, operation_id, name)
    return operation_accept(request, prepare=prepare)


def _changing(
    tenant: Tenant, name: str, check: Callable[[Operation, GpuUnit], None] = lambda *_: None
) -> Callable[[Operation], int]:
    """Return a `prepare` function that locks the unit and checks that it can be changed."""

    def prepare(operation: Operation) -> int:
        unit = unit_get(tenant.namespace, name, for_update=True)
        if unit.deletion_requested_at:
            msg = f"The GPU unit '{name}' is being deleted. Wait until it is deleted."
            raise PhaseConflict(msg)
        check(operation, unit)
        return unit.pk

    return prepare


def _insert(operation: Operation, body: GpuUnitCreate) -> GpuUnit:
    """Insert the row of a new unit and return it.

    Raises:
        NameConflict: If the name is in use.
    """
    row = GpuUnit(
        role=UnitRole.ACTIVE,
        tenant=operation.tenant,
        operation=operation,
        namespace=operation.object_namespace,
        name=body.name,
        spec_name=body.spec_name,
    )
    # The unique constraint decides: of two concurrent inserts, the second inserts no row.
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
            " claimed, because it is not ready or is already claimed. Choose another one."
        )
    else:
        msg = f"No stock unit of the GPU spec '{body.spec_name}' is ready. Try again later."
    return InsufficientCapacity(msg)


def _request(
    tenant: Tenant,
    kind: UnitOperation,
    operation_id: str,
    name: str,
    payload: Mapping[str, Any] | None = None,
) -> Request:
    namespace = tenant.namespace
    return Request(tenant, operation_id, kind, UNIT_KIND, namespace, name, payload=payload or {})
