"""Starts a unit that cannot start on its node once more, with a stock unit of another node."""

from typing import Final

from django.db import transaction
from django.db.models import Q, QuerySet, Subquery

from gpuplatform.errors import RequestError
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.automatic import automatic_id
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.provenance import applied_operation
from gpuplatform.operations.services import Request, operation_accept
from gpuplatform.tenancy.models import Tenant
from gpuplatform.workloads.causes import StartupCause
from units.models import GpuUnit, UnitHistory
from units.phases import UnitPhase, UnitRole
from units.selectors import claimable_stock
from units.services.claims import claim
from units.services.names import UNIT_KIND, UnitOperation
from units.waiting import unless_queued

AVOIDED_NODE: Final = "avoidedNode"
"""The field of the payload of a start that names the node that its pod must avoid."""


class _NotEligible(Exception):
    """The unit cannot be started on another node now, so that nothing is accepted."""


def unit_start_elsewhere(unit: Manifest, node: str) -> bool:
    """Accept a stop of a unit, and a start that claims a ready stock unit of another node.

    The last comparison of nodes with their pods recorded the nodes of stock units. Both operations
    are accepted in one transaction, or none. Their operationIDs contain the last operation that
    was applied to the unit, so that a repeated call accepts nothing.

    Args:
        unit: The unit, whose row must report a failed image pull, or that no node accepts its pod.
        node: The node that the unit must avoid.

    Returns:
        Whether the operations were accepted.
    """
    row = _eligible().filter(uid=unit["metadata"]["uid"]).select_related("tenant").first()
    if row is None or row.tenant is None or not _stock(row, node).exists():
        return False
    if row.cause == StartupCause.UNSCHEDULABLE and _has_started(row, applied_operation(unit)):
        return False
    place = ("other-node", row.pk, applied_operation(unit))
    try:
        with transaction.atomic():
            _accept_stop(row, row.tenant, automatic_id(*place, "stop"))
            _accept_start(row, row.tenant, automatic_id(*place, "start"), node)
    except (RequestError, _NotEligible):
        return False
    return True


def _has_started(row: GpuUnit, start: int) -> bool:
    """Return whether a unit was ready since the operation that started it."""
    started_at = Operation.objects.filter(pk=start).values("created_at")[:1]
    ready = UnitHistory.objects.filter(unit=row, phase=UnitPhase.READY)
    return ready.filter(at__gt=Subquery(started_at)).exists()


def _accept_stop(row: GpuUnit, tenant: Tenant, operation_id: str) -> None:
    def prepare(operation: Operation) -> int:
        about = Operation.objects.filter(
            object_kind=UNIT_KIND, object_namespace=row.namespace, object_name=row.name
        )
        is_open = about.filter(phase__in=OPEN_PHASES).exclude(pk=operation.pk).exists()
        still = _eligible().filter(pk=row.pk).select_for_update(of=("self",))
        if is_open or not still.exists():
            raise _NotEligible
        return row.pk

    place = (UNIT_KIND, row.namespace, row.name)
    request = Request(tenant, operation_id, UnitOperation.STOP, *place)
    if operation_accept(request, prepare=prepare).is_replay:
        raise _NotEligible


def _accept_start(row: GpuUnit, tenant: Tenant, operation_id: str, node: str) -> None:
    def prepare(operation: Operation) -> int:
        # While requests are open, the stock is kept for them.
        elsewhere = unless_queued(_stock(row, node), row.spec_name)
        if claim(operation, elsewhere, waits=True, image=row.image) is None:
            raise _NotEligible
        return row.pk

    place = (UNIT_KIND, row.namespace, row.name)
    payload = {AVOIDED_NODE: node}
    request = Request(tenant, operation_id, UnitOperation.START, *place, payload=payload)
    operation_accept(request, prepare=prepare)


def _stock(row: GpuUnit, node: str) -> QuerySet[GpuUnit]:
    """Return the claimable stock units for a start of a unit on another node than `node`."""
    free = claimable_stock(row.spec_name, resource_name=row.resource_name)
    return free.exclude(node__in=("", node))


def _eligible() -> QuerySet[GpuUnit]:
    is_failed = Q(phase=UnitPhase.FAILED)
    is_lost = is_failed | Q(phase=UnitPhase.PROGRESSING)
    is_eligible = Q(is_failed, cause=StartupCause.IMAGE_PULL_FAILED) | Q(
        is_lost, cause=StartupCause.UNSCHEDULABLE
    )
    return GpuUnit.objects.filter(
        is_eligible,
        role=UnitRole.ACTIVE,
        is_suspended=False,
        avoided_node="",
        deleted_at__isnull=True,
        deletion_requested_at__isnull=True,
    )
