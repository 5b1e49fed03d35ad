"""Lists the waiting requests in the order in which they get stock, with the cause of the wait.

The API of operators and the admin call it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from gpuplatform.operations.registry import QueuePlace
from inventory.models import GpuSpec
from units.core.shortfall import StockOfSpec, queue_cause
from units.models import CapacityRequest
from units.phases import QueueCause
from units.quota_waits import requests_barred
from units.stock_counts import StockCounts, specs_with_stock
from units.waiting import OPEN, places_in

MAX_FAILED: Final = 3
"""Number of failed stock units of the current version of a GPU spec at which its top-up stops."""
_MISSING: Final = (None, StockCounts())


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A waiting request with its place and the cause of the wait."""

    request: CapacityRequest
    place: QueuePlace
    cause: QueueCause


def queue_entries(*, spec_name: str = "", tenant: str = "") -> list[QueueEntry]:
    """Return the open requests by GPU spec and in order, optionally of one spec or tenant."""
    places = places_in([spec_name] if spec_name else None)
    rows = CapacityRequest.objects.filter(OPEN, pk__in=places)
    rows = rows.select_related("operation", "tenant", "unit")
    found = (rows.filter(tenant__name=tenant) if tenant else rows).in_bulk()
    causes = causes_of_requests(found.values())
    return [
        QueueEntry(found[number], place, causes[number])
        for number, place in places.items()
        if number in found
    ]


def causes_of_requests(requests: Collection[CapacityRequest]) -> Mapping[int, QueueCause]:
    """Return the cause for which each open request waits, by the id of the request."""
    causes = causes_of({one.spec_name for one in requests})
    barred = requests_barred(requests)
    return {
        one.pk: QueueCause.WAITING_FOR_QUOTA if one.pk in barred else causes[one.spec_name]
        for one in requests
    }


def causes_of(spec_names: Collection[str]) -> Mapping[str, QueueCause]:
    """Return the cause for which the requests of each GPU spec wait. Runs one query."""
    found = specs_with_stock(spec_names)
    return {name: queue_cause(_stock_of(*found.get(name, _MISSING))) for name in spec_names}


def _stock_of(spec: GpuSpec | None, counts: StockCounts) -> StockOfSpec:
    return StockOfSpec(
        is_known=spec is not None,
        is_enabled=spec is None or spec.is_enabled,
        is_top_up_paused=spec is not None and spec.is_top_up_paused,
        ready=counts.ready,
        starting=counts.starting,
        unplaced=counts.unscheduled,
        has_failures=counts.failed >= MAX_FAILED,
    )
