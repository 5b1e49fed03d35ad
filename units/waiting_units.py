"""Reads the waits of units for capacity, and the notices of preemptions.

The API and the admin call it.
"""

from collections.abc import Collection
from datetime import datetime

from django.db.models import Case, Exists, OuterRef, QuerySet, Subquery, When
from django.db.models.functions import Coalesce

from gpuplatform.clock import rfc3339
from gpuplatform.postgresql.tenant_rows import all_rows
from inventory.models import GpuSpec
from units.models import CapacityRequest, GpuUnit, PreemptionNotice
from units.phases import RequestPhase


def with_waits(rows: QuerySet[GpuUnit]) -> QuerySet[GpuUnit]:
    """Annotate units with `waits_since`, `waits_preempted` and `waits_for_gpus`."""
    requests = CapacityRequest.objects.filter(phase=RequestPhase.OPEN).order_by("id")
    waiting = requests.filter(unit=OuterRef("pk"))
    # A group has one request, for all units that its operation still has to create.
    of_group = requests.filter(operation=OuterRef("operation"))
    of_group_since = Case(When(uid="", then=Subquery(of_group.values("requested_at")[:1])))
    spec = GpuSpec.objects.filter(name=OuterRef("spec_name")).values("gpu")
    return rows.annotate(  # type: ignore[no-redef]  # declared
        waits_since=Coalesce(Subquery(waiting.values("requested_at")[:1]), of_group_since),
        waits_preempted=Exists(waiting.filter(is_after_preemption=True)),
        waits_for_gpus=Coalesce(Subquery(spec), 0),
    )


@all_rows()
def preemption_notices(units: Collection[int]) -> dict[int, PreemptionNotice]:
    """Return the valid notices of preemptions of units, by the id of the unit."""
    rows = PreemptionNotice.objects.filter(unit__in=units, request__phase=RequestPhase.OPEN)
    return {row.unit_id: row for row in rows}


def preemption_time() -> QuerySet[PreemptionNotice, datetime]:
    """Return the end of the valid notice of the preemption of the outer unit."""
    rows = PreemptionNotice.objects.filter(
        unit=OuterRef("pk"), request__phase=RequestPhase.OPEN
    ).order_by()
    return rows.values_list("stops_at", flat=True)


def preemption_text(stops_at: datetime) -> str:
    """Return the sentences that announce the stop of a preemptible unit to its owner."""
    return (
        f"The unit is stopped after {rfc3339(stops_at)}, unless the request that needs its GPUs"
        " gets other stock. Save its work. The unit then waits for stock and starts again."
    )
