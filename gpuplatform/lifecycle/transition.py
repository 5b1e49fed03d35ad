"""Phase transitions by guarded updates, for phases that services decide.

Operations, functions and invocations declare their transitions in `phases.py`. The phases of pools
and units are decided by their planners; rows copy them from the resources
(`reconciliation/mirror.py`).
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db.models import Model, QuerySet

ModelT = TypeVar("ModelT", bound=Model)
PhaseTable = Mapping[str, frozenset[str]]
"""The allowed next phases by phase. A phase without a next phase is terminal."""


def terminal_phases(table: PhaseTable) -> frozenset[str]:
    """Return the phases without a next phase."""
    return frozenset(phase for phase, following in table.items() if not following)


def open_phases(table: PhaseTable) -> frozenset[str]:
    """Return the phases with a next phase."""
    return frozenset(table) - terminal_phases(table)


def previous_phases(table: PhaseTable, to: str) -> frozenset[str]:
    """Return the phases from which a transition to `to` is allowed."""
    return frozenset(phase for phase, following in table.items() if to in following)


def movable(
    queryset: QuerySet[ModelT], table: PhaseTable, to: str, *, column: str = "phase"
) -> QuerySet[ModelT]:
    """Return the rows of `queryset` whose phase, in `column`, allows the transition to `to`."""
    return queryset.filter(**{f"{column}__in": previous_phases(table, to)})


def transition(
    queryset: QuerySet[ModelT],
    table: PhaseTable,
    to: str,
    *,
    column: str = "phase",
    **changes: Any,
) -> int:
    """Change the phase to `to` where the table allows it, and return the number of changed rows.

    Other rows are unchanged. 0 means that another process was faster or that the transition is not
    allowed. `column` is the column of the phase; `changes` are additional columns to update.
    """
    rows = movable(queryset, table, to, column=column)
    return rows.update(**{column: to}, **changes)
