"""The OpenAPI document: envelopes, examples and every error code at its status."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from itertools import groupby
from types import GenericAlias
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from pydantic import BaseModel, ConfigDict, Field, create_model

from gpuplatform import errors as failures
from gpuplatform.api.examples import example_of
from gpuplatform.api.query import Query
from gpuplatform.errors import PlatformError

_UPPER = {"id": "ID", "url": "URL", "uid": "uid"}


def api_alias(name: str) -> str:
    """Return the JSON name of a Python one: `operation_id` is `operationID`."""
    first, *rest = name.split("_")
    return first + "".join(_UPPER.get(part, part.capitalize()) for part in rest)


class Reply(BaseModel):
    """Base of what stands in `data`: made from a row or by name, written in camelCase."""

    model_config = ConfigDict(
        frozen=True,
        from_attributes=True,
        alias_generator=api_alias,
        validate_by_name=True,
        validate_by_alias=True,
        # With defaults too, a field is always there: clients may rely on it.
        json_schema_serialization_defaults_required=True,
    )


class ErrorDetail(Reply):
    """One fault of a payload."""

    field: str = Field(description="JSON path of the field.", examples=["template.ports[1].name"])
    message: str = Field(description="What is wrong with it.", examples=["Is required."])


class ErrorBody(Reply):
    """A failure: a code for programs, a sentence for people."""

    code: str = Field(description="Stable code for programs.", examples=["invalid_request"])
    message: str = Field(description="What happened and what to do.")
    details: list[ErrorDetail] = Field(description="The faults, one by one, if it is the payload.")
    trace_id: str = Field(description="Finds the request in the platform's log.")


class ErrorReply(Reply):
    """What every error looks like."""

    error: ErrorBody


class PageInfo(Reply):
    """Where the list goes on."""

    next: str | None = Field(description="The cursor of the next page; null on the last one.")


@lru_cache(maxsize=256)
def envelope_model(model: type[BaseModel], *, is_page: bool) -> type[BaseModel]:
    """Return the model of a reply with `model` in its `data`."""
    if is_page:
        rows: Any = GenericAlias(list, (model,))
        return create_model(
            f"{model.__name__}Page", __base__=Reply, data=(rows, ...), page=(PageInfo, ...)
        )
    return create_model(f"{model.__name__}Envelope", __base__=Reply, data=(model, ...))


def usual_errors(method: str, body: type[BaseModel] | None) -> list[type[PlatformError]]:
    """Return the failures that an endpoint has by its method and by taking a body."""
    found: list[type[PlatformError]] = [
        failures.RequestError,
        failures.Unauthenticated,
        failures.NotAllowed,
        failures.MethodNotAllowed,
        failures.Throttled,
        failures.InvariantBroken,
        failures.DatabaseUnavailable,
    ]
    if body is not None:
        found += [failures.TooLarge, failures.UnsupportedMediaType]
    if method != "get":
        found += [
            failures.OperationConflict,
            failures.OperatorUnavailable,
            failures.RecoveryNeeded,
        ]
    return found


def responses(
    replies: Mapping[int, type[BaseModel]],
    *,
    is_page: bool,
    errors: Iterable[type[PlatformError]],
) -> dict[int, OpenApiResponse]:
    """Return every reply of an endpoint by status, each with examples."""
    found = {
        status: OpenApiResponse(
            envelope_model(model, is_page=is_page),
            description=_description(status, is_write=202 in replies),
            examples=[_reply_example(model, status, is_page=is_page)],
        )
        for status, model in replies.items()
    }
    by_status = sorted(set(errors), key=lambda error: (error.http_status, error.code))
    for status, group in groupby(by_status, key=lambda error: error.http_status):
        kinds = list(group)
        found[status] = OpenApiResponse(
            ErrorReply,
            description=" / ".join(dict.fromkeys(f"`{kind.code}`" for kind in kinds)),
            examples=[_error_example(kind) for kind in kinds],
        )
    return found


def parameters(query: type[Query], *, accepted: bool) -> list[OpenApiParameter]:
    """Return the query parameters, and the header of a 202."""
    schema = query.model_json_schema(by_alias=True)
    required = set(schema.get("required", ()))
    declarations = schema.get("$defs", {})
    found = [
        OpenApiParameter(
            name=name,
            type=_whole(_without_null(declared), declarations),
            location=OpenApiParameter.QUERY,
            required=name in required,
            description=declared.get("description", ""),
        )
        for name, declared in schema.get("properties", {}).items()
    ]
    if accepted:
        found.append(
            OpenApiParameter(
                name="Location",
                type=str,
                location=OpenApiParameter.HEADER,
                response=[202],
                description="The address of the operation.",
            )
        )
    return found


def _whole(declared: Any, declarations: Mapping[str, Any]) -> Any:
    """Return a schema with what it refers to in place: parameters have no declarations."""
    if isinstance(declared, list):
        return [_whole(one, declarations) for one in declared]
    if not isinstance(declared, dict):
        return declared
    reference = declared.get("$ref", "").removeprefix("#/$defs/")
    found = {**_without_null(declarations.get(reference, {})), **declared}
    return {key: _whole(one, declarations) for key, one in found.items() if key != "$ref"}


def request_examples(body: type[BaseModel] | None) -> Sequence[OpenApiExample]:
    """Return the example of a body."""
    if body is None:
        return []
    return [OpenApiExample(body.__name__, value=example_of(body), request_only=True)]


def _description(status: int, *, is_write: bool) -> str:
    if status == HTTPStatus.ACCEPTED:
        return "Accepted and kept. The operation says when it is done."
    return "Accepted before; the operation as it is." if is_write else "As asked."


def _reply_example(model: type[BaseModel], status: int, *, is_page: bool) -> OpenApiExample:
    data: Any = example_of(model)
    value = {"data": [data], "page": {"next": None}} if is_page else {"data": data}
    return OpenApiExample(
        f"{model.__name__} {status}", value=value, response_only=True, status_codes=[str(status)]
    )


def _error_example(kind: type[PlatformError]) -> OpenApiExample:
    error = kind.example()
    details = [{"field": one.field, "message": one.message} for one in error.details]
    body = {"code": error.code, "message": error.message, "details": details}
    return OpenApiExample(
        kind.code,
        value={"error": {**body, "traceID": "0f6c1d2e3b4a59687766554433221100"}},
        response_only=True,
        status_codes=[str(kind.http_status)],
    )


def _without_null(declared: Mapping[str, Any]) -> dict[str, Any]:
    schema = {
        key: value
        for key, value in declared.items()
        if key not in {"title", "description", "anyOf"} and value is not None
    }
    options = [one for one in declared.get("anyOf", ()) if one != {"type": "null"}]
    return {**options[0], **schema} if options else schema
