"""Queries that are compiled once in a process."""

from collections.abc import Callable
from threading import Lock
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet

_VALUE: Final = "value of a compiled query"


class CompiledQuery:
    """A query of every request, whose compilation would cost more than its execution.

    `build` returns a `values_list` queryset for one text. Django must not have to convert its
    columns: on PostgreSQL, it converts only JSON fields.
    """

    def __init__(self, build: Callable[[str], QuerySet[Any, tuple[Any, ...]]]) -> None:
        self._build = build
        self._lock = Lock()
        self._compiled: tuple[str, tuple[Any, ...]] | None = None

    def first(self, value: str) -> tuple[Any, ...] | None:
        """Return the first row of the query for a text, or `None` if it has no rows."""
        sql, params = self._compiled or self._compile()
        with connection.cursor() as cursor:
            cursor.execute(sql, [value if one is _VALUE else one for one in params])
            row: tuple[Any, ...] | None = cursor.fetchone()
            return row

    def _compile(self) -> tuple[str, tuple[Any, ...]]:
        with self._lock:
            self._compiled = self._build(_VALUE).query.sql_with_params()
            return self._compiled
