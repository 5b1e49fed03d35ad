"""Query parameters and headers in the OpenAPI document."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter

from gpuplatform.api.query import Query

HEADERS: Final[Mapping[str, dict[str, Any]]] = {
    "X-Request-ID": {
        "description": "Identifies the HTTP request in the platform's log: the value that the"
        " request had in this header, if it is 1 to 128 of `[A-Za-z0-9._-]`, otherwise a new one.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
    },
    "Location": {
        "description": "Address of the operation or invocation.",
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Idempotent-Replayed": {
        "description": "`true` if the request had been accepted before.",
        "schema": {"type": "string", "const": "true"},
    },
    "ETag": {
        "description": "Version of the object's spec, for `If-Match`; absent until the object"
        " exists in the cluster.",
        "schema": {"type": "string", "pattern": '^"[!#-~]{1,128}"$'},
    },
    "Retry-After": {
        "description": "Seconds after which the request can be repeated.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "WWW-Authenticate": {
        "description": "The authentication scheme.",
        "schema": {"type": "string", "const": "Bearer"},
    },
}
"""The headers of responses, each declared once in the document."""


def response_header(name: str, statuses: Collection[int]) -> OpenApiParameter:
    """Return the declaration that responses with these statuses have the header."""
    return OpenApiParameter(
        name, str, OpenApiParameter.HEADER, response=[str(status) for status in statuses]
    )


def query_parameters(query: type[Query], *, operation_id: str) -> list[OpenApiParameter]:
    """Return the declarations of query parameters; `operation_id` is the example of that one."""
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
    """Return a schema with its references replaced: parameters have no definitions."""
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
