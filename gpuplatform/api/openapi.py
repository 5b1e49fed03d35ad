"""Postprocessing of the OpenAPI document that drf-spectacular generates."""

import re
from typing import Any, Final

from gpuplatform.api.endpoint import ERRORS_KEY
from gpuplatform.api.error_replies import ErrorReply, error_components, error_responses
from gpuplatform.api.openapi_sharing import (
    operations,
    share_examples,
    shared_fields,
    shared_parameters,
    shared_responses,
    shared_schemas,
)
from gpuplatform.api.parameters import HEADERS
from gpuplatform.api.schema import api_alias
from gpuplatform.errors import NotAllowed, Unauthenticated

PERMISSION_KEY: Final = "x-permission"
"""OpenAPI extension with the permission that an operation requires. `tenancy` sets it."""
_TOKEN_ERRORS: Final = (Unauthenticated.code, NotAllowed.code)
_KUBERNETES: Final = "x-kubernetes-"
_ANY_TYPE: Final = frozenset({"enum", "const", "properties"})
"""Keywords of a nullable schema that `anyOf` separates from null."""
_VARIABLE: Final = re.compile(r"\{(\w+)\}")


def complete(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Return the completed document. drf-spectacular calls this postprocessing hook.

    - Errors, headers, repeated parameters, repeated fields and schemas, and the responses to
      accepted and to repeated requests become components that are referenced.
    - The example of a response belongs to the schema of its data, which lists contain too.
    - Path parameters are renamed to camelCase.
    - The document declares the required token; operations without one get an empty `security`.
    - The only example of a request becomes its `example`.
    - Titles, which pydantic derives from the names, and CEL rules are removed from schemas.
    - A schema that is null or of one other type has a list of types instead of `anyOf`.
    - The description of an enum is the first paragraph of its docstring.
    - Examples of single fields are removed from responses, which have a whole example, and from
      fields whose values are evident.
    """
    components = result.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas |= _error_schemas()
    sets = [_error_codes(operation) for operation in operations(result)]
    for operation, codes in zip(operations(result), sets, strict=True):
        _complete_operation(operation, codes)
    components |= error_components(sets)
    components["responses"] |= shared_responses(result)
    components["parameters"] = shared_parameters(result)
    components["headers"] = {name: dict(header) for name, header in HEADERS.items()}
    for schema in schemas.values():
        if "enum" in schema and "description" in schema:
            schema["description"] = schema["description"].partition("\n\n")[0]
    plain = {name: _plain(schema) for name, schema in schemas.items()}
    for name, schema in plain.items():
        for field in schema.get("properties", {}).values():
            if _is_response(name) or _is_evident(field):
                field.pop("examples", None)
    components["schemas"] = shared_schemas(plain | shared_fields(plain))
    _share_security(result)
    _inline_examples(result)
    share_examples(result)
    result["paths"] = {
        _VARIABLE.sub(lambda match: f"{{{api_alias(match[1])}}}", path): methods
        for path, methods in result["paths"].items()
    }
    return result


def _is_response(name: str) -> bool:
    return name.endswith("Reply")


def _is_evident(field: dict[str, Any]) -> bool:
    """Return whether the declaration of a field names the value of its example."""
    is_listed = "enum" in field or field.get("type") == "boolean"
    return is_listed or ("default" in field and [field["default"]] == field.get("examples"))


def _error_codes(operation: dict[str, Any]) -> list[str]:
    """Remove the error codes of an operation; return them with the codes of required tokens."""
    codes: list[str] = operation.pop(ERRORS_KEY, [])
    return sorted({*codes, *(_TOKEN_ERRORS if operation.get("security") else ())})


def _complete_operation(operation: dict[str, Any], codes: list[str]) -> None:
    operation.setdefault("security", [])
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            parameter["name"] = api_alias(parameter["name"])
    for response in operation["responses"].values():
        names = ["X-Request-ID", *response.get("headers", ())]
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    operation["responses"] |= error_responses(codes)


def _share_security(document: dict[str, Any]) -> None:
    """Declare the required token for the whole document instead of for each operation."""
    for operation in operations(document):
        if operation["security"]:
            document["security"] = operation.pop("security")


def _inline_examples(document: dict[str, Any]) -> None:
    for operation in operations(document):
        _inline_example(operation.get("requestBody", {}))
        for response in operation["responses"].values():
            _inline_example(response)
    for response in document["components"]["responses"].values():
        _inline_example(response)


def _inline_example(body: dict[str, Any]) -> None:
    """Replace the only example of a body by its value, unless it is a reference."""
    for content in body.get("content", {}).values():
        match list(content.get("examples", {}).values()):
            case [{"value": value}]:
                del content["examples"]
                content["example"] = value
            case _:
                pass


def _error_schemas() -> dict[str, Any]:
    """Return the schemas of the error body, which no operation declares."""
    schema = ErrorReply.model_json_schema(
        by_alias=True, ref_template="#/components/schemas/{model}", mode="serialization"
    )
    definitions: dict[str, Any] = schema.pop("$defs")
    return {ErrorReply.__name__: schema, **definitions}


def _plain(schema: Any) -> Any:
    """Return a schema without titles, but with properties named `title`, and without CEL rules.

    A nullable schema has the type `null` in its list of types, unless it is a component, or has
    a keyword that applies to null too.
    """
    match schema:
        case {"anyOf": [{"type": str(kind), **options}, {"type": "null"}], **rest} if not (
            options.keys() & _ANY_TYPE
        ):
            return _plain({"type": [kind, "null"], **options, **rest})
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
