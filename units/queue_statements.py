"""The SQL statements that read parts of a queue, which can have thousands of requests.

They contain the order of `units.core.queue`; tests compare both for arbitrary queues.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from django.db import connection

from gpuplatform.operations.phases import OPEN_PHASES
from units.core.queue import QueueTenant, share

_ALIVE: Final = """
    r.phase = 'Open' AND r.expires_at > statement_timestamp()
    AND o.phase = ANY(%(phases)s) AND o.cancelled_by_id IS NULL
"""
"""The condition of open requests that have not expired and whose operation can continue."""

_STOCK: Final = """
SELECT COALESCE(min(spec.gpu), 0),
       COALESCE(extract(epoch FROM min(spec.hold_pause_until)), 0)::float8,
       array_agg(stock.id ORDER BY stock.id) FILTER (WHERE stock.id IS NOT NULL),
       array_agg(stock.resource_name ORDER BY stock.id) FILTER (WHERE stock.id IS NOT NULL)
FROM (VALUES (%(spec_name)s)) AS wanted (name)
LEFT JOIN inventory_gpuspec spec ON spec.name = %(spec_name)s
LEFT JOIN units_gpuunit stock ON stock.spec_name = %(spec_name)s
    AND spec.is_enabled IS DISTINCT FROM false
    AND stock.role = 'stock' AND stock.phase = 'Ready' AND stock.claimed_by_id IS NULL
    AND stock.consumed_by = '' AND stock.deletion_requested_at IS NULL
    AND stock.deleted_at IS NULL
"""
"""The condition of the stock is `claimable_stock` of `units.selectors`; a test compares both."""

_LANE: Final = "r.tenant_id, r.is_preemptible, r.priority"
_IN_LANE: Final = f"PARTITION BY r.spec_name, {_LANE} ORDER BY r.requested_at, r.id"

_COLUMNS: Final = """
    r.id, r.tenant_id, r.count, r.priority, r.is_preemptible, r.resource_name,
    extract(epoch FROM r.requested_at)::float8 AS requested_at,
    extract(epoch FROM r.hold_begun_at)::float8 AS hold_begun_at, r.hold_times
FROM units_capacityrequest r JOIN operations_operation o ON o.id = r.operation_id
"""
_NEXT_LANE: Final = f"""
SELECT {_LANE} FROM units_capacityrequest r
WHERE r.phase = 'Open' AND r.spec_name = %(spec_name)s
"""  # noqa: S608 - constants
_FIRST: Final = f"""
WITH RECURSIVE lane AS (
    ({_NEXT_LANE} ORDER BY {_LANE} LIMIT 1)
    UNION ALL
    SELECT following.* FROM lane, LATERAL (
        {_NEXT_LANE}
          AND ({_LANE}) > (lane.tenant_id, lane.is_preemptible, lane.priority)
        ORDER BY {_LANE} LIMIT 1
    ) following
)
SELECT found.id, found.tenant_id, found.count, found.priority, found.is_preemptible,
       found.resource_name, found.requested_at, found.hold_begun_at, found.hold_times
FROM lane, LATERAL (
    SELECT first.*,
           count(*) FILTER (WHERE first.resource_name <> ALL(%(usable)s::text[])) OVER (
               ORDER BY first.requested_at, first.id
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS unusable
    FROM (
        SELECT {_COLUMNS}
        WHERE {_ALIVE} AND r.spec_name = %(spec_name)s AND r.id <> ALL(%(without)s::bigint[])
          AND ({_LANE}) = (lane.tenant_id, lane.is_preemptible, lane.priority)
        ORDER BY r.requested_at, r.id LIMIT %(depth)s
    ) first
) found
WHERE found.unusable = 0
UNION
SELECT {_COLUMNS}
WHERE {_ALIVE} AND r.spec_name = %(spec_name)s AND r.id <> ALL(%(without)s::bigint[])
  AND r.hold_begun_at IS NOT NULL
"""  # noqa: S608 - constants
"""The lanes are read one after the other from their index: to number all requests of a long queue
would take most of the time of a grant."""

_POSITIONS: Final = f"""
WITH owner AS (
    SELECT * FROM unnest(%(spec_names)s::text[], %(tenants)s::bigint[], %(shares)s::float8[],
                         %(active)s::bool[], %(room)s::bigint[])
        AS t (spec_name, tenant_id, share, is_active, room)
),
waiting AS (
    SELECT r.id, r.spec_name, r.is_preemptible, r.priority, owner.share, r.requested_at,
           COALESCE(bool_or(NOT owner.is_active OR r.count * COALESCE(spec.gpu, 0) > owner.room)
                    OVER ({_IN_LANE}), false) AS is_barred
    FROM units_capacityrequest r
    JOIN owner ON owner.spec_name = r.spec_name AND owner.tenant_id = r.tenant_id
    JOIN operations_operation o ON o.id = r.operation_id
    LEFT JOIN inventory_gpuspec spec ON spec.name = r.spec_name
    WHERE {_ALIVE}
),
numbered AS (
    SELECT id, spec_name,
           row_number() OVER (PARTITION BY spec_name
                              ORDER BY is_barred, is_preemptible, priority DESC, share,
                                       requested_at, id) AS position
    FROM waiting
)
SELECT id, spec_name, position FROM numbered
WHERE %(numbers)s::bigint[] IS NULL OR id = ANY(%(numbers)s::bigint[])
ORDER BY spec_name COLLATE "C", position
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
    requested_at: float
    hold_begun_at: float | None
    hold_times: int


class Position(NamedTuple):
    """The position of an open request in the queue of its GPU spec, starting at 1."""

    number: int
    spec_name: str
    position: int


def free_stock(spec_name: str) -> FreeStock:
    """Return the claimable stock of a GPU spec; a disabled one has none."""
    with connection.cursor() as cursor:
        cursor.execute(_STOCK, {"spec_name": spec_name})
        gpus, pause_until, ids, names = cursor.fetchone()
    return FreeStock(gpus, pause_until, list(zip(ids or (), names or (), strict=True)))


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
    tenants: Mapping[str, Mapping[int, QueueTenant]], numbers: Collection[int] | None = None
) -> list[Position]:
    """Return the positions of open requests by GPU spec and in order.

    Args:
        tenants: All tenants with open requests of the GPU specs, by GPU spec and id.
        numbers: The ids of the requests, or `None` for all requests.
    """
    owners = [
        (
            name,
            number,
            share(one),
            one.is_active,
            None if one.limit is None else one.limit - one.held,
        )
        for name, of_spec in tenants.items()
        for number, one in of_spec.items()
    ]
    columns = [list(column) for column in zip(*owners, strict=True)]
    if not columns:
        return []
    names = ("spec_names", "tenants", "shares", "active", "room")
    values: dict[str, Any] = {
        **dict(zip(names, columns, strict=True)),
        "phases": sorted(OPEN_PHASES),
        "numbers": None if numbers is None else sorted(numbers),
    }
    with connection.cursor() as cursor:
        cursor.execute(_POSITIONS, values)
        return [Position(*row) for row in cursor.fetchall()]
