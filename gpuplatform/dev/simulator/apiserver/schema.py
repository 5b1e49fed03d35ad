"""Structural schemas of custom resources: pruning, defaulting and validation.

A schema is the dict in a CustomResourceDefinition. The error messages are identical to Kubernetes.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

from gpuplatform.dev.simulator.apiserver.errors import (
    FieldError,
    duplicate,
    go_json,
    invalid_value,
    required,
    unsupported,
)
from gpuplatform.dev.simulator.apiserver.objects import clone

Schema: TypeAlias = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
_ROOT_FIELDS = ("apiVersion", "kind", "metadata")
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}


def prune(value: object, schema: Schema | None, path: str = "") -> list[str]:
    """Remove the fields of `value` that `schema` does not declare, and return their paths."""
    unknown: list[str] = []
    if isinstance(value, list):
        items = schema and schema.get("items")
        for index, item in enumerate(value):
            unknown += prune(item, items, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key in list(value):
            if not path and key in _ROOT_FIELDS:
                continue
            here = f"{path}.{key}" if path else key
            known, child = _child(schema, key)
            if known:
                unknown += prune(value[key], child, here)
            elif child is not OPAQUE:
                unknown.append(here)
                del value[key]
    return unknown


OPAQUE: Schema = {PRESERVE: True}
"""The schema of an undeclared field that is preserved."""


def _child(schema: Schema | None, key: str) -> tuple[bool, Schema | None]:
    if schema is None:
        return False, None
    if key in schema.get("properties", {}):
        return True, schema["properties"][key]
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        return True, extra
    if schema.get(PRESERVE) or extra is True:
        return False, OPAQUE
    return False, None


def child(schema: Schema, key: str) -> Schema:
    """Return the schema of the field `key`, or `OPAQUE` if it has no schema."""
    return _child(schema, key)[1] or OPAQUE


def schema_at(schema: Schema, path: str) -> Schema | None:
    """Return the schema at a path such as `.spec.ports`, or `None` if the path is not declared."""
    for name in path.removeprefix(".").split("."):
        found = schema.get("properties", {}).get(name)
        extra = schema.get("additionalProperties")
        if found is None and isinstance(extra, dict):
            found = extra
        if found is None:
            return None
        schema = found
    return schema


def apply_defaults(value: object, schema: Schema) -> None:
    """Set the defaults of absent fields. Null counts as absent if a field is not `nullable`."""
    if isinstance(value, dict):
        for key, sub in schema.get("properties", {}).items():
            if "default" in sub and (
                key not in value or (value[key] is None and not sub.get("nullable"))
            ):
                value[key] = clone(sub["default"])
        for key, member in value.items():
            apply_defaults(member, child(schema, key))
    elif isinstance(value, list):
        for item in value:
            apply_defaults(item, schema.get("items", OPAQUE))


def drop_nulls(value: object, schema: Schema) -> None:
    """Remove nulls of fields that are not `nullable`, which Kubernetes treats as absent."""
    if isinstance(value, dict):
        for key in list(value):
            sub = child(schema, key)
            if value[key] is None and sub is not OPAQUE and not sub.get("nullable"):
                del value[key]
            else:
                drop_nulls(value[key], sub)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, schema.get("items", OPAQUE))


ABSENT = object()
"""The old value of a new field."""


def validate(
    value: object, schema: Schema, path: str = "", old: object = ABSENT
) -> list[FieldError]:
    """Return the validation errors of `value`, except errors in values that are equal in `old`.

    If a CustomResourceDefinition becomes stricter, existing objects can still be updated as long
    as their invalid fields are unchanged.
    """
    if value is None and schema.get("nullable"):
        return []
    wrong = _type_error(value, schema, path)
    field_errors = [wrong] if wrong else list(_value_errors(value, schema, path))
    if wrong is None and isinstance(value, dict):
        field_errors += _object_errors(value, schema, path, old if isinstance(old, dict) else {})
    elif wrong is None and isinstance(value, list):
        field_errors += _list_errors(value, schema, path, old)
    return [] if field_errors and value == old else field_errors


def _type_error(value: object, schema: Schema, path: str) -> FieldError | None:
    desired = ["integer", "string"] if schema.get(INT_OR_STRING) else [schema.get("type")]
    if desired == [None]:
        return None
    got = "null" if value is None else _NAMES.get(type(value), "array")
    if got in desired or (got == "integer" and "number" in desired):
        return None
    if "integer" in desired and isinstance(value, float) and value.is_integer():
        return None
    names = ",".join(str(name) for name in desired)
    if desired == ["integer"] and "format" in schema and isinstance(value, float):
        names, got = schema["format"], "float64"
    detail = f'{path} in body must be of type {names}: "{got}"'
    return FieldError("FieldValueTypeInvalid", path, f'Invalid value: "{got}": {detail}')


def _value_errors(value: object, schema: Schema, path: str) -> Iterator[FieldError]:
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(path, value, schema["enum"])
    if isinstance(value, str):
        yield from islice(_string_errors(value, schema, path), 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_errors(value, schema, path)


def _string_errors(value: str, schema: Schema, path: str) -> Iterator[FieldError]:
    length = len(value)
    maximum = schema.get("maxLength", length)
    if length > maximum:
        unit = "byte" if maximum == 1 else "bytes"
        yield FieldError(
            "FieldValueTooLong", path, f"Too long: may not be more than {maximum} {unit}"
        )
    if length < schema.get("minLength", 0):
        yield invalid_value(
            path, value, f"{path} in body should be at least {schema['minLength']} chars long"
        )
    pattern = schema.get("pattern")
    if pattern and not go_pattern(pattern).search(value):
        yield invalid_value(path, value, f"{path} in body should match '{pattern}'")


_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$", re.DOTALL)
"""The parts of a regular expression that can contain `$`: escapes, classes, and the end."""


@lru_cache(maxsize=512)
def go_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a regular expression of Go, where `$` does not match before a final line break."""
    whole = _PARTS.sub(lambda part: r"\Z" if part[0] == "$" else part[0], pattern)
    return re.compile(whole, re.ASCII)


def _number_errors(value: float, schema: Schema, path: str) -> Iterator[FieldError]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (value == low and schema.get("exclusiveMinimum"))):
        detail = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield invalid_value(path, value, f"{path} in body should be {detail} {low}")
    if high is not None and (value > high or (value == high and schema.get("exclusiveMaximum"))):
        detail = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield invalid_value(path, value, f"{path} in body should be {detail} {high}")
    factor = schema.get("multipleOf")
    if factor and value % factor:
        yield invalid_value(path, value, f"{path} in body should be a multiple of {factor}")
    bits = {"int32": 31, "int64": 63}.get(schema.get("format", ""), 0)
    if bits and not -(2**bits) <= value < 2**bits:
        yield invalid_value(path, value, f"{path} in body must be of format {schema['format']}")


def _object_errors(
    value: dict[str, Any], schema: Schema, path: str, old: dict[str, Any]
) -> Iterator[FieldError]:
    prefix = f"{path}." if path else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield required(prefix + name)
    for key, member in value.items():
        if path or key not in _ROOT_FIELDS:
            before = old.get(key, ABSENT)
            yield from validate(member, child(schema, key), prefix + key, before)
    maximum, minimum = schema.get("maxProperties", len(value)), schema.get("minProperties", 0)
    if len(value) > maximum:
        yield too_many(path, len(value), maximum)
    if len(value) < minimum:
        detail = f"{path} in body should have at least {minimum} properties"
        yield invalid_value(path, len(value), detail)


def _list_errors(value: list[Any], schema: Schema, path: str, old: object) -> Iterator[FieldError]:
    items, olds = schema.get("items", OPAQUE), items_by_key(old, schema)
    for index, item in enumerate(value):
        before = olds.get(go_json(list_key(item, schema)), ABSENT) if olds else ABSENT
        yield from validate(item, items, f"{path}[{index}]", before)
    maximum, minimum = schema.get("maxItems", len(value)), schema.get("minItems", 0)
    if len(value) > maximum:
        yield too_many(path, len(value), maximum)
    if len(value) < minimum:
        detail = f"{path} in body should have at least {minimum} items"
        yield invalid_value(path, len(value), detail)
    seen: set[str] = set()
    for index, item in enumerate(value):
        key = list_key(item, schema)
        if key is not None and go_json(key) in seen:
            yield duplicate(f"{path}[{index}]", key)
        seen.add(go_json(key))


def too_many(path: str, count: int, maximum: int) -> FieldError:
    """Return the error for a list or map with more than `maximum` items."""
    unit = "item" if maximum == 1 else "items"
    return FieldError(
        "FieldValueTooMany", path, f"Too many: {count}: must have at most {maximum} {unit}"
    )


def items_by_key(value: object, schema: Schema) -> dict[str, Any]:
    """Return the items of a list of type `map` by key. For other values, return an empty dict."""
    if not isinstance(value, list) or schema.get("x-kubernetes-list-type") != "map":
        return {}
    return {go_json(list_key(item, schema)): item for item in value}


def list_key(item: object, schema: Schema) -> object | None:
    """Return the key of `item` in a list of type `map` or `set`, or `None` for an atomic list."""
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return item
    if kind != "map" or not isinstance(item, dict):
        return None
    fields = schema.get("items", {}).get("properties", {})
    return {
        name: item.get(name, fields.get(name, {}).get("default"))
        for name in sorted(schema["x-kubernetes-list-map-keys"])
        if name in item or "default" in fields.get(name, {})
    }
