"""Postprocessing of the OpenAPI document that drf-spectacular generates."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from gpuplatform.api.endpoint import ERRORS_KEY
from gpuplatform.api.error_replies import ErrorReply, error_components, error_responses
from gpuplatform.api.parameters import HEADERS
from gpuplatform.api.schema import api_alias
from gpuplatform.errors import NotAllowed, Unauthenticated

PERMISSION_KEY: Final = "x-permission"
"""OpenAPI extension with the permission that an operation requires. `tenancy` sets it."""
_TOKEN_ERRORS: Final = (Unauthenticated.code, NotAllowed.code)
_KUBERNETES: Final = "x-kubernetes-"
_METHODS: Final = ("get", "put", "post", "delete", "patch")
_ACCEPTED: Final = "202"
MIN_SHARED_FIELD: Final = 100
"""Minimum length in JSON of a field that is declared once for several schemas."""
_VARIABLE: Final = re.compile(r"\{(\w+)\}")


def complete(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Return the completed document. drf-spectacular calls this postprocessing hook.

    - Errors, headers, repeated parameters, repeated fields and schemas, and the responses to
      accepted and to repeated requests become components that are referenced.
    - Path parameters are renamed to camelCase.
    - The document declares the required token; operations without one get an empty `security`.
    - The only example of a body becomes its `example`.
    - Titles, which pydantic derives from the names, and CEL rules are removed from schemas.
    - The description of an enum is the first paragraph of its docstring.
    - Examples of single fields are removed from responses: each response has a whole example.
    """
    components = result.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas |= _error_schemas()
    sets = [_error_codes(operation) for operation in _operations(result)]
    for operation, codes in zip(_operations(result), sets, strict=True):
        _complete_operation(operation, codes)
    components |= error_components(sets)
    components["responses"] |= _shared_responses(result)
    components["parameters"] = _shared_parameters(result)
    components["headers"] = {name: dict(header) for name, header in HEADERS.items()}
    for schema in schemas.values():
        if "enum" in schema and "description" in schema:
            schema["description"] = schema["description"].partition("\n\n")[0]
    plain = {name: _plain(schema) for name, schema in schemas.items()}
    for name in filter(_is_response, plain):
        for field in plain[name].get("properties", {}).values():
            field.pop("examples", None)
    components["schemas"] = _shared_schemas(plain | _shared_fields(plain))
    _share_security(result)
    _inline_examples(result)
    result["paths"] = {
        _VARIABLE.sub(lambda match: f"{{{api_alias(match[1])}}}", path): methods
        for path, methods in result["paths"].items()
    }
    return result


def _is_response(name: str) -> bool:
    return name.endswith("Reply")


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        for method in _METHODS:
            if method in methods:
                yield methods[method]


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
    for operation in _operations(document):
        if operation["security"]:
            document["security"] = operation.pop("security")


def _inline_examples(document: dict[str, Any]) -> None:
    for operation in _operations(document):
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


def _shared_responses(document: dict[str, Any]) -> dict[str, Any]:
    """Replace the responses to accepted and to repeated requests by references to components.

    The same applies to successful responses of several operations that differ only in their
    examples. A component has the example of its first operation.
    """
    bodies = [
        _without_examples(response)
        for operation in _operations(document)
        for response in operation["responses"].values()
        if _has_json(response)
    ]
    found: dict[str, Any] = {}
    for operation in _operations(document):
        responses = operation["responses"]
        for status, response in responses.items():
            name = _name_of_shared(status, response)
            is_several = _has_json(response) and bodies.count(_without_examples(response)) > 1
            if not name and not is_several:
                continue
            schema = response["content"]["application/json"]["schema"]["$ref"]
            subject = schema.rpartition("/")[2].removesuffix("Envelope")
            name = f"{subject.removesuffix('Reply')}{name}" if name else subject
            if _without_examples(found.setdefault(name, response)) == _without_examples(response):
                responses[status] = {"$ref": f"#/components/responses/{name}"}
    return found


def _name_of_shared(status: str, response: dict[str, Any]) -> str:
    """Return the suffix of the component of a response that is always shared, if it is one."""
    if "Idempotent-Replayed" in response.get("headers", ()):
        return "Replayed"
    return "Accepted" if status == _ACCEPTED else ""


def _has_json(response: dict[str, Any]) -> bool:
    return "$ref" in response.get("content", {}).get("application/json", {}).get("schema", {})


def _without_examples(response: dict[str, Any]) -> dict[str, Any]:
    content = response["content"]["application/json"]["schema"]
    return {**response, "content": content}


def _shared_parameters(document: dict[str, Any]) -> dict[str, Any]:
    """Replace parameters that are declared more than once by references to their components.

    A component has the name of the parameter, and the example of its first operation. Of several
    declarations with the same name, the most frequent one is shared.
    """
    lists = [operation.get("parameters", []) for operation in _operations(document)]
    declared = [_without_example(one) for parameters in lists for one in parameters]
    shared: dict[str, Any] = {}
    for parameter in sorted(declared, key=declared.count, reverse=True):
        if declared.count(parameter) > 1:
            shared.setdefault(parameter["name"], parameter)
    found: dict[str, Any] = {}
    for parameters in lists:
        for place, one in enumerate(parameters):
            if shared.get(one["name"]) == _without_example(one):
                found.setdefault(one["name"], one)
                parameters[place] = {"$ref": f"#/components/parameters/{one['name']}"}
    return dict(sorted(found.items()))


def _shared_schemas(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas, in which a part that equals a component is a reference to it."""
    names = {json.dumps(schema, sort_keys=True): name for name, schema in schemas.items()}

    def shared(part: Any) -> Any:
        name = names.get(json.dumps(part, sort_keys=True)) if isinstance(part, dict) else None
        return {"$ref": f"#/components/schemas/{name}"} if name else parts(part)

    def parts(schema: Any) -> Any:
        match schema:
            case dict():
                return {key: shared(value) for key, value in schema.items()}
            case list():
                return [shared(one) for one in schema]
            case _:
                return schema

    return {name: parts(schemas[name]) for name in sorted(schemas)}


def _without_example(parameter: dict[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in parameter["schema"].items() if key != "examples"}
    return {**parameter, "schema": schema}


def _shared_fields(schemas: dict[str, Any]) -> dict[str, Any]:
    """Replace long fields that several schemas declare by references to their components.

    A component has the name of the field with the suffix `Field`. Of several declarations with
    the same name, the one that takes most space is shared.
    """
    owners: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for schema in schemas.values():
        fields = schema.get("properties", {})
        for name, field in fields.items():
            owners.setdefault((name, json.dumps(field, sort_keys=True)), []).append(fields)
    found: dict[str, Any] = {}
    by_space = sorted(owners.items(), key=lambda one: -len(one[0][1]) * len(one[1]))
    for (name, text), places in by_space:
        component = f"{name[0].upper()}{name[1:]}Field"
        if len(places) > 1 and len(text) >= MIN_SHARED_FIELD and component not in found:
            found[component] = places[0][name]
            for fields in places:
                fields[name] = {"$ref": f"#/components/schemas/{component}"}
    return found


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
