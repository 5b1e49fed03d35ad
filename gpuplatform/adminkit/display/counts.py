"""Counts of rows that stop at a cap, so that their cost does not grow with the table."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet

COUNT_CAP = 5_000
"""Maximum number of rows that are counted in a list or in a phase."""


def phase_counts(rows: QuerySet[Any], phases: Iterable[str], field: str = "phase") -> Counter[str]:
    """Return the number of rows in each phase, up to the cap, with one query."""
    names = list(phases)
    counts = capped_counts([rows.filter(**{field: phase}) for phase in names])
    return Counter(dict(zip(names, counts, strict=True)))


def capped_counts(sets: Sequence[QuerySet[Any]], *, cap: int = COUNT_CAP) -> list[int]:
    """Return the number of rows of each query set, up to the cap, with one query."""
    parts: list[str] = []
    values: list[Any] = []
    for place, rows in enumerate(sets):
        limited = rows.order_by().values_list("pk")[:cap]
        try:
            sql, params = limited.query.sql_with_params()
        except EmptyResultSet:
            continue  # The query set matches no rows.
        parts.append(f"SELECT {place}, count(*) FROM ({sql}) AS counted")  # noqa: S608 - Django's
        values += params
    if not parts:
        return [0] * len(sets)
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), values)
        found = dict(cursor.fetchall())
    return [found.get(place, 0) for place in range(len(sets))]


def capped(count: int, cap: int = COUNT_CAP) -> str:
    """Return a count for display, such as `5,000+` if counting stopped at the cap."""
    return f"{cap:,}+" if count >= cap else f"{count:,}"
