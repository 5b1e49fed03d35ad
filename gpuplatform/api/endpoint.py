"""The declaration of one method of one route: from it come parsing, documentation and the form.

    class StockPools(ApiView):
        @Endpoint(id="createStockPool", summary="Create a stock pool", tag="Stock pools",
                  body=StockPoolCreate, replies={202: OperationReply, 200: OperationReply},
                  errors=[NameConflict])
        def post(self, request: Request, *, body: StockPoolCreate) -> Response: ...

The method gets `body` when one is declared, `query` when parameters are, and the path's variables.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import BaseModel
from rest_framework.request import Request
from rest_framework.views import APIView

from gpuplatform.api import schema
from gpuplatform.api.query import NoQuery, PageQuery, Query
from gpuplatform.errors import PlatformError, RequestError
from gpuplatform.formats.model import SpecModel

Method = Callable[..., HttpResponseBase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What one method takes and answers; applied to the method as a decorator."""

    id: str
    """The `operationId` in the OpenAPI document: clients are generated from it, so it stays."""
    summary: str
    tag: str
    replies: Mapping[int, type[BaseModel]]
    """Status to what stands in `data`; with a `PageQuery` a list of it."""
    body: type[SpecModel] | None = None
    query: type[Query] = NoQuery
    errors: Sequence[type[PlatformError]] = ()
    """Failures of its own, beside those that every endpoint has."""
    headers: Sequence[OpenApiParameter] = ()
    """Headers that it reads or answers with."""
    text: str = ""
    """What the answer says when it is plain text; then `replies` has nothing for 200."""

    def __call__(self, method: Method) -> Method:
        """Return the method with parsing in front and the documentation attached."""

        @wraps(method)
        def answer(view: APIView, request: Request, **path: Any) -> HttpResponseBase:
            return method(view, request, **path, **self._given(request))

        documented = extend_schema(
            operation_id=self.id,
            summary=self.summary,
            tags=[self.tag],
            request=self.body,
            parameters=[
                *schema.parameters(self.query, accepted=202 in self.replies),
                *self.headers,
            ],
            responses=self._responses(method),
            examples=schema.request_examples(self.body),
        )(answer)
        _DECLARED[documented] = self
        return documented

    def _responses(self, method: Method) -> dict[Any, OpenApiResponse]:
        found: dict[Any, OpenApiResponse] = {}
        if self.text:
            found[200, "text/plain"] = OpenApiResponse(str, description=self.text)
        errors = [*schema.usual_errors(method.__name__, self.body), *self.errors]
        is_page = issubclass(self.query, PageQuery)
        return {**found, **schema.responses(self.replies, is_page=is_page, errors=errors)}

    def _given(self, request: Request) -> dict[str, Any]:
        query = self.query.parse(request.query_params)
        given: dict[str, Any] = {} if self.query is NoQuery else {"query": query}
        if self.body is not None:
            given["body"] = self.body.parse(_data(request))
        return given


_DECLARED: dict[Method, Endpoint] = {}


def endpoint_of(view: APIView, method: str) -> Endpoint | None:
    """Return the declaration of a view's method, if it has one."""
    function = getattr(type(view), method.lower(), None)
    return _DECLARED.get(function) if function else None


def _data(request: Request) -> Any:
    # DRF takes a body of no length for an empty form, whatever its type.
    if request.META.get("CONTENT_LENGTH") in {None, "", "0"}:
        raise RequestError("The body is empty. Send a JSON object.")
    return request.data
