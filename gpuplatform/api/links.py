"""Links on an HTML page of the API: to rows, to the next page, and to the routes of an object."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.request import Request

from gpuplatform.api.endpoint import Endpoint, endpoint_of_class
from gpuplatform.api.pagination import Page
from gpuplatform.api.schema import PartialReply

_VARIABLE: Final = re.compile(r"<(?:\w+:)?(\w+)>")
_SCOPE: Final = ("namespace", "tenant")
"""Query parameters that are part of the URL of an object."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link and its text."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class _Route:
    """A route with a GET method, such as `api/v1/gpu-units/<name:name>`."""

    pattern: str
    endpoint: Endpoint

    @property
    def variables(self) -> list[str]:
        return _VARIABLE.findall(self.pattern)

    def is_below(self, pattern: str) -> bool:
        """Return whether the route has exactly one path segment more than `pattern`."""
        return self.pattern.rpartition("/")[0] == pattern

    def address(self, variables: Mapping[str, Any], query: Mapping[str, Any]) -> str:
        """Return the URL of the route with the query parameters of `_SCOPE` that it accepts."""
        path = _VARIABLE.sub(lambda found: str(variables[found[1]]), self.pattern)
        accepted = self.endpoint.query.model_fields
        scope = {str(key): query[key] for key in _SCOPE if key in accepted and query.get(key)}
        return f"/{path}?{urlencode(scope)}" if scope else f"/{path}"


def links_of(request: Request, data: Any) -> list[Link]:
    """Return the links for the response `data` of a GET request, none for other methods."""
    match = request.resolver_match
    if match is None or request.method != "GET":
        return []
    below = [route for route in _routes(settings.ROOT_URLCONF) if route.is_below(match.route)]
    query = request.query_params.dict()
    of_same = [route for route in below if set(route.variables) == set(match.kwargs)]
    links = [
        Link(route.pattern.rpartition("/")[2], route.address(match.kwargs, query))
        for route in of_same
    ]
    if isinstance(data, Page):
        of_rows = [route for route in below if route not in of_same]
        return [*links, *_rows(of_rows, data, query), *_next(request.path, data, query)]
    return links


def _rows(below: Sequence[_Route], page: Page[Any], query: Mapping[str, str]) -> Iterator[Link]:
    """Yield a link for each row if a route for a single row exists."""
    for route in below:
        variable = route.variables[-1]
        for row in page.rows:
            reply = row.reply if isinstance(row, PartialReply) else row
            values = reply.model_dump()
            if variable in values:
                yield Link(str(values[variable]), route.address(values, {**query, **values}))


def _next(path: str, page: Page[Any], query: Mapping[str, str]) -> Iterator[Link]:
    if page.next is not None:
        yield Link("Next page", f"{path}?{urlencode({**query, 'cursor': page.next})}")


@cache
def _routes(_urlconf: str) -> list[_Route]:
    return list(_walk("", get_resolver().url_patterns))


def _walk(prefix: str, patterns: Sequence[URLPattern | URLResolver]) -> Iterator[_Route]:
    for one in patterns:
        route = f"{prefix}{one.pattern}"
        if isinstance(one, URLResolver):
            yield from _walk(route, one.url_patterns)
            continue
        endpoint = endpoint_of_class(getattr(one.callback, "cls", None), "get")
        if endpoint is not None:
            yield _Route(route, endpoint)
