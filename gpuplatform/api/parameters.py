"""Query parameters and headers in the OpenAPI document."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter

from gpuplatform.api.query import Query

HEADERS: Final[Mapping[str, dict[str, Any]]] = {
    "X-Request-ID": {
        "description": "ID of the HTTP request in the platform's log. It is the `X-Request-ID` of"
        " the request if that matches the pattern, otherwise a generated ID.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
    },
    "Location": {
        "description": "URL of the operation or invocation.",
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Idempotent-Replayed": {
        "description": "`true` if the request was already accepted.",
        "schema": {"type": "string", "const": "true"},
    },
    "ETag": {
        "description": "Version of the object's spec, for use in `If-Match`. Absent until the"
        " object exists in the cluster.",
        "schema": {"type": "string", "pattern": '^"[!#-~]{1,128}"$'},
    },
    "Retry-After": {
        "description": "Number of seconds to wait before repeating the request.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RateLimit": {
        "description": "What remains of each rate: `r` is the number of requests, and `t` the"
        " number of seconds after which more are possible. Every response to a caller with"
        " limited rates has it.",
        "schema": {"type": "string", "pattern": '^"[a-z-]+";r=[0-9]+;t=[0-9]+(, .+)?$'},
        "example": '"token-writes";r=99;t=5, "tenant-writes";r=199;t=5',
    },
    "RateLimit-Policy": {
        "description": "The rates: at most `q` requests within `w` seconds. Every response to a"
        " caller with limited rates has it.",
        "schema": {"type": "string", "pattern": '^"[a-z-]+";q=[0-9]+;w=[0-9]+(, .+)?$'},
        "example": '"token-writes";q=100;w=5, "tenant-writes";q=200;w=5',
    },
    "WWW-Authenticate": {
        "description": "Authentication scheme that the API requires.",
        "schema": {"type": "string", "const": "Bearer"},
    },
}
"""Response headers by name."""


def response_header(name: str, statuses: Collection[int]) -> OpenApiParameter:
    """Declare a header of the responses with these HTTP statuses."""
    return OpenApiParameter(
        name, str, OpenApiParameter.HEADER, response=[str(status) for status in statuses]
    )


def query_parameters(query: type[Query], *, operation_id: str) -> list[OpenApiParameter]:
    """Declare the query parameters. `operation_id` is the example of `operationID`."""
    schema = query.model_json_schema(by_alias=True)
    required = set(schema.get("required", ()))
    definitions = schema.get("$defs", {})
    schemas = schema.get("properties", {})
    if "operationID" in schemas:
        schemas["operationID"]["examples"] = [operation_id]
    return [
        OpenApiParameter(
            name=name,
            type=_inlined(_without_null(declared), definitions),
            location=OpenApiParameter.QUERY,
            required=name in required,
            description=declared.get("description", ""),
        )
        for name, declared in schemas.items()
    ]


def _inlined(declared: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a schema with its references inlined, since parameters have no definitions."""
    if isinstance(declared, list):
        return [_inlined(one, definitions) for one in declared]
    if not isinstance(declared, dict):
        return declared
    reference = declared.get("$ref", "").removeprefix("#/$defs/")
    found = {**_without_null(definitions.get(reference, {})), **declared}
    return {key: _inlined(one, definitions) for key, one in found.items() if key != "$ref"}


def _without_null(declared: Mapping[str, Any]) -> dict[str, Any]:
    schema = {
        key: value
        for key, value in declared.items()
        if key not in {"title", "description", "anyOf"} and value is not None
    }
    options = [one for one in declared.get("anyOf", ()) if one != {"type": "null"}]
    return {**options[0], **schema} if options else schema
