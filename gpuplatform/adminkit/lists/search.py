"""The global search by name, operationID, image or UID.

It runs the search of each list that has a `search_order` and returns the newest matches. Lists
that the user may not view are excluded.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.core.exceptions import EmptyResultSet
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import QuerySet
from django.db.models.functions import JSONObject
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
    """Yield the result of each list with matches.

    Runs one query for the matches of all lists, and one for the rows of each table with matches
    whose list has no `line_fields`.
    """
    searched = [page for page in pages if isinstance(page, ObjectAdmin) and page.search_order]
    searched = [page for page in searched if text and page.has_view_permission(request)]
    searched.sort(key=lambda one: one.search_order or 0)
    matches = zip(searched, _matches(request, searched, text), strict=True)
    found = {page: lines for page, lines in matches if lines}
    rows = _rows(request, {page: set(found[page]) for page in found if not page.line_fields})
    rows |= {page: _rows_of_lines(page, found[page]) for page in found if page.line_fields}
    for page in found:
        yield _result(page, text, rows[page])


def _rows_of_lines(page: ObjectAdmin, found: Mapping[int, str]) -> list[Any]:
    """Return rows with their `line_fields`, as the database returned them in JSON."""
    # `from_db` requires the order of the model.
    names = {"id", *page.line_fields}
    columns = [one for one in page.opts.concrete_fields if one.name in names]
    lines = [{"id": number, **json.loads(line)} for number, line in found.items()]
    return [
        page.model.from_db(
            DEFAULT_DB_ALIAS,
            [one.attname for one in columns],
            [one.to_python(line[one.name]) for one in columns],
        )
        for line in lines
    ]


def _rows(
    request: HttpRequest, found: Mapping[ObjectAdmin, set[int]]
) -> dict[ObjectAdmin, list[Any]]:
    """Return the matching rows of each list.

    Lists whose models are proxies of one table share a query, and their rows have no annotations.
    """
    tables: dict[Any, list[ObjectAdmin]] = {}
    for page in found:
        tables.setdefault(page.model._meta.concrete_model, []).append(page)  # noqa: SLF001 - public API
    rows: dict[ObjectAdmin, list[Any]] = {}
    for table, pages in tables.items():
        if len(pages) == 1:
            rows[pages[0]] = list(pages[0].get_queryset(request).filter(pk__in=found[pages[0]]))
            continue
        names = [one.attname for one in table._meta.concrete_fields]  # noqa: SLF001 - as above
        wanted = set().union(*(found[page] for page in pages))
        values = table.objects.filter(pk__in=wanted).values_list("pk", *names)
        by_id = {number: columns for number, *columns in values}
        for page in pages:
            numbers = found[page] & by_id.keys()
            rows[page] = [page.model.from_db(DEFAULT_DB_ALIAS, names, by_id[n]) for n in numbers]
    return rows


def _result(page: ObjectAdmin, text: str, found: list[Any]) -> SearchResult:
    """Return the newest of the matching rows, exact names first."""
    name = page.search_fields[0]
    found.sort(key=lambda row: (getattr(row, name).casefold() != text.casefold(), -row.pk))
    history = {"history": "all"} if hasattr(page.model, "deleted_at") else {}
    return SearchResult(
        title=str(page.opts.verbose_name_plural),
        rows=page.lines(found[:MAX_RESULTS]),
        url=f"{list_url(page.model)}?{urlencode({'q': text, **history})}",
        has_more=len(found) > MAX_RESULTS,
    )


def _matches(
    request: HttpRequest, pages: Sequence[ObjectAdmin], text: str
) -> Sequence[dict[int, str]]:
    """Return the newest matches in each list, and of exact names, with one query.

    The result has the `line_fields` of each match in JSON by its id.
    """
    parts: list[str] = []
    values: list[Any] = []
    for place, page in enumerate(pages):
        rows = page.get_queryset(request)
        matching, _ = page.get_search_results(request, rows, text)
        exact = rows.filter(**{f"{page.search_fields[0]}__iexact": text})
        line = JSONObject(**dict(zip(page.line_fields, page.line_fields, strict=True)))
        for some, limit in ((matching, MAX_RESULTS + 1), (exact, MAX_RESULTS)):
            newest: QuerySet[Any, Any] = some.order_by("-pk").values_list("pk", line)[:limit]
            with suppress(EmptyResultSet):  # The query set matches no rows.
                sql, params = newest.query.sql_with_params()
                parts.append(f"SELECT {place}, id, line FROM ({sql}) AS matching (id, line)")  # noqa: S608 - Django's
                values += params
    found: list[dict[int, str]] = [{} for _ in pages]
    if parts:
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(parts), values)
            for place, row_id, line in cursor.fetchall():
                found[place][row_id] = line
    return found
