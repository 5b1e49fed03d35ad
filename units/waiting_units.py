"""The display of units that wait for capacity, and of units with a notice of a preemption.

The API and the admin call it. The rows of the units do not change.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce

from gpuplatform.clock import rfc3339
from inventory.models import GpuSpec
from units.models import CapacityRequest, GpuUnit, PreemptionNotice
from units.phases import RequestPhase, UnitPhase, UnitReason


def with_waits(rows: QuerySet[GpuUnit]) -> QuerySet[GpuUnit]:
    """Annotate units with `waits_since`, `waits_preempted` and `waits_for_gpus`."""
    requests = CapacityRequest.objects.filter(phase=RequestPhase.OPEN).order_by("id")
    waiting = requests.filter(unit=OuterRef("pk"))
    # A group has one request, for all units that its operation still has to create.
    of_group = requests.filter(operation=OuterRef("operation"))
    of_group_since = Case(When(uid="", then=Subquery(of_group.values("asked_at")[:1])))
    spec = GpuSpec.objects.filter(name=OuterRef("spec_name")).values("gpu")
    return rows.annotate(  # type: ignore[no-redef]  # declared
        waits_since=Coalesce(Subquery(waiting.values("asked_at")[:1]), of_group_since),
        waits_preempted=Exists(waiting.filter(is_after_preemption=True)),
        waits_for_gpus=Coalesce(Subquery(spec), 0),
    )


def show_waiting(rows: Iterable[GpuUnit]) -> None:
    """Set the phase, the reason, the message and the GPUs that are displayed for waiting units.

    The rows in the database do not change: their phase is the one that the resource reports, and
    a unit counts to the GPUs of its tenant when stock is granted to it.
    """
    for row in rows:
        if row.waits_since is None or row.deletion_requested_at:
            continue
        row.phase, row.reason = UnitPhase.PENDING, _waiting_reason(row)
        row.phase_since, row.cause = row.waits_since, ""
        row.gpu = row.gpu or row.waits_for_gpus
        row.message = f"The unit waits for stock of the GPU spec '{row.spec_name}'."
        if row.waits_preempted:
            row.message = (
                "The unit was stopped, because a request that is not preemptible needed its GPUs."
                f" It waits for stock of the GPU spec '{row.spec_name}' and then starts again."
            )


def _waiting_reason(row: GpuUnit) -> UnitReason:
    return UnitReason.PREEMPTED if row.waits_preempted else UnitReason.WAITING_FOR_CAPACITY


def preemption_notices(units: Collection[int]) -> dict[int, PreemptionNotice]:
    """Return the valid notices of preemptions of units, by the id of the unit."""
    rows = PreemptionNotice.objects.filter(unit__in=units, request__phase=RequestPhase.OPEN)
    return {row.unit_id: row for row in rows}


def preemption_text(stops_at: datetime) -> str:
    """Return the sentences that announce the stop of a preemptible unit to its owner."""
    return (
        f"The unit is stopped after {rfc3339(stops_at)}, unless the request that needs its GPUs"
        " gets other stock. Save its work. The unit then waits for stock and starts again."
    )


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
        shown = {False: UnitReason.WAITING_FOR_CAPACITY, True: UnitReason.PREEMPTED}
        waits &= Q(waits_preempted__in=[is_so for is_so, one in shown.items() if one in reasons])
    return rows.filter(found | waits)
