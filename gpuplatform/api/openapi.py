"""Postprocessing of the OpenAPI document that drf-spectacular generates."""

import re
from collections.abc import Iterator
from typing import Any, Final

from gpuplatform.api.endpoint import ERRORS_KEY
from gpuplatform.api.error_replies import ErrorReply, error_components, error_responses
from gpuplatform.api.parameters import HEADERS
from gpuplatform.api.schema import api_alias

_KUBERNETES: Final = "x-kubernetes-"
_METHODS: Final = ("get", "put", "post", "delete", "patch")
_VARIABLE: Final = re.compile(r"\{(\w+)\}")


def complete(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Return the completed document. drf-spectacular calls this postprocessing hook.

    - Errors and headers become components that the operations reference.
    - Path parameters are renamed to camelCase.
    - Operations that require no token get an empty `security`.
    - Titles, which pydantic derives from the names, and CEL rules are removed from schemas.
    - The description of an enum is the first paragraph of its docstring.
    """
    components = result.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas |= _error_schemas()
    sets = [operation.pop(ERRORS_KEY, []) for operation in _operations(result)]
    for operation, codes in zip(_operations(result), sets, strict=True):
        _complete_operation(operation, codes)
    components |= error_components(sets)
    components["headers"] = {name: dict(header) for name, header in HEADERS.items()}
    for schema in schemas.values():
        if "enum" in schema and "description" in schema:
            schema["description"] = schema["description"].partition("\n\n")[0]
    components["schemas"] = {name: _plain(schemas[name]) for name in sorted(schemas)}
    result["paths"] = {
        _VARIABLE.sub(lambda match: f"{{{api_alias(match[1])}}}", path): methods
        for path, methods in result["paths"].items()
    }
    return result


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        for method in _METHODS:
            if method in methods:
                yield methods[method]


def _complete_operation(operation: dict[str, Any], codes: list[str]) -> None:
    operation.setdefault("security", [])
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            parameter["name"] = api_alias(parameter["name"])
    for response in operation["responses"].values():
        names = ["X-Request-ID", *response.get("headers", ())]
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    operation["responses"] |= error_responses(codes)


def _error_schemas() -> dict[str, Any]:
    """Return the schemas of the error body, which no operation declares."""
    schema = ErrorReply.model_json_schema(
        by_alias=True, ref_template="#/components/schemas/{model}", mode="serialization"
    )
    definitions: dict[str, Any] = schema.pop("$defs")
    return {ErrorReply.__name__: schema, **definitions}


def _plain(schema: Any) -> Any:
    """Return a schema without titles, but with properties named `title`, and without CEL rules."""
    match schema:
        case dict():
            return {
                key: _plain(value)
                for key, value in schema.items()
                if not (key == "title" and isinstance(value, str))
                and not key.startswith(_KUBERNETES)
            }
        case list():
            return [_plain(one) for one in schema]
        case _:
            return schema
