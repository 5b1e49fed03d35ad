"""Reconciles GPU units of both roles: connects observation, planner and mirror to the driver."""

from typing import Final

from django.db import transaction
from django.db.models import Q, QuerySet

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.planning.plan import Observation
from gpuplatform.queueing import Queue, Urgency, enqueue_after_commit
from gpuplatform.reconciliation.driver import Ending, Reconciler
from gpuplatform.reconciliation.owned import LiveObjects
from units.core.child import possible_kinds
from units.core.observed import ObservedUnit
from units.core.plan import plan_unit
from units.core.pulls import node_to_leave
from units.core.sources import SourceGone
from units.core.statuses import unit_deletion_event
from units.mirror import unit_ending, unit_gone, unit_reconciled, unit_waiting_marked
from units.models import GpuUnit
from units.observation import observe_unit, remains_of
from units.phases import UnitPhase, UnitReason, UnitRole
from units.services.claims import consumed_stock
from units.services.names import UnitTask
from units.services.pulls import unit_start_elsewhere
from units.services.usage import usage_end, usage_look


def _remains(cluster: Cluster, row: GpuUnit) -> Observation[str]:
    kinds = possible_kinds(row.spec, row.generation)
    owned = LiveObjects(cluster, UNIT_LABEL)
    return remains_of(owned, row.namespace, row.name, row.uid, kinds=kinds)


def _close(rows: QuerySet[GpuUnit], successor: Manifest | None) -> None:
    """Close the row of a unit, and enqueue the unit that waits for this stock unit."""
    consumers = list(rows.exclude(consumed_by="").values_list("consumed_by", flat=True))
    uids = list(rows.filter(role=UnitRole.ACTIVE).values_list("uid", flat=True))
    with transaction.atomic():
        unit_gone(rows, successor)
        usage_end(uids)
    runs = Q(phase=UnitPhase.READY) | Q(reason=UnitReason.UNIT_PROGRESSING)
    waiting = GpuUnit.objects.filter(uid__in=consumers).exclude(runs)
    for row_id in unit_waiting_marked(waiting):
        enqueue_after_commit(
            UnitTask.RECONCILE_UNIT, row_id, queue=Queue.RECONCILE, urgency=Urgency.LATER
        )


def _note(unit: Manifest, observed: ObservedUnit) -> None:
    """Close the row of the consumed stock unit if this run observed that it has ended.

    If another resource has the name of the stock unit, the reconciliation of the stock unit closes
    the row and creates the row of the other resource. A unit that cannot start on its node is
    started on another node. The usage ledger gets the pods that were read.
    """
    usage_look(unit, observed)
    if node := node_to_leave(unit, observed):
        unit_start_elsewhere(unit, node)
    match observed.source:
        case SourceGone(is_first_seen=True):
            unit_gone(consumed_stock(unit).filter(deleted_at__isnull=True), None)
        case _:
            pass


def _rows() -> QuerySet[GpuUnit]:
    return GpuUnit.objects.filter(deleted_at__isnull=True)


UNITS: Final = Reconciler(
    kind=GPU_UNIT,
    rows=_rows,
    observe=observe_unit,
    plan=plan_unit,
    record=unit_reconciled,
    note=_note,
    close=_close,
    deletion_event=lambda row: unit_deletion_event(UnitRole(row.role), row.consumed_by),
    ending=Ending(unit_ending, _remains),
)
