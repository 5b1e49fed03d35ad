"""Declares a method of a route. Parsing, OpenAPI document and HTML form are derived from it.

    class StockPools(ApiView):
        @Endpoint(id="createStockPool", summary="Create a stock pool", tag="Stock pools",
                  body=StockPoolCreate, replies=accepted("stockpool.create", "StockPool", "h100"),
                  errors=[NameConflict])
        def post(self, request: Request, *, body: StockPoolCreate) -> Response: ...

The method receives the path variables, and `body` and `query` if they are declared.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from http import HTTPStatus
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
)
from pydantic import BaseModel
from rest_framework.request import Request
from rest_framework.views import APIView

from gpuplatform.api.error_replies import usual_errors
from gpuplatform.api.examples import reply_example, request_example
from gpuplatform.api.parameters import query_parameters, response_header
from gpuplatform.api.query import NoQuery, PageQuery, Query
from gpuplatform.api.schema import envelope_model
from gpuplatform.errors import PlatformError, RequestError
from gpuplatform.formats.model import SpecModel

Method = Callable[..., HttpResponseBase]

ERRORS_KEY = "x-errors"
"""OpenAPI extension with the error codes of an operation. `openapi.complete` removes it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The model of a response, and example values that replace the examples of its fields."""

    model: type[BaseModel]
    values: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Decorator that declares the requests and responses of a view method."""

    id: str
    """The `operationId` in the OpenAPI document. It is stable: generated clients use it."""
    summary: str
    tag: str
    replies: Mapping[int, type[BaseModel] | Sample]
    """The model of `data` by HTTP status. With a `PageQuery`, `data` is a list of the model."""
    body: type[SpecModel] | None = None
    query: type[Query] = NoQuery
    errors: Sequence[type[PlatformError]] = ()
    """Errors in addition to `usual_errors`."""
    headers: Sequence[OpenApiParameter] = ()
    """Headers of the requests and responses."""
    text: str = ""
    """Description of a text response. If it is set, `replies` is empty."""
    text_types: Sequence[str] = ("text/plain",)
    """Media types of the text response."""

    def __call__(self, method: Method) -> Method:
        """Return the method wrapped with parsing and with its OpenAPI schema attached."""

        @wraps(method)
        def parsed(view: APIView, request: Request, **path: Any) -> HttpResponseBase:
            return method(view, request, **path, **self._parsed(request))

        documented = extend_schema(
            operation_id=self.id,
            summary=self.summary,
            tags=[self.tag],
            request=self.body,
            parameters=[
                *query_parameters(self.query, operation_id=f"{self.operation_id_prefix}-1"),
                *self._headers(),
                *self.headers,
            ],
            responses=self._responses(),
            examples=self._request_examples(),
            extensions={ERRORS_KEY: self._error_codes(method.__name__)},
        )(parsed)
        _DECLARED[documented] = self
        return documented

    @property
    def operation_id_prefix(self) -> str:
        """The prefix of the operationIDs in examples, such as `create-stock-pool`."""
        return re.sub("(?=[A-Z])", "-", self.id).lower()

    def request_example(self, operation_id: str) -> dict[str, Any]:
        """Return an example of the request body with this operationID."""
        assert self.body is not None  # noqa: S101 - called for endpoints with a body only
        has_operation = "operation_id" in self.body.model_fields
        given = {"operationID": operation_id} if has_operation else {}
        return request_example(self.body, **given)

    def _request_examples(self) -> list[OpenApiExample]:
        if self.body is None:
            return []
        value = self.request_example(f"{self.operation_id_prefix}-1")
        return [OpenApiExample(self.body.__name__, value=value, request_only=True)]

    def _error_codes(self, method: str) -> list[str]:
        usual = usual_errors(method, has_body=self.body is not None)
        return sorted({error.code for error in usual | set(self.errors)})

    def _headers(self) -> list[OpenApiParameter]:
        """Return the response headers of an endpoint that accepts operations."""
        if HTTPStatus.ACCEPTED not in self.replies:
            return []
        return [
            response_header("Location", [HTTPStatus.ACCEPTED, HTTPStatus.OK]),
            response_header("Idempotent-Replayed", [HTTPStatus.OK]),
        ]

    def _responses(self) -> dict[Any, OpenApiResponse]:
        found: dict[Any, OpenApiResponse] = {}
        for media_type in self.text_types if self.text else ():
            found[200, media_type] = OpenApiResponse(str, description=self.text)
        for status, reply in self.replies.items():
            found[status] = self._response(
                status, reply if isinstance(reply, Sample) else Sample(reply)
            )
        return found

    def _response(self, status: int, sample: Sample) -> OpenApiResponse:
        is_page = issubclass(self.query, PageQuery)
        given = dict(sample.values)
        if HTTPStatus.ACCEPTED in self.replies and "operation_id" in sample.model.model_fields:
            given["operationID"] = f"{self.operation_id_prefix}-1"
        data = reply_example(sample.model, **given)
        value = {"data": [data], "page": {"next": None}} if is_page else {"data": data}
        example = OpenApiExample(
            sample.model.__name__, value=value, response_only=True, status_codes=[str(status)]
        )
        return OpenApiResponse(
            envelope_model(sample.model, is_page=is_page),
            description=sample.description or self._description(status),
            examples=[example],
        )

    def _description(self, status: int) -> str:
        if status == HTTPStatus.ACCEPTED:
            return "The request was accepted."
        is_write = HTTPStatus.ACCEPTED in self.replies
        return "The request was already accepted." if is_write else "The request succeeded."

    def _parsed(self, request: Request) -> dict[str, Any]:
        query = self.query.parse(request.query_params)
        parsed: dict[str, Any] = {} if self.query is NoQuery else {"query": query}
        if self.body is not None:
            parsed["body"] = self.body.parse(_data(request))
        return parsed


_DECLARED: dict[Method, Endpoint] = {}


def endpoint_of(view: APIView, method: str) -> Endpoint | None:
    """Return the declaration of a method of a view, or `None` if it has none."""
    return endpoint_of_class(type(view), method)


def endpoint_of_class(view: type | None, method: str) -> Endpoint | None:
    """Return the declaration of a method of a view class, or `None` if it has none."""
    function = getattr(view, method.lower(), None)
    return _DECLARED.get(function) if function else None


def _data(request: Request) -> Any:
    # DRF parses a body without a length as an empty form, whatever its media type.
    if request.META.get("CONTENT_LENGTH") in {None, "", "0"}:
        raise RequestError("The body is empty. Send a JSON object.")
    return request.data
