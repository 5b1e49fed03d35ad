"""Keyset pagination, newest first.

A page starts after the last id of the previous page. So no row is skipped or repeated while rows
are inserted or deleted, and the cost of a page does not depend on its position. Cursors are
encrypted, because ids count the rows of all tenants.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, Generic, TypeVar

from django.db.models import Func, JSONField, Model, QuerySet

from gpuplatform.api.opaque import opaque, opened
from gpuplatform.api.query import PageQuery
from gpuplatform.errors import FieldError, InvalidSpec
from gpuplatform.postgresql.compiled import CompiledRows

T = TypeVar("T")
M = TypeVar("M", bound=Model)

MAX_PAGE_BYTES: Final = 1024 * 1024
"""Size of the rows in JSON after which a page ends, even if it has less than `limit` rows. A row
has less than 1 MiB, so that a response has less than 2 MiB."""
_PURPOSE: Final = "cursor"
_AFTER_ALL: Final = 2**63 - 1
"""The largest id of the database."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """The rows of a page with their ids, and whether more rows follow."""

    rows: Sequence[T]
    ids: Sequence[int]
    has_more: bool = False

    @property
    def next(self) -> str | None:
        """The cursor of the next page, which is `None` on the last page."""
        return encode_cursor(self.ids[-1]) if self.has_more else None

    def first(self, number: int) -> "Page[T]":
        """Return the page with only this number of rows, at least one."""
        if number >= len(self.rows):
            return self
        return Page(self.rows[:number], self.ids[:number], has_more=True)


def paginate(rows: QuerySet[M], query: PageQuery) -> Page[M]:
    """Return one page of `rows`, sorted by descending id.

    Raises:
        InvalidSpec: If the cursor is invalid.
    """
    if query.cursor is not None:
        rows = rows.filter(pk__lt=decode_cursor(query.cursor))
    return _page(rows.order_by("-pk")[: query.limit + 1], query)


def _page(rows: Iterable[M], query: PageQuery) -> Page[M]:
    """Return the page with up to one row more than the limit of the query."""
    found = list(rows)
    shown = found[: query.limit]
    return Page(shown, [row.pk for row in shown], has_more=len(found) > query.limit)


class WithoutTemplate(Func):
    """A spec whose template has only its ports, which determine the access URL."""

    output_field = JSONField()
    template = """CASE WHEN jsonb_typeof(%(expressions)s) <> 'object' THEN %(expressions)s
        WHEN jsonb_typeof(%(expressions)s #> '{template,ports}') = 'array' THEN jsonb_set(
            %(expressions)s, '{template}',
            jsonb_build_object('ports', %(expressions)s #> '{template,ports}'))
        ELSE %(expressions)s - 'template' END"""


def paginate_light(
    rows: QuerySet[M], query: PageQuery, column: str, part: Func, *unread: str
) -> Page[M]:
    """Return one page of rows without the large parts that a list does not contain.

    `column` has the value of the expression `part`, and the columns `unread` are not read.

    Raises:
        InvalidSpec: If the cursor is invalid.
    """
    return _with_light(paginate(_light(rows, column, part, unread), query), column)


class LightPages(Generic[M]):
    """The pages of a list without filters, as `paginate_light` returns them, compiled once.

    `build` returns all rows of the list for one text, such as a namespace. Other arguments are the
    ones of `paginate_light`.
    """

    def __init__(
        self, build: Callable[[str], QuerySet[M]], column: str, part: Func, *unread: str
    ) -> None:
        self._column = column

        def light(text: str, before: int, limit: int) -> QuerySet[M]:
            rows = _light(build(text), column, part, unread).filter(pk__lt=before)
            return rows.order_by("-pk")[: limit + 1]

        # A statement contains its limit. Few different limits are in use.
        self._queries = lru_cache(maxsize=8)(
            lambda limit: CompiledRows(partial(light, limit=limit))
        )

    def page(self, text: str, query: PageQuery) -> Page[M]:
        """Return one page.

        Raises:
            InvalidSpec: If the cursor is invalid.
        """
        before = _AFTER_ALL if query.cursor is None else decode_cursor(query.cursor)
        rows = self._queries(query.limit).objects(text, before)
        return _with_light(_page(rows, query), self._column)


def _light(rows: QuerySet[M], column: str, part: Func, unread: Sequence[str]) -> QuerySet[M]:
    light: QuerySet[M] = rows.annotate(light_part=part)  # type: ignore[assignment]  # declared
    return light.defer(column, *unread)


def _with_light(page: Page[M], column: str) -> Page[M]:
    for row in page.rows:
        setattr(row, column, row.light_part)  # type: ignore[attr-defined]  # of the annotation
    return page


def encode_cursor(row_id: int) -> str:
    """Return the cursor of the page that starts after the row with this id."""
    return opaque(row_id, _PURPOSE)


def decode_cursor(cursor: str) -> int:
    """Return the row id that a cursor contains.

    Raises:
        InvalidSpec: If the cursor is invalid.
    """
    try:
        return opened(cursor, _PURPOSE)
    except ValueError as error:
        raise _bad_cursor() from error


def _bad_cursor() -> InvalidSpec:
    message = "Is not a valid cursor. Use the value of page.next from the previous page."
    return InvalidSpec(f"cursor: {message}", details=[FieldError("cursor", message)])


def mapped(page: Page[Any], rows: Sequence[T]) -> Page[T]:
    """Return a page with the responses `rows` for the rows of `page`, in the same order."""
    return Page(rows, page.ids, page.has_more)
