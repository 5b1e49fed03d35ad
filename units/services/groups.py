"""Accepts and records the creation and the deletion of groups of units.

A group has one operation, one request for capacity, and the rows of its units, which exist from
the acceptance. The operation claims a stock unit for each unit, all of them or none.
"""

from functools import partial

from django.db import transaction

from gpuplatform.errors import FieldError, InsufficientCapacity
from gpuplatform.kube.kinds import Manifest
from gpuplatform.metrics.declared import CLAIMS_REJECTED
from gpuplatform.metrics.recorder import count
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.registry import Done, Failed
from gpuplatform.operations.services import (
    Accepted,
    Admission,
    Request,
    name_conflict,
    operation_accept,
    row_insert,
    set_progress_total,
)
from gpuplatform.queueing import Queue, enqueue
from gpuplatform.reconciliation.mirror import request_deletion
from gpuplatform.tenancy.models import Tenant
from inventory.selectors import spec_requested
from units.core.groups import member_name
from units.core.spec import GPUUnitSpec
from units.core.withheld import withheld_text
from units.group_members import group_get, members_live
from units.history import append_history
from units.mirror import spec_columns, unit_gone, unit_recorded
from units.models import CapacityRequest, GpuUnit
from units.phases import UnitRole
from units.pods_seen import pods_expected
from units.requests import UnitGroupCreate
from units.selectors import claimable_stock, stock_withheld
from units.services.claims import (
    abandon,
    claim_all,
    consume_one,
    consumed_stock,
    reconcile_soon,
    release_claims,
)
from units.services.names import GROUP_KIND, UNIT_KIND, UnitOperation, UnitTask
from units.services.queue import (
    Claim,
    Claimed,
    Wanted,
    accept_group_in_line,
    check_possible,
    claim_within,
    earlier_operations,
    request_open,
    requests_close,
    supersede,
)
from units.services.quota import check_units, gpu_quota
from units.services.stock import restock
from units.waiting import unless_queued


def group_create(*, tenant: Tenant, body: UnitGroupCreate) -> Accepted:
    """Accept a request to create a group, insert the rows of its units, and claim their stock.

    The request is served last, as the request for one unit is. If too few stock units are left
    and the request waits, one request for the stock of all units is opened.

    Raises:
        InvalidSpec: If the priority exceeds the limit of the tenant, or if the GPU spec is not in
            the catalogue or is disabled.
        NameConflict: If the name of the group or of one of its units is in use.
        InsufficientCapacity: If too few stock units can be claimed; the request does not wait.
        CapacityExceeded: If the nodes could not have all units, even if they were empty.
        QueueFull: If too many requests wait for stock of the GPU spec, or too many of the tenant.
        QuotaExceeded: If a limit of the tenant does not allow all units, now or, if the request
            waits, ever.
        OperationConflict: If the operationID belongs to another request.
    """
    spec_name = body.unit.spec_name

    def prepare(operation: Operation, claim: Claim) -> int:
        if body.priority:  # A replay returns its operation in any case.
            rows = Tenant.objects.filter(pk=tenant.pk)
            body.check_priority(rows.values_list("max_priority", flat=True).get())
        gpus = body.size * spec_requested(spec_name).gpu
        check_units(operation, body.size)
        quota = gpu_quota(operation, operation.limits, spec_name)
        (quota.check if body.wait is None else quota.check_size)(gpus)
        units = _insert(operation, body)
        wanted = group_wanted(body, body.size)
        claimed = claim_within(quota, claim, operation, wanted, gpus)
        if claimed.stock is None:
            check_possible(wanted, "size")
        if claimed.stock is None and body.wait is None:
            count(CLAIMS_REJECTED, kind=UnitOperation.GROUP_CREATE)
            raise _insufficient(body, claimed)
        append_history(units, operation)
        if claimed.stock is None and body.wait is not None:
            request_open(operation, units[0], wanted, body.wait.duration, is_limited=True)
        return units[0].pk

    place = (GROUP_KIND, tenant.namespace, body.name)
    kind = UnitOperation.GROUP_CREATE
    request = Request(
        tenant,
        body.operation_id,
        kind,
        *place,
        payload=body.payload(),
        admission=Admission.WITHIN_LIMITS,
    )
    return accept_group_in_line(request, spec_name, prepare)


def group_request_deletion(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept a request to delete a group, and set the phase of all its units to `Terminating`.

    Raises:
        NotFound: If the group does not exist.
    """

    def prepare(operation: Operation) -> int:
        earlier = earlier_operations(operation, (UnitOperation.GROUP_CREATE,))
        first = group_get(tenant.namespace, name).first
        earlier += open_starts(tenant.namespace, name)
        rows = GpuUnit.objects.filter(pk__in=members_live(tenant.namespace, name).values("pk"))
        found = list(rows.order_by("id").select_for_update(no_key=True).values_list("pk"))
        supersede(earlier)
        ending = GpuUnit.objects.filter(
            pk__in=[pk for (pk,) in found], deletion_requested_at__isnull=True
        )
        numbers = list(ending.order_by("id").values_list("pk", flat=True))
        request_deletion(ending)
        append_history(GpuUnit.objects.filter(pk__in=numbers), operation)
        set_progress_total(operation, len(found))
        return first.pk

    place = (GROUP_KIND, tenant.namespace, name)
    kind = UnitOperation.GROUP_DELETE
    request = Request(tenant, operation_id, kind, *place, admission=Admission.ALWAYS)
    return operation_accept(request, prepare=prepare)


def group_wanted(body: UnitGroupCreate, size: int) -> Wanted:
    """Return the stock that `size` units of a group require."""
    return Wanted(body.unit.spec_name, image=body.unit.image, priority=body.priority, size=size)


def members_to_create(operation: Operation) -> list[GpuUnit]:
    """Return the rows of a group whose resource is not created yet, highest rank first.

    The row of rank 0, which is the object of the operation, is the last one: the GPUs of the
    claims of an operation count instead of the GPUs of its object.
    """
    rows = operation.gpu_units.filter(uid="", deleted_at__isnull=True)
    return list(rows.order_by("-group_rank"))


def member_created(operation: Operation, row_id: int, unit: Manifest) -> None:
    """Copy a created unit, consume its source, and enqueue both: they complete the hand-over."""
    unit_recorded(GpuUnit.objects.filter(pk=row_id, uid=""), unit)
    pods_expected(GpuUnit.objects.filter(pk=row_id))
    consume_one(operation, unit)
    reconcile_soon(consumed_stock(unit))
    reconcile_soon(GpuUnit.objects.filter(pk=row_id))
    done = operation.progress_total - len(members_to_create(operation))
    Operation.objects.filter(pk=operation.pk).update(progress_done=done)


def group_stock_missing(operation: Operation, deleted: GpuUnit | None) -> int:
    """Release a claimed stock unit whose resource was deleted; return the number that is missing.

    The other claims are kept, so that the group only waits for what it lost.
    """
    lost = GpuUnit.objects.filter(pk=deleted.pk if deleted else 0, claimed_by=operation)
    abandon(list(lost.select_for_update().values_list("pk", flat=True)))
    claimed = GpuUnit.objects.filter(claimed_by=operation).count()
    return max(0, len(members_to_create(operation)) - claimed)


def group_claim(operation: Operation, wanted: Wanted) -> bool:
    """Claim the stock that a group lost, unless requests are open; return whether it was claimed.

    Locked rows are skipped: the transaction has no turn.
    """
    free = unless_queued(claimable_stock(wanted.spec_name), wanted.spec_name)
    return claim_all(operation, free, wanted.size, waits=False, image=wanted.image) is not None


def settle_group_create(operation: Operation, outcome: Done | Failed) -> None:
    """Release what a group still claims; if it failed, close or delete all of its units.

    The units that exist are leftovers (`units.makers`). A hint has them deleted immediately.
    """
    requests_close(CapacityRequest.objects.filter(operation=operation))
    release_claims(operation)
    if isinstance(outcome, Failed):
        rows = GpuUnit.objects.filter(operation=operation, deleted_at__isnull=True)
        unit_gone(rows.filter(uid=""), None)
        ending = list(rows.exclude(uid="").filter(deletion_requested_at__isnull=True))
        request_deletion(GpuUnit.objects.filter(pk__in=[one.pk for one in ending]))
        append_history(GpuUnit.objects.filter(pk__in=[one.pk for one in ending]), operation)
        if ending:
            transaction.on_commit(_hint_leftovers, robust=True)


def _hint_leftovers() -> None:
    enqueue(UnitTask.DELETE_LEFTOVERS, queue=Queue.PERIODIC)


def settle_group_delete(operation: Operation, outcome: Done | Failed) -> None:
    """Enqueue the units, so that the reconciler confirms their deletion, and restock."""
    if isinstance(outcome, Done):
        rows = members_live(operation.object_namespace, operation.object_name)
        reconcile_soon(GpuUnit.objects.filter(pk__in=rows.values("pk")))
        for unit in rows:
            restock(unit)


def _insert(operation: Operation, body: UnitGroupCreate) -> list[GpuUnit]:
    """Insert the rows of the units of a new group and return them by rank.

    Raises:
        NameConflict: If the name of the group is in use.
    """
    set_progress_total(operation, body.size)
    members = members_live(operation.object_namespace, body.name)
    if members.exists():
        raise name_conflict(GpuUnit.objects.filter(pk__in=members), f"unit group '{body.name}'")
    # The size of a unit is copied from its resource: until then, the claims of the group count.
    size = GPUUnitSpec.parse({"specName": body.unit.spec_name})
    units: list[GpuUnit] = []
    for rank in range(body.size):
        row = GpuUnit(
            role=UnitRole.ACTIVE,
            tenant=operation.tenant,
            operation=operation,
            namespace=operation.object_namespace,
            name=member_name(body.name, rank),
            **spec_columns(body.spec(rank, size).normalised()),
        )
        holders = GpuUnit.objects.filter(namespace=row.namespace, name=row.name)
        row_insert(row, partial(name_conflict, holders, f"GPU unit '{row.name}'"))
        units.append(row)
    return units


def open_starts(namespace: str, group: str) -> list[int]:
    """Lock the open starts of the units of a group, and return their ids."""
    names = members_live(namespace, group).order_by().values_list("name", flat=True)
    starts = Operation.objects.filter(
        object_kind=UNIT_KIND,
        object_namespace=namespace,
        object_name__in=list(names),
        kind=UnitOperation.START,
        phase__in=OPEN_PHASES,
    )
    locked = starts.order_by("id").select_for_update(of=("self",), no_key=True)
    return list(locked.values_list("id", flat=True))


def _insufficient(body: UnitGroupCreate, claimed: Claimed) -> InsufficientCapacity:
    spec_name = body.unit.spec_name
    withheld = withheld_text(stock_withheld(spec_name))
    msg = (
        f"The group needs {body.size} stock units of the GPU spec '{spec_name}', and"
        f" {claimed.left} can be claimed.{withheld} Send `wait` to join the queue, or try again"
        " later."
    )
    details = [FieldError("size", f"{body.size} needed, {claimed.left} can be claimed.")]
    return InsufficientCapacity(msg, details=details, waiting=claimed.waiting)
