"""Sharing of repeated parts of the OpenAPI document as components."""

import json
from collections.abc import Iterator
from typing import Any, Final

METHODS: Final = ("get", "put", "post", "delete", "patch")
_ACCEPTED: Final = "202"
_LAST_PAGE: Final = {"next": None}
MIN_SHARED_FIELD: Final = 70
"""Minimum length in JSON of a field that is declared once for several schemas."""
_NOT_SHARED: Final = frozenset({"default", "examples"})
"""Keywords in which fields with a common component can differ."""


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every operation of the document."""
    for methods in document["paths"].values():
        for method in METHODS:
            if method in methods:
                yield methods[method]


def shared_responses(document: dict[str, Any]) -> dict[str, Any]:
    """Replace the responses to accepted and to repeated requests by references to components.

    The same applies to successful responses of several operations that differ only in their
    examples. A component has the example of its first operation.
    """
    bodies = [
        _without_examples(response)
        for operation in operations(document)
        for response in operation["responses"].values()
        if _has_json(response)
    ]
    found: dict[str, Any] = {}
    for operation in operations(document):
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


def share_examples(document: dict[str, Any]) -> None:
    """Move the examples of responses to the schemas of their data.

    A list needs no example, because it contains the schema of its items. A response keeps its
    example if it differs from the first one of the schema.
    """
    schemas = document["components"]["schemas"]
    schemas["PageInfo"]["examples"] = [_LAST_PAGE]
    bodies = [
        response
        for operation in operations(document)
        for response in operation["responses"].values()
    ]
    for response in (*bodies, *document["components"]["responses"].values()):
        for content in response.get("content", {}).values():
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            match content.get("example"):
                case {"data": [example], "page": page} if page == _LAST_PAGE:
                    schema = schemas[name.removesuffix("Page")]
                case {"data": dict(example), **others} if not others:
                    schema = schemas[name.removesuffix("Envelope")]
                case _:
                    continue
            if schema.setdefault("examples", [example]) == [example]:
                del content["example"]


def shared_parameters(document: dict[str, Any]) -> dict[str, Any]:
    """Replace parameters that are declared more than once by references to their components.

    A component has the name of the parameter, and the example of its first operation. Of several
    declarations with the same name, the most frequent one is shared.
    """
    lists = [operation.get("parameters", []) for operation in operations(document)]
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


def _without_example(parameter: dict[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in parameter["schema"].items() if key != "examples"}
    return {**parameter, "schema": schema}


def shared_schemas(schemas: dict[str, Any]) -> dict[str, Any]:
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


def shared_fields(schemas: dict[str, Any]) -> dict[str, Any]:
    """Replace long fields that several schemas declare by references to their components.

    A component has the name of the field with the suffix `Field`. Of several declarations with
    the same name, the one that takes most space is shared. A field that differs from the component
    only in its default has the default next to the reference.
    """
    owners: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for schema in schemas.values():
        fields = schema.get("properties", {})
        for name, field in fields.items():
            text = json.dumps(_without(_NOT_SHARED, field), sort_keys=True)
            owners.setdefault((name, text), []).append(fields)
    found: dict[str, Any] = {}
    by_space = sorted(owners.items(), key=lambda one: -len(one[0][1]) * len(one[1]))
    for (name, text), places in by_space:
        component = f"{name[0].upper()}{name[1:]}Field"
        if len(places) > 1 and len(text) >= MIN_SHARED_FIELD and component not in found:
            examples = [
                fields[name]["examples"] for fields in places if "examples" in fields[name]
            ]
            found[component] = _without(_NOT_SHARED, places[0][name])
            if examples:
                found[component]["examples"] = examples[0]
            for fields in places:
                default = {key: value for key, value in fields[name].items() if key == "default"}
                fields[name] = {"$ref": f"#/components/schemas/{component}", **default}
    return found


def _without(keys: frozenset[str], schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keys}
