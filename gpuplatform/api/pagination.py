"""Keyset pagination, newest first.

A page starts after the last id of the previous page. So no row is skipped or repeated while rows
are inserted or deleted, and the cost of a page does not depend on its position.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet

from gpuplatform.api.query import PageQuery
from gpuplatform.errors import FieldError, InvalidSpec

T = TypeVar("T")
M = TypeVar("M", bound=Model)

_VERSION = "1"
_CURSOR = re.compile(_VERSION + r"\.([1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """The rows of a page, and the cursor of the next page, which is `None` on the last page."""

    rows: Sequence[T]
    next: str | None


def paginate(rows: QuerySet[M], query: PageQuery) -> Page[M]:
    """Return one page of `rows`, sorted by descending id.

    Raises:
        InvalidSpec: If the cursor is invalid.
    """
    if query.cursor is not None:
        rows = rows.filter(pk__lt=decode_cursor(query.cursor))
    found = list(rows.order_by("-pk")[: query.limit + 1])
    shown = found[: query.limit]
    more = len(found) > query.limit
    return Page(shown, encode_cursor(shown[-1].pk) if more else None)


def encode_cursor(row_id: int) -> str:
    """Return the cursor of the page that starts after the row with this id."""
    return base64.urlsafe_b64encode(f"{_VERSION}.{row_id}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> int:
    """Return the row id that a cursor contains.

    Raises:
        InvalidSpec: If the cursor is invalid.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True).decode(
            "ascii"
        )
    except ValueError as error:
        raise _bad_cursor() from error
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise _bad_cursor()
    return int(match[1])


def _bad_cursor() -> InvalidSpec:
    message = "Is not a valid cursor. Use the value of page.next from the previous page."
    return InvalidSpec(f"cursor: {message}", details=[FieldError("cursor", message)])


def mapped(page: Page[Any], rows: Sequence[T]) -> Page[T]:
    """Return a page with the rows `rows` and the cursor of `page`."""
    return Page(rows, page.next)
