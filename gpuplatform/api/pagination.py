"""Pages by key, newest first: no row is lost or repeated while rows come and go.

A page begins below the last number of the page before, so its cost does not depend on how deep it
is.
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
    """Some rows, and where the next ones begin (None: there are no more)."""

    rows: Sequence[T]
    next: str | None


def paginate(rows: QuerySet[M], query: PageQuery) -> Page[M]:
    """Return one page of `rows`, highest `id` first.

    Raises:
        InvalidSpec: the cursor is none of ours.
    """
    if query.cursor is not None:
        rows = rows.filter(pk__lt=decode_cursor(query.cursor))
    found = list(rows.order_by("-pk")[: query.limit + 1])
    shown = found[: query.limit]
    more = len(found) > query.limit
    return Page(shown, encode_cursor(shown[-1].pk) if more else None)


def encode_cursor(number: int) -> str:
    """Return the cursor of the page after the row with this number."""
    return base64.urlsafe_b64encode(f"{_VERSION}.{number}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> int:
    """Return the number that a cursor of ours stands for.

    Raises:
        InvalidSpec: it is none of ours.
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
    message = "Is not a cursor of this API. Use the page.next of the page before."
    return InvalidSpec(f"cursor: {message}", details=[FieldError("cursor", message)])


def mapped(page: Page[Any], rows: Sequence[T]) -> Page[T]:
    """Return the page with other rows in the same order: what is shown of each."""
    return Page(rows, page.next)
