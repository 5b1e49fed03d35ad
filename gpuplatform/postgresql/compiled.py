"""Queries that are compiled once in a process.

Django compiles a queryset each time. For a wide model, this takes longer than the execution.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Model, QuerySet
from django.db.models.query import get_related_populators

ModelT = TypeVar("ModelT", bound=Model)

Value: TypeAlias = str | int | Sequence[int]

_TEXT: Final = "value of a compiled query "
_NUMBER: Final = 2**31 - 1_000
"""The values with which a query is compiled: texts that begin with `_TEXT`, and numbers from
`_NUMBER` on, which integer columns can have. Its parameters have no such value otherwise."""


class Statement(NamedTuple):
    """A statement and its parameters."""

    sql: str
    params: Sequence[Any]


class CompiledQuery:
    """A query of every request, whose compilation would cost more than its execution.

    `build` returns the queryset for some values. Text columns are compared with texts, and number
    columns with numbers; `RawSQL` can contain other values. The values must not determine the form
    of the statement, as `None` and the bounds of a slice do.
    """

    def __init__(self, build: Callable[..., QuerySet[Any, Any]]) -> None:
        self._build = build
        self._lock = Lock()
        self._compiled: tuple[Statement, Any] | None = None

    def bound(self, *values: Value) -> Statement:
        """Return the statement for some values."""
        (sql, params), _ = self._once(values)
        given = {_marker(place, value): value for place, value in enumerate(values)}
        return Statement(sql, [given.get(one, one) for one in params])

    def first(self, *values: Value) -> tuple[Any, ...] | None:
        """Return the first row for some values, or `None` if there are none.

        The queryset is a `values_list`. Django must not have to convert its columns: on
        PostgreSQL, it converts only JSON fields.
        """
        with connection.cursor() as cursor:
            cursor.execute(*self.bound(*values))
            row: tuple[Any, ...] | None = cursor.fetchone()
            return row

    def _once(self, values: Sequence[Value]) -> tuple[Statement, Any]:
        """Return the statement with markers as its parameters, and its compiler."""
        if self._compiled is None:
            with self._lock:
                markers = [_marker(place, value) for place, value in enumerate(values)]
                compiler: Any = self._build(*markers).query.get_compiler(DEFAULT_DB_ALIAS)
                self._compiled = Statement(*compiler.as_sql()), compiler
        return self._compiled


@dataclass(frozen=True, slots=True)
class _Form(Generic[ModelT]):
    """How the columns of a row become an object with related objects and annotations."""

    model: type[ModelT]
    columns: slice
    names: Sequence[str] | Mapping[str, None]
    related: Sequence[Any]
    annotations: Mapping[str, int]

    @classmethod
    def of(cls, compiler: Any) -> "_Form[ModelT]":
        """Return the form of the rows of a compiler, as the iterator of a queryset has it."""
        kind, select = compiler.klass_info, compiler.select
        first, *_, last = kind["select_fields"]
        names = [one[0].target.attname for one in select[first : last + 1]]
        # Without some of its fields, Django searches the names for each field of each row.
        is_whole = len(names) == len(kind["model"]._meta.concrete_fields)  # noqa: SLF001 - public API
        return cls(
            kind["model"],
            slice(first, last + 1),
            names if is_whole else dict.fromkeys(names),
            get_related_populators(kind, select, DEFAULT_DB_ALIAS),  # type: ignore[call-arg]  # an argument of Django 6
            compiler.annotation_col_map,
        )

    def object(self, row: Sequence[Any]) -> ModelT:
        """Return the object of a row."""
        found = self.model.from_db(DEFAULT_DB_ALIAS, self.names, row[self.columns])
        for one in self.related:
            one.populate(row, found)
        for name, place in self.annotations.items():
            setattr(found, name, row[place])
        return found


class CompiledRows(CompiledQuery, Generic[ModelT]):
    """A compiled query for objects, which can have annotations and related objects."""

    def __init__(self, build: Callable[..., QuerySet[ModelT]]) -> None:
        super().__init__(build)
        self._form: _Form[ModelT] | None = None

    def objects(self, *values: Value) -> list[ModelT]:
        """Return the objects for some values."""
        statement = self.bound(*values)
        with connection.cursor() as cursor:
            cursor.execute(*statement)
            rows: Iterable[Sequence[Any]] = cursor.fetchall()
        _, compiler = self._once(values)
        form = self._form = self._form or _Form.of(compiler)
        return [form.object(row) for row in compiler.results_iter([rows])]


def _marker(place: int, value: Value) -> str | int:
    """Return the value with which the query is compiled, instead of the value of a caller."""
    return _NUMBER + place if isinstance(value, int) else f"{_TEXT}{place}"
