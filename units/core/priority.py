"""Decides the priority class of a unit's pod. Pure."""

from gpuplatform.kube.kinds import ResourceKind
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS
from units.core.child import decided_priority, wants_pod
from units.core.observed import ObservedUnit
from units.core.sources import NoSource, SourceGone
from units.core.view import UnitView


def priority_of(unit: UnitView, observed: ObservedUnit, kind: ResourceKind, *, runs: bool) -> str:
    """Return the priority class of the pods of the object of a kind.

    Only a unit that consumed a stock unit may preempt other pods. The priority is decided when the
    pod starts: a later change of the catalogue, or the deletion of the stock unit's row after its
    retention, must not restart a running pod.
    """
    live = observed.live(kind)
    is_starting = runs and not wants_pod(kind, live)
    decided = decided_priority(live)
    match observed.source:
        case NoSource():
            return STOCK_PRIORITY_CLASS
        case _ if unit.is_stock:
            return STOCK_PRIORITY_CLASS
        case _ if not is_starting and decided:
            return decided
        case SourceGone(may_preempt=True):
            return UNIT_PRIORITY_CLASS
        case _:
            return STOCK_PRIORITY_CLASS
