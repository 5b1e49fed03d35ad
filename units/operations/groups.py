"""Executes the creation and the deletion of groups of units.

Each unit is created and recorded before the next one, with one of the claimed stock units as its
source, as for a single unit (rules of the hand-over). No unit is created while stock is missing.
"""

from gpuplatform.errors import InvalidSpec
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationWait
from gpuplatform.operations.provenance import bears, marks
from gpuplatform.operations.registry import (
    Checkpoint,
    Done,
    Failed,
    Outcome,
    RetryRequest,
    Step,
    Waiting,
)
from gpuplatform.operations.selectors import operation_of
from gpuplatform.operations.services import Accepted
from gpuplatform.operations.target import LEFTOVER_SECONDS
from units.core.manifests import resource
from units.core.sources import SourceReference
from units.core.spec import GPUUnitSpec
from units.group_members import members_live
from units.makers import is_unit_leftover
from units.models import CapacityRequest, GpuUnit
from units.operations.handover import preference, read_stock
from units.operations.waits import expired, superseded, wait_for_grant
from units.phases import RequestPhase
from units.requests import UnitGroupCreate
from units.services.groups import (
    group_claim,
    group_create,
    group_request_deletion,
    group_stock_missing,
    group_wanted,
    member_created,
    members_to_create,
)
from units.services.queue import DEFAULT_WAIT, request_open


def create(cluster: Cluster, operation: Operation) -> Step:
    """Create the next unit of the group, if stock is claimed for all units that are missing.

    Units that exist already are recorded first (rule `getfirst`): they need no stock. All names
    are checked before the first unit is created.
    """
    members = members_to_create(operation)
    if not members:
        return Done()
    is_complete = GpuUnit.objects.filter(claimed_by=operation).count() >= len(members)
    is_begun = len(members) < operation.progress_total
    for member in members[:1] if is_complete and is_begun else members:
        found = cluster.get(GPU_UNIT, member.name, namespace=member.namespace)
        if found is not None:
            return _existing(operation, member, found)
    return _post(cluster, operation, members[0]) if is_complete else _assign(None)


def delete(cluster: Cluster, operation: Operation) -> Done:
    """Delete the units of the group by UID. Succeeds if none exists."""
    members = members_live(operation.object_namespace, operation.object_name)
    for member in members.exclude(uid="").filter(deletion_requested_at__isnull=False):
        cluster.delete(GPU_UNIT, member.name, namespace=member.namespace, uid=member.uid)
    return Done()


def retry_create(retry: RetryRequest) -> Accepted:
    """Request the creation of the group again, with currently ready stock."""
    body = UnitGroupCreate.parse(retry.payload())
    return group_create(tenant=retry.failed.tenant, body=body)


def retry_delete(retry: RetryRequest) -> Accepted:
    """Request the deletion of the group again."""
    failed = retry.failed
    return group_request_deletion(
        tenant=failed.tenant, name=failed.object_name, operation_id=retry.operation_id
    )


def _post(cluster: Cluster, operation: Operation, member: GpuUnit) -> Step:
    stock, live = read_stock(cluster, operation)
    if stock is None or live is None:
        return _assign(stock)
    body = _body(operation)
    try:
        spec = body.spec(member.group_rank or 0, GPUUnitSpec.parse(live.get("spec") or {}))
    except InvalidSpec as error:
        return Failed(
            "invalid_request", f"The stock unit '{stock.name}' has an invalid spec: {error}"
        )
    source = SourceReference(stock.name, stock.uid)
    annotations = {**marks(operation), **source.annotations(), **preference(stock)}
    manifest = resource(member.namespace, member.name, spec, annotations)
    return _recorded(member, cluster.create(GPU_UNIT, manifest))


def _recorded(member: GpuUnit, unit: Manifest) -> Step:
    return Checkpoint(lambda fresh: member_created(fresh, member.pk, unit))


def _existing(operation: Operation, member: GpuUnit, found: Manifest) -> Step:
    """Return the step that records a unit that has the name of `member`, if it is its unit."""
    if bears(found, operation):
        return _recorded(member, found)
    if is_unit_leftover(found, operation_of(found)):
        return Waiting(
            OperationWait.LEFTOVER_CONFLICT,
            "An ended operation created an object with the name. The platform deletes it.",
            LEFTOVER_SECONDS,
        )
    return Failed(
        "name_conflict",
        f"Another GPU unit '{member.name}' already exists in the namespace '{member.namespace}'."
        " Choose another name for the group.",
    )


def _assign(deleted: GpuUnit | None) -> Step:
    """Return the step that claims the missing stock, or waits for it."""

    def record(fresh: Operation) -> Outcome | None:
        missing = group_stock_missing(fresh, deleted)
        request = CapacityRequest.objects.filter(operation=fresh).first()
        if request is not None and request.phase == RequestPhase.OPEN:
            return wait_for_grant(request)
        if not missing:
            return None  # The matcher granted the stock since the claims were read.
        if request is not None and request.phase == RequestPhase.CLOSED:
            return superseded(fresh) or expired(request)
        wanted = group_wanted(_body(fresh), missing)
        if group_claim(fresh, wanted):
            return None
        return superseded(fresh) or wait_for_grant(
            request_open(
                fresh, members_to_create(fresh)[-1], wanted, DEFAULT_WAIT, is_limited=False
            )
        )

    return Checkpoint(record)


def _body(operation: Operation) -> UnitGroupCreate:
    """Return the request, which was validated when it was accepted."""
    return UnitGroupCreate.parse({**operation.payload, "operationID": operation.operation_id})
