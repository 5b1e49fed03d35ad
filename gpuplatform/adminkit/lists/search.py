"""The global search by name, operationID, image or UID.

It runs the search of each list that has a `search_order` and returns the newest matches. Lists
that the user may not view are excluded.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest

from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.display.urls import list_url
from gpuplatform.adminkit.lists.model_admin import ObjectAdmin

MAX_RESULTS: Final = 6
"""Maximum number of results from each list."""
MAX_LENGTH: Final = 200
"""Maximum number of characters of a query; the search ignores the others."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The matches in one list, and the URL of the list with the same query."""

    title: str
    rows: Sequence[RelatedRow]
    url: str
    has_more: bool


def search_query(request: HttpRequest) -> str:
    """Return the query of a request without NUL characters, which the database rejects."""
    return request.GET.get("q", "").replace("\x00", "").strip()[:MAX_LENGTH]


def search_everything(
    request: HttpRequest, pages: Iterable[Any], text: str
) -> Iterator[SearchResult]:
    """Yield the result of each list with matches."""
    searched = [page for page in pages if isinstance(page, ObjectAdmin) and page.search_order]
    for page in sorted(searched, key=lambda one: one.search_order or 0):
        if text and page.has_view_permission(request):
            result = _search(request, page, text)
            if result.rows:
                yield result


def _search(request: HttpRequest, page: ObjectAdmin, text: str) -> SearchResult:
    """Return the newest matches in a list, exact names first, with one query."""
    rows = page.get_queryset(request)
    matching, _ = page.get_search_results(request, rows, text)
    name = page.search_fields[0]
    exact = rows.filter(**{f"{name}__iexact": text})
    both = _newest(matching, MAX_RESULTS + 1).union(_newest(exact, MAX_RESULTS))
    found = list(rows.filter(pk__in=both).order_by("-pk"))
    found.sort(key=lambda row: getattr(row, name).casefold() != text.casefold())
    history = {"history": "all"} if hasattr(page.model, "deleted_at") else {}
    return SearchResult(
        title=str(page.opts.verbose_name_plural),
        rows=[page.line(row) for row in found[:MAX_RESULTS]],
        url=f"{list_url(page.model)}?{urlencode({'q': text, **history})}",
        has_more=len(found) > MAX_RESULTS,
    )


def _newest(rows: QuerySet[Any], limit: int) -> QuerySet[Any, Any]:
    """Return the ids of the newest rows."""
    return rows.order_by("-pk").values("pk")[:limit]
