"""One search over everything: from a name, an operationID, an image or a UID to the row's page.

Asks each list that takes part, as its own search does, for its newest few; whoever may not see a
list finds nothing of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.lists.readonly import ReadOnlyAdmin

MOST_OF_A_LIST: Final = 6
LONGEST: Final = 200
"""Characters of a search that are looked for."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What one list has of it, and the address of the whole list."""

    title: str
    rows: Sequence[RelatedRow]
    url: str
    has_more: bool


def search_query(request: HttpRequest) -> str:
    """Return what is looked for, without what the database cannot be asked for."""
    return request.GET.get("q", "").replace("\x00", "").strip()[:LONGEST]


def search_everything(
    request: HttpRequest, pages: Iterable[Any], text: str
) -> Iterator[SearchResult]:
    """Yield what the lists have of `text`; those that have nothing are left out."""
    asked = [page for page in pages if isinstance(page, ReadOnlyAdmin) and page.search_order]
    for page in sorted(asked, key=_place):
        if text and page.has_view_permission(request):
            found = _found(request, page, text)
            if found.rows:
                yield found


def _place(page: ReadOnlyAdmin) -> int:
    return page.search_order or 0


def _found(request: HttpRequest, page: ReadOnlyAdmin, text: str) -> SearchResult:
    """Return the newest rows, those first that are named exactly so: one query."""
    rows = page.get_queryset(request)
    fitting, _ = page.get_search_results(request, rows, text)
    name = page.search_fields[0]
    exact = rows.filter(**{f"{name}__iexact": text})
    both = _newest(fitting, MOST_OF_A_LIST + 1).union(_newest(exact, MOST_OF_A_LIST))
    found = list(rows.filter(pk__in=both).order_by("-pk"))
    found.sort(key=lambda row: getattr(row, name).casefold() != text.casefold())
    listed = reverse(f"admin:{page.opts.app_label}_{page.opts.model_name}_changelist")
    history = {"history": "all"} if hasattr(page.model, "deleted_at") else {}
    return SearchResult(
        title=str(page.opts.verbose_name_plural),
        rows=[page.line(row) for row in found[:MOST_OF_A_LIST]],
        url=f"{listed}?{urlencode({'q': text, **history})}",
        has_more=len(found) > MOST_OF_A_LIST,
    )


def _newest(rows: QuerySet[Any], number: int) -> QuerySet[Any, Any]:
    """Return the numbers of the newest rows."""
    return rows.order_by("-pk").values("pk")[:number]
