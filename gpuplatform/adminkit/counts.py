"""How many rows are in each phase, without counting large tables to their end."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

COUNT_CAP = 5_000
"""Up to here a phase is counted."""


def phase_counts(rows: QuerySet[Any], phases: Iterable[str]) -> Counter[str]:
    """Return the number of `rows` in each of `phases`, at most the cap, in one query."""
    parts = [
        rows.filter(phase=phase).order_by().values_list("phase", flat=True)[:COUNT_CAP]
        for phase in phases
    ]
    return Counter(parts[0].union(*parts[1:], all=True))


def capped(count: int) -> str:
    """Return the count for a reader: `5000+` if it was cut."""
    return f"{COUNT_CAP}+" if count >= COUNT_CAP else str(count)
