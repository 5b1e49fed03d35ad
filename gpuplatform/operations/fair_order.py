"""Chooses the operation that a worker executes next: the operations of tenants alternate.

A hint names an operation that waits. A worker that receives the hint can execute an operation of
another tenant: the tenant with the fewest running operations comes first. A large number of
operations of one tenant therefore does not delay the operations of another. The hint of that
operation, which arrives later, then leads to the operation that was passed over.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import connection

from gpuplatform.operations.phases import OPEN_PHASES, OperationPhase
from gpuplatform.process_local import ProcessLocal

DEPTH: Final = 100
"""Number of due operations of a tenant among which its next one is searched. Operations that wait
for an earlier one on their object fill it. Hints and sweeps name the operations behind them."""

_OPEN: Final = ", ".join(f"'{phase.value}'" for phase in OperationPhase if phase in OPEN_PHASES)
"""The condition of the index by tenant, with constants so that PostgreSQL uses the index."""

_CLAIMABLE: Final = f"""
    o.phase IN ({_OPEN}) AND o.due_at <= statement_timestamp() AND o.kind = ANY(%(kinds)s)
    AND (o.lease_expires_at IS NULL OR o.lease_expires_at < statement_timestamp())
    AND o.id <> ALL(%(without)s::bigint[])
"""
"""The condition of due operations that no worker has claimed, with `_FIRST_OF_OBJECT` the one of
the claim; a test compares both."""

_FIRST_OF_OBJECT: Final = f"""
    NOT EXISTS (
        SELECT FROM operations_operation earlier
        WHERE earlier.object_kind = o.object_kind
          AND earlier.object_namespace = o.object_namespace
          AND earlier.object_name = o.object_name
          AND earlier.phase IN ({_OPEN}) AND earlier.id < o.id)
"""

CANDIDATES: Final = f"""
WITH RECURSIVE tenant (id) AS (
    SELECT min(tenant_id) FROM operations_operation WHERE phase IN ({_OPEN})
    UNION ALL
    SELECT (SELECT min(next.tenant_id) FROM operations_operation next
            WHERE next.phase IN ({_OPEN}) AND next.tenant_id > tenant.id)
    FROM tenant WHERE tenant.id IS NOT NULL
),
running AS MATERIALIZED (
    SELECT tenant_id, count(*) AS number FROM operations_operation
    WHERE phase = '{OperationPhase.RUNNING}' AND lease_expires_at >= statement_timestamp()
    GROUP BY tenant_id
),
candidate AS (
    SELECT oldest.id, tenant.id AS tenant_id, oldest.due_at
    FROM tenant CROSS JOIN LATERAL (
        SELECT o.id, o.due_at FROM (
            SELECT o.* FROM operations_operation o
            WHERE o.tenant_id = tenant.id AND {_CLAIMABLE}
            ORDER BY o.due_at, o.id LIMIT {DEPTH}
        ) o
        WHERE {_FIRST_OF_OBJECT}
        ORDER BY o.due_at, o.id LIMIT 1
    ) oldest
    UNION
    SELECT o.id, o.tenant_id, o.due_at FROM operations_operation o
    WHERE o.id = %(hinted)s AND {_CLAIMABLE} AND {_FIRST_OF_OBJECT}
)
SELECT candidate.id, candidate.tenant_id, COALESCE(running.number, 0), candidate.due_at
FROM candidate LEFT JOIN running USING (tenant_id)
"""  # noqa: S608 - constants


class Candidate(NamedTuple):
    """An operation that a worker can claim."""

    operation: int
    tenant: int
    running: int
    """Number of operations of the tenant that workers execute."""
    due_at: datetime


class FairOrder:
    """The order in which this process served the tenants."""

    def __init__(self) -> None:
        self._served: dict[int, int] = {}
        self._number = 0

    def served(self, tenant: int) -> None:
        """Record that this process claimed an operation of the tenant."""
        self._number += 1
        self._served[tenant] = self._number

    def choose(self, candidates: Sequence[Candidate], hinted: int) -> Candidate | None:
        """Return the candidate that comes next, or `None` without candidates.

        The tenant with the fewest running operations is served, of several the one that this
        process has not served for the longest time, of those the one with the oldest candidate.
        Of a tenant, the hinted operation precedes its oldest one.
        """
        return min(candidates, key=lambda one: self._rank(one, hinted), default=None)

    def _rank(self, one: Candidate, hinted: int) -> tuple[int, int, bool, datetime, int]:
        last = self._served.get(one.tenant, 0)
        return one.running, last, one.operation != hinted, one.due_at, one.operation


FAIR_ORDER: Final = ProcessLocal(FairOrder)


def next_operation(
    hinted: int, kinds: Collection[str], *, without: Collection[int] = ()
) -> Candidate | None:
    """Return the operation of these kinds that a worker claims next, or `None` if none can be.

    Args:
        hinted: The id of the operation that the message of the worker names.
        kinds: The kinds that the worker can execute.
        without: The ids of operations that another worker was faster to claim.
    """
    return FAIR_ORDER.get().choose(candidates(hinted, kinds, without), hinted)


def candidates(
    hinted: int, kinds: Collection[str], without: Collection[int] = ()
) -> list[Candidate]:
    """Return the oldest claimable operation of each tenant and, if claimable, the hinted one.

    Operations of a tenant behind `DEPTH` others that cannot be claimed are not found.
    """
    values: dict[str, Any] = {"hinted": hinted, "kinds": list(kinds), "without": list(without)}
    with connection.cursor() as cursor:
        cursor.execute(CANDIDATES, values)
        return [Candidate(*row) for row in cursor.fetchall()]
