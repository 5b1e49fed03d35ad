"""The display of units that wait for capacity. The rows of the units do not change.

The API and the admin call it.
"""

from collections.abc import Collection, Iterable
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from units.models import GpuUnit
from units.phases import UnitPhase, UnitReason
from units.quota_waits import barred_condition, units_barred


def show_waiting(rows: Iterable[GpuUnit], barred: Collection[int] | None = None) -> None:
    """Set the phase, the reason, the message and the GPUs that are displayed for waiting units.

    `barred` is the result of `units_barred`, if the caller has it.

    The rows in the database do not change: their phase is the one that the resource reports, and
    the GPUs of a unit count for its tenant when stock is granted to it.
    """
    found = list(rows)
    barred = units_barred(found) if barred is None else barred
    for row in found:
        if row.waits_since is None or row.deletion_requested_at:
            continue
        row.phase, row.reason = UnitPhase.PENDING, _waiting_reason(row)
        row.phase_since, row.cause = row.waits_since, ""
        row.gpu = row.gpu or row.waits_for_gpus
        row.message = f"The unit waits for stock of the GPU spec '{row.spec_name}'."
        if row.pk in barred:
            row.reason = UnitReason.WAITING_FOR_QUOTA
            row.message = (
                "The tenant has reached a limit of GPUs. The unit waits until the tenant uses"
                f" fewer GPUs, and then for stock of the GPU spec '{row.spec_name}'."
            )
        elif row.waits_preempted:
            row.message = (
                "The unit was stopped, because a request that is not preemptible needed its GPUs."
                f" It waits for stock of the GPU spec '{row.spec_name}' and then starts again."
            )


def _waiting_reason(row: GpuUnit) -> UnitReason:
    return UnitReason.PREEMPTED if row.waits_preempted else UnitReason.WAITING_FOR_CAPACITY


def shown_with(
    rows: QuerySet[GpuUnit], phases: Collection[str], reasons: Collection[str]
) -> QuerySet[GpuUnit]:
    """Return the rows of `units_live` that are displayed with one of the phases and reasons.

    An empty collection allows all phases or reasons.
    """
    own = {"phase__in": phases, "reason__in": reasons}
    found = Q(waits_since=None, **{key: values for key, values in own.items() if values})
    if phases and UnitPhase.PENDING not in phases:
        return rows.filter(found)
    waits = Q(waits_since__isnull=False)
    if reasons:
        barred = barred_condition()
        shown = {
            UnitReason.WAITING_FOR_CAPACITY: ~barred & Q(waits_preempted=False),
            UnitReason.PREEMPTED: ~barred & Q(waits_preempted=True),
            UnitReason.WAITING_FOR_QUOTA: barred,
        }
        wanted = [condition for reason, condition in shown.items() if reason in reasons]
        waits &= reduce(or_, wanted, Q(pk__in=()))
    return rows.filter(found | waits)
