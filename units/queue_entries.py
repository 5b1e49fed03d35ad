"""Lists the waiting requests in the order in which they get stock, with the cause of the wait.

The API of operators and the admin call it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from django.db import connection

from gpuplatform.operations.registry import QueuePlace
from gpuplatform.workloads.causes import UNPLACED
from units.core.shortfall import StockOfSpec, queue_cause
from units.models import CapacityRequest
from units.phases import QueueCause
from units.quota_waits import requests_barred
from units.waiting import OPEN, places_in

MAX_FAILED: Final = 3
"""Number of failed stock units of a GPU spec at which its top-up stops."""


_STOCK: Final = """
SELECT wanted.name, spec.id IS NOT NULL, spec.is_enabled IS NOT FALSE,
       spec.is_top_up_paused IS TRUE,
       count(stock.id) FILTER (WHERE stock.phase = 'Ready'),
       count(stock.id) FILTER (WHERE stock.phase NOT IN ('Ready', 'Failed')),
       count(stock.id) FILTER (WHERE stock.cause = ANY(%(unplaced)s)),
       count(stock.id) FILTER (WHERE stock.phase = 'Failed')
FROM unnest(%(names)s::text[]) AS wanted (name)
LEFT JOIN inventory_gpuspec spec ON spec.name = wanted.name
LEFT JOIN units_gpuunit stock ON stock.spec_name = wanted.name
    AND stock.role = 'stock' AND stock.claimed_by_id IS NULL AND stock.consumed_by = ''
    AND stock.deletion_requested_at IS NULL AND stock.deleted_at IS NULL
GROUP BY wanted.name, spec.id
"""
"""The GPU specs with their unclaimed stock."""


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
    values = {"names": list(spec_names), "unplaced": sorted(UNPLACED)}
    with connection.cursor() as cursor:
        cursor.execute(_STOCK, values)
        return {
            name: queue_cause(
                StockOfSpec(
                    is_known=is_known,
                    is_enabled=is_enabled,
                    is_top_up_paused=is_paused,
                    ready=ready,
                    starting=starting,
                    unplaced=unplaced,
                    has_failures=failed >= MAX_FAILED,
                )
            )
            for name, is_known, is_enabled, is_paused, ready, starting, unplaced, failed in (
                cursor.fetchall()
            )
        }
