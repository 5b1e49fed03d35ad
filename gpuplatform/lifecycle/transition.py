"""Changing a phase that services decide: along its table, by a guarded update.

Operations, functions and invocations declare their tables in `phases.py`. The phase of a pool or
unit is not one of these: its planner chooses it from what it observes, and the row copies it from
the resource (`reconciliation/mirror.py`).
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db.models import Model, QuerySet

ModelT = TypeVar("ModelT", bound=Model)
PhaseTable = Mapping[str, frozenset[str]]
"""From each phase to the phases that may follow. A phase with none is terminal."""


def terminal_phases(table: PhaseTable) -> frozenset[str]:
    """Return the phases that nothing follows."""
    return frozenset(phase for phase, following in table.items() if not following)


def open_phases(table: PhaseTable) -> frozenset[str]:
    """Return the phases that something follows."""
    return frozenset(table) - terminal_phases(table)


def previous_phases(table: PhaseTable, to: str) -> frozenset[str]:
    """Return the phases from which `to` may be reached."""
    return frozenset(phase for phase, following in table.items() if to in following)


def movable(
    queryset: QuerySet[ModelT], table: PhaseTable, to: str, *, column: str = "phase"
) -> QuerySet[ModelT]:
    """Return the rows of `queryset` whose phase, in `column`, allows the move to `to`."""
    return queryset.filter(**{f"{column}__in": previous_phases(table, to)})


def transition(
    queryset: QuerySet[ModelT],
    table: PhaseTable,
    to: str,
    *,
    column: str = "phase",
    **changes: Any,
) -> int:
    """Move the rows of `queryset` that may move to the phase `to`; return the number moved.

    Rows whose present phase does not allow it stay as they are: 0 means that another process was
    faster or that the move is illegal. `column` holds the phase; `changes` are further columns of
    the same update.
    """
    rows = movable(queryset, table, to, column=column)
    return rows.update(**{column: to}, **changes)
