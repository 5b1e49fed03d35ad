"""The outcomes of the newest invocations of functions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from serverless.models import Invocation
from serverless.phases import FAILED_STATES, InvocationState

NEWEST: Final = 200
"""Number of the newest invocations of each function that are counted."""


@dataclass(frozen=True, slots=True)
class RecentOutcomes:
    """The outcomes of the newest invocations of a function."""

    succeeded: int = 0
    failed: int = 0
    last_failure: Invocation | None = None

    @property
    def ended(self) -> int:
        """The number of invocations that succeeded or failed."""
        return self.succeeded + self.failed

    @property
    def success_rate(self) -> float | None:
        """Share of ended invocations that succeeded, from 0 to 1, or `None` if none has ended."""
        return self.succeeded / self.ended if self.ended else None


def recent_outcomes(functions: Collection[int]) -> Mapping[int, RecentOutcomes]:
    """Return the outcomes by the id of the function, with two queries."""
    if not functions:
        return {}
    table = connection.ops.quote_name(Invocation._meta.db_table)  # noqa: SLF001 - Django's public name
    sql = (
        "SELECT one.id, count(*) FILTER (WHERE newest.state = %s),"  # noqa: S608 - a constant name
        " count(*) FILTER (WHERE newest.state = ANY(%s)),"
        " max(newest.id) FILTER (WHERE newest.state = ANY(%s))"
        " FROM unnest(%s::bigint[]) AS one(id),"
        f" LATERAL (SELECT id, state FROM {table} WHERE function_id = one.id"
        " ORDER BY id DESC LIMIT %s) AS newest GROUP BY one.id"
    )
    failures = [state.value for state in FAILED_STATES]
    values: list[Any] = [
        InvocationState.SUCCEEDED.value,
        *(failures, failures),
        list(functions),
        NEWEST,
    ]
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows = cursor.fetchall()
    last = Invocation.objects.defer("payload", "result_body").in_bulk(
        [failure for *_, failure in rows if failure is not None]
    )
    return {
        function: RecentOutcomes(succeeded, failed, last.get(failure))
        for function, succeeded, failed, failure in rows
    }
