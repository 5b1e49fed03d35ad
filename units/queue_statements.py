"""The SQL statements that read parts of a queue, which can have thousands of requests.

They contain the order of `units.core.queue`; tests compare both for arbitrary queues.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from django.db import connection

from gpuplatform.operations.phases import OPEN_PHASES
from units.core.queue import QueueTenant, share

_ALIVE: Final = """
    r.phase = 'Open' AND r.spec_name = %(spec_name)s AND r.expires_at > statement_timestamp()
    AND o.phase = ANY(%(phases)s) AND o.cancelled_by_id IS NULL
"""
"""The condition of open requests that have not expired and whose operation can continue."""

_STOCK: Final = """
SELECT COALESCE(spec.gpu, 0), COALESCE(extract(epoch FROM spec.hold_pause_until), 0)::float8,
       stock.id, stock.resource_name
FROM (VALUES (%(spec_name)s)) AS wanted (name)
LEFT JOIN inventory_gpuspec spec ON spec.name = %(spec_name)s
LEFT JOIN units_gpuunit stock ON stock.spec_name = %(spec_name)s
    AND spec.is_enabled IS DISTINCT FROM false
    AND stock.role = 'stock' AND stock.phase = 'Ready' AND stock.claimed_by_id IS NULL
    AND stock.consumed_by = '' AND stock.deletion_requested_at IS NULL
    AND stock.deleted_at IS NULL
ORDER BY stock.id
"""
"""The condition of the stock is `claimable_stock` of `units.selectors`; a test compares both."""

_LANE: Final = "PARTITION BY r.tenant_id, r.is_preemptible, r.priority ORDER BY r.asked_at, r.id"

_FIRST: Final = f"""
SELECT id, tenant_id, count, priority, is_preemptible, resource_name, asked_at, hold_begun_at,
       hold_times
FROM (
    SELECT r.id, r.tenant_id, r.count, r.priority, r.is_preemptible, r.resource_name, r.hold_times,
           extract(epoch FROM r.asked_at)::float8 AS asked_at,
           extract(epoch FROM r.hold_begun_at)::float8 AS hold_begun_at,
           row_number() OVER lane AS place,
           count(*) FILTER (WHERE r.resource_name <> ALL(%(usable)s::text[])) OVER (
               lane ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS unusable
    FROM units_capacityrequest r JOIN operations_operation o ON o.id = r.operation_id
    WHERE {_ALIVE} AND r.id <> ALL(%(without)s::bigint[])
    WINDOW lane AS ({_LANE})
) numbered
WHERE (place <= %(depth)s AND unusable = 0) OR hold_begun_at IS NOT NULL
"""  # noqa: S608 - constants

_POSITIONS: Final = f"""
WITH owner AS (
    SELECT * FROM unnest(%(tenants)s::bigint[], %(shares)s::float8[], %(active)s::bool[],
                         %(room)s::bigint[]) AS t (tenant_id, share, is_active, room)
),
waiting AS (
    SELECT r.id, r.is_preemptible, r.priority, owner.share, r.asked_at,
           COALESCE(bool_or(NOT owner.is_active OR r.count * COALESCE(spec.gpu, 0) > owner.room)
                    OVER ({_LANE}), false) AS is_barred
    FROM units_capacityrequest r
    JOIN owner ON owner.tenant_id = r.tenant_id
    JOIN operations_operation o ON o.id = r.operation_id
    LEFT JOIN inventory_gpuspec spec ON spec.name = r.spec_name
    WHERE {_ALIVE}
),
numbered AS (
    SELECT id, row_number() OVER (ORDER BY is_barred, is_preemptible, priority DESC, share,
                                           asked_at, id) AS position
    FROM waiting
)
SELECT id, position FROM numbered
WHERE %(numbers)s::bigint[] IS NULL OR id = ANY(%(numbers)s::bigint[])
ORDER BY position
"""  # noqa: S608 - constants


class FreeStock(NamedTuple):
    """The free stock of a GPU spec, and the columns of the GPU spec that decide about it."""

    gpus: int
    """Number of GPUs of one row, or 0 if the catalogue does not have the GPU spec."""
    pause_until: float
    """End of the pause after a hold in seconds, or 0."""
    rows: list[tuple[int, str]]
    """The ids and resources of the claimable rows, oldest first."""


class OpenRequest(NamedTuple):
    """The columns of an open request that decide about the next grants. Times are in seconds."""

    number: int
    tenant: int
    size: int
    priority: int
    is_preemptible: bool
    resource_name: str
    asked_at: float
    hold_begun_at: float | None
    hold_times: int


def free_stock(spec_name: str) -> FreeStock:
    """Return the claimable stock of a GPU spec; a disabled one has none."""
    with connection.cursor() as cursor:
        cursor.execute(_STOCK, {"spec_name": spec_name})
        found = cursor.fetchall()
    gpus, pause_until, *_ = found[0]  # Without stock, the columns of the row are null.
    return FreeStock(gpus, pause_until, [(row_id, name) for *_, row_id, name in found if row_id])


def first_requests(
    spec_name: str, depth: int, *, usable: Collection[str], without: Collection[int] = ()
) -> list[OpenRequest]:
    """Return the first `depth` open requests of each lane, and the requests with a hold.

    Args:
        spec_name: The name of the GPU spec.
        depth: The number of requests of each lane.
        usable: The resources of the free rows. A request for another one ends its lane.
        without: The ids of requests to leave out.
    """
    values: dict[str, Any] = {
        "spec_name": spec_name,
        "phases": sorted(OPEN_PHASES),
        "depth": depth,
        "usable": ["", *usable],
        "without": list(without),
    }
    with connection.cursor() as cursor:
        cursor.execute(_FIRST, values)
        return [OpenRequest(*row) for row in cursor.fetchall()]


def positions(
    spec_name: str, tenants: Mapping[int, QueueTenant], numbers: Collection[int] | None = None
) -> dict[int, int]:
    """Return the positions of open requests of a GPU spec, starting at 1, in order.

    Args:
        spec_name: The name of the GPU spec.
        tenants: All tenants with open requests of the GPU spec, by id.
        numbers: The ids of the requests, or `None` for all requests.
    """
    owners = list(tenants.values())
    values: dict[str, Any] = {
        "spec_name": spec_name,
        "phases": sorted(OPEN_PHASES),
        "tenants": list(tenants),
        "shares": [share(one) for one in owners],
        "active": [one.is_active for one in owners],
        "room": [None if one.limit is None else one.limit - one.held for one in owners],
        "numbers": None if numbers is None else sorted(numbers),
    }
    with connection.cursor() as cursor:
        cursor.execute(_POSITIONS, values)
        return dict(cursor.fetchall())
