"""A valid example of any declared model, put together from the examples on its fields. Pure."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel


@lru_cache(maxsize=256)
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)


def example_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return a JSON object that the model takes: each field's first example, else its default."""
    schema = _schema(model)
    return _object(schema, schema.get("$defs", {}))


def _object(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        name: _value(declared, definitions)
        for name, declared in schema.get("properties", {}).items()
    }
    return {name: value for name, value in found.items() if value is not _NOTHING}


_NOTHING = object()


def _value(declared: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    match declared:
        case {"examples": [first, *_]}:
            return first
        case {"$ref": str(reference)}:
            return _object(definitions[reference.removeprefix("#/$defs/")], definitions)
        case {"anyOf": [first, *_]}:
            return _value(first, definitions)
        case {"type": "array", "items": items}:
            entry = _value(items, definitions)
            return [] if entry is _NOTHING else [entry]
        case _:
            return declared.get("default", _NOTHING)
