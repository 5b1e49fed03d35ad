"""Builds an example of a pydantic model from the examples of its fields. Pure."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from pydantic import BaseModel

EXAMPLE_TIME: Final = "2026-01-31T12:00:00Z"

_Mode = Literal["validation", "serialization"]


def request_example(model: type[BaseModel], **given: Any) -> dict[str, Any]:
    """Return a JSON object that the model accepts as a request.

    `given` contains values by alias. Any other field has its first example or its default; an
    optional field without either is omitted.
    """
    return _example(model, "validation", given)


def reply_example(model: type[BaseModel], **given: Any) -> dict[str, Any]:
    """Return a complete response as a JSON object. A nullable field without an example is null."""
    return _example(model, "serialization", given)


def _example(model: type[BaseModel], mode: _Mode, given: Mapping[str, Any]) -> dict[str, Any]:
    schema = _schema(model, mode)
    unknown = given.keys() - schema.get("properties", {}).keys()
    if unknown:
        msg = f"{model.__name__} has no field {', '.join(sorted(unknown))}"
        raise ValueError(msg)
    found: dict[str, Any] = _object(schema, schema.get("$defs", {}), given)
    return found


@lru_cache(maxsize=256)
def _schema(model: type[BaseModel], mode: _Mode) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True, mode=mode)


_ABSENT: Final = object()


def _object(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    required = schema.get("required", ())
    found = {}
    for name, declared in schema.get("properties", {}).items():
        value = given[name] if name in given else _value(declared, definitions)
        if value is not _ABSENT:
            found[name] = value
        elif name in required:
            msg = f"the required field {name} has no example"
            raise ValueError(msg)
    return found


def _value(declared: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    match declared:
        case {"examples": [first, *_]}:
            return first
        case {"anyOf": options} if {"type": "null"} in options:
            return None
        case {"$ref": str(reference)}:
            return _value(definitions[reference.removeprefix("#/$defs/")], definitions)
        case {"default": default}:
            return default
        case {"enum": [first, *_]} | {"const": first}:
            return first
        case _:
            return _of_type(declared, definitions)


def _of_type(declared: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    match declared:
        case {"type": "object"}:
            return _object(declared, definitions, {})
        case {"type": "array", "items": items}:
            entry = _value(items, definitions)
            return [] if entry is _ABSENT else [entry]
        case {"format": "date-time"}:
            return EXAMPLE_TIME
        case {"type": "boolean"}:
            return False
        case _:
            return _ABSENT
