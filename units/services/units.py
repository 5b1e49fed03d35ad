"""Accepts requests to create, change, stop, start and delete GPU units."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from gpuplatform.audit.core.changes import Target
from gpuplatform.errors import FieldError, InsufficientCapacity, InvalidSpec, PhaseConflict
from gpuplatform.metrics.declared import CLAIMS_REJECTED
from gpuplatform.metrics.recorder import count
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.services import (
    Accepted,
    Admission,
    Request,
    name_conflict,
    operation_accept,
    row_insert,
)
from gpuplatform.operations.versions import IF_MATCH, check_version, version_of
from gpuplatform.reconciliation.mirror import request_deletion
from gpuplatform.tenancy.models import Tenant
from inventory.selectors import spec_requested
from units.core.spec import GPUUnitSpec
from units.core.withheld import withheld_text
from units.history import append_history
from units.mirror import spec_columns
from units.models import CapacityRequest, GpuUnit
from units.phases import RequestPhase, UnitRole
from units.requests import GpuUnitCreate, GpuUnitUpdate, Wait, WorkerUnitCreate
from units.selectors import stock_withheld, unit_get
from units.services.names import UNIT_KIND, UnitOperation
from units.services.queue import (
    DEFAULT_WAIT,
    Claim,
    Wanted,
    accept_in_line,
    check_possible,
    claim_within,
    earlier_operations,
    request_open,
    supersede,
    wanted_by,
)
from units.services.quota import check_units, gpu_quota


def unit_create(*, tenant: Tenant, body: GpuUnitCreate) -> Accepted:
    """Accept a request to create a unit, insert its row, and claim a ready stock unit.

    The request is served last: it gets stock that the open requests of the GPU spec leave. If
    they leave no stock and the request waits, a request for capacity is opened.

    Raises:
        InvalidSpec: If the namespace is not the namespace of the tenant, if the priority exceeds
            the limit of the tenant, or if the GPU spec is not in the catalogue or is disabled.
        NameConflict: If the name is in use.
        InsufficientCapacity: If no stock unit of the GPU spec can be claimed, or if the named
            stock unit cannot be claimed; the request does not wait.
        CapacityExceeded: If no node is large enough for a unit of the GPU spec.
        QueueFull: If too many requests wait for stock of the GPU spec, or too many of the tenant.
        QuotaExceeded: If a limit of the tenant does not allow the unit now or, if the request
            waits, ever.
        OperationConflict: If the operationID belongs to another request.
    """
    body.check_namespace(tenant.namespace)

    def prepare(operation: Operation, claim: Claim) -> int:
        # What can change later is checked here: a replay returns its operation in any case.
        if body.priority:
            rows = Tenant.objects.filter(pk=tenant.pk)
            body.check_priority(rows.values_list("max_priority", flat=True).get())
        spec = spec_requested(body.spec_name)
        is_worker = isinstance(body, WorkerUnitCreate)
        check_units(operation, 1, is_worker=is_worker)
        quota = gpu_quota(operation, operation.limits, body.spec_name)
        # The activator asks again later: a worker never waits for a limit.
        (quota.check if body.wait is None or is_worker else quota.check_size)(spec.gpu)
        unit = _insert(operation, body)
        wanted = Wanted(
            body.spec_name,
            stock_name=body.stock_name or "",
            image=body.image,
            priority=body.priority,
            is_preemptible=body.preemptible,
        )
        claimed = claim_within(quota, claim, operation, wanted, spec.gpu)
        if claimed.stock is None and not body.stock_name:
            check_possible(wanted, "specName")
        if claimed.stock is None and body.wait is None:
            count(CLAIMS_REJECTED, kind=UnitOperation.CREATE)
            raise _insufficient(body, claimed.waiting)
        size = {"specName": body.spec_name} if claimed.stock is None else claimed.stock.spec
        with suppress(InvalidSpec):  # The worker reports an invalid spec of the stock unit.
            columns = spec_columns(body.spec(GPUUnitSpec.parse(size)).normalised())
            GpuUnit.objects.filter(pk=unit.pk).update(**columns)
        append_history([unit], operation)
        if claimed.stock is None and body.wait is not None:
            request_open(operation, unit, wanted, body.wait.duration, is_limited=True)
        return unit.pk

    payload = body.payload()
    request = _request(tenant, UnitOperation.CREATE, body.operation_id, body.name, payload)
    return accept_in_line(request, prepare, spec_name=body.spec_name)


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
        body.applied_to(unit.spec)

    payload = body.payload() | ({} if etag is None else {IF_MATCH: etag})
    request = _request(tenant, UnitOperation.UPDATE, body.operation_id, name, payload)
    return operation_accept(request, prepare=_changing(tenant, name, check))


def unit_stop(
    *, tenant: Tenant, name: str, operation_id: str, also_of_group: bool = False
) -> Accepted:
    """Accept a request to stop a unit, which releases its GPUs and keeps its name and spec.

    A unit of a group is stopped (`also_of_group`) with its whole group, by the suspension of its
    tenant, or by the drain of its node.

    Raises:
        NotFound: If the unit does not exist.
        PhaseConflict: If the unit is being deleted, or belongs to a group.
    """
    check = _any_unit if also_of_group else _is_not_in_a_group
    lock = _changing(tenant, name, check)

    def prepare(operation: Operation) -> int:
        earlier = earlier_operations(operation, (UnitOperation.START,))
        row_id = lock(operation)
        supersede(earlier)
        return row_id

    request = _request(tenant, UnitOperation.STOP, operation_id, name)
    return operation_accept(request, prepare=prepare)


def unit_start(
    *, tenant: Tenant, name: str, operation_id: str, wait: Wait | None = None
) -> Accepted:
    """Accept a request to start a stopped unit, and claim a ready stock unit of its resource.

    If the open requests of the GPU spec leave no stock, a request for capacity is opened, which
    ends after `wait` (by default `DEFAULT_WAIT`).

    Raises:
        NotFound: If the unit does not exist.
        PhaseConflict: If the unit is being deleted or belongs to a group, or if an earlier start
            waits for stock.
        CapacityExceeded: If no node is large enough for a unit of the GPU spec.
        QuotaExceeded: If the unit needs more than a limit of the tenant. If the tenant uses too
            much now, the start waits.
    """
    lock = _changing(tenant, name, _can_start)

    def prepare(operation: Operation, claim: Claim) -> int:
        found = unit_get(tenant.namespace, name)  # Rule `unitafter`: the tenant is locked first.
        quota = gpu_quota(operation, operation.limits, found.spec_name, unit=found.pk)
        row_id = lock(operation)
        unit = GpuUnit.objects.get(pk=row_id)
        quota.check_size(unit.gpu)
        wanted = wanted_by(unit)
        if claim_within(quota, claim, operation, wanted, unit.gpu).stock is None:
            check_possible(wanted, "")
            duration = DEFAULT_WAIT if wait is None else wait.duration
            request_open(operation, unit, wanted, duration, is_limited=False)
        return row_id

    payload = {} if wait is None else {"wait": wait.normalised()}
    request = _request(tenant, UnitOperation.START, operation_id, name, payload)
    return accept_in_line(request, prepare)


def unit_request_deletion(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept a request to delete a unit, and set its phase to `Terminating`.

    Raises:
        NotFound: If the unit does not exist.
        PhaseConflict: If the unit belongs to a group.
    """

    def prepare(operation: Operation) -> int:
        earlier = earlier_operations(operation, (UnitOperation.CREATE, UnitOperation.START))
        unit = unit_get(tenant.namespace, name, for_update=True)
        _is_not_in_a_group(operation, unit)
        supersede(earlier)
        operation.target = Target(unit.uid)
        rows = GpuUnit.objects.filter(pk=unit.pk, deletion_requested_at__isnull=True)
        if request_deletion(rows):
            append_history(GpuUnit.objects.filter(pk=unit.pk), operation)
        return unit.pk

    request = _request(tenant, UnitOperation.DELETE, operation_id, name)
    return operation_accept(request, prepare=prepare)


def _any_unit(_: Operation, __: GpuUnit) -> None:
    """Allow a change of each unit."""


def _changing(
    tenant: Tenant, name: str, check: Callable[[Operation, GpuUnit], None]
) -> Callable[[Operation], int]:
    """Return a `prepare` function that locks the unit and checks that it can be changed."""

    def prepare(operation: Operation) -> int:
        unit = unit_get(tenant.namespace, name, for_update=True)
        if unit.deletion_requested_at:
            msg = f"The GPU unit '{name}' is being deleted. Wait until it is deleted."
            raise PhaseConflict(msg)
        check(operation, unit)
        operation.target = Target(unit.uid, unit.spec)
        return unit.pk

    return prepare


def _is_not_in_a_group(_: Operation, unit: GpuUnit) -> None:
    """Check that a unit can be stopped, started or deleted alone.

    Raises:
        PhaseConflict: If the unit belongs to a group, which is complete or has no units.
    """
    if unit.group_name:
        msg = (
            f"The GPU unit '{unit.name}' belongs to the group '{unit.group_name}', whose units run"
            " together. Stop, start or delete the group instead."
        )
        raise PhaseConflict(msg, details=[FieldError("group", unit.group_name)])


def _can_start(operation: Operation, unit: GpuUnit) -> None:
    _is_not_in_a_group(operation, unit)
    _no_start_waits(operation, unit)


def _no_start_waits(operation: Operation, unit: GpuUnit) -> None:
    """Check that no earlier start of the unit waits for stock.

    Raises:
        PhaseConflict: If one waits. The new start would wait for the same unit.
    """
    requests = CapacityRequest.objects.filter(
        unit=unit,
        phase=RequestPhase.OPEN,
        operation__kind=UnitOperation.START,
        operation__phase__in=OPEN_PHASES,
    )
    first = requests.exclude(operation=operation).select_related("operation").first()
    if first is not None:
        msg = (
            f"The GPU unit '{unit.name}' is already being started: the operation '{first}' waits"
            " for stock. Wait, or cancel that operation."
        )
        raise PhaseConflict(msg, details=[FieldError("operationID", str(first))])


def _insert(operation: Operation, body: GpuUnitCreate) -> GpuUnit:
    """Insert the row of a new unit and return it."""
    row = GpuUnit(
        role=UnitRole.ACTIVE,
        tenant=operation.tenant,
        operation=operation,
        namespace=operation.object_namespace,
        name=body.name,
        spec_name=body.spec_name,
    )
    holders = GpuUnit.objects.filter(namespace=row.namespace, name=row.name)
    row_insert(row, partial(name_conflict, holders, f"GPU unit '{body.name}'"))
    return row


def _insufficient(body: GpuUnitCreate, waiting: int) -> InsufficientCapacity:
    if body.stock_name:
        msg = (
            f"The stock unit '{body.stock_name}' of the GPU spec '{body.spec_name}' cannot be"
            " claimed, because it is not ready or is already claimed. Choose another one."
        )
    elif waiting:
        requests = "1 request waits" if waiting == 1 else f"{waiting} requests wait"
        msg = (
            f"No stock unit of the GPU spec '{body.spec_name}' is left, because {requests} for"
            " it. Send `wait` to join the queue."
        )
    else:
        withheld = withheld_text(stock_withheld(body.spec_name))
        msg = (
            f"No stock unit of the GPU spec '{body.spec_name}' is ready.{withheld} Try again"
            " later."
        )
    return InsufficientCapacity(msg, waiting=waiting)


def _request(
    tenant: Tenant,
    kind: UnitOperation,
    operation_id: str,
    name: str,
    payload: Mapping[str, Any] | None = None,
) -> Request:
    place = (UNIT_KIND, tenant.namespace, name)
    is_release = kind in {UnitOperation.STOP, UnitOperation.DELETE}
    return Request(
        *(tenant, operation_id, kind, *place),
        payload=payload or {},
        admission=Admission.ALWAYS if is_release else Admission.WITHIN_LIMITS,
    )
