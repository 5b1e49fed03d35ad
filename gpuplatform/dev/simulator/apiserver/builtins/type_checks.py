"""Validation by type, which traverses an object and its type together.

`types.json` declares required fields, enumerations and bounds. Other checks are functions that
apply wherever their type occurs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from gpuplatform.dev.simulator.apiserver.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.schema import Schema

TypeCheck: TypeAlias = Callable[[Manifest, str], Iterator[FieldError]]
Checks: TypeAlias = Mapping[str, Sequence[TypeCheck]]


def type_errors(
    value: Manifest, schema: Schema, path: str, checks: Checks
) -> Iterator[FieldError]:
    """Yield the validation errors of `value` and its members.

    `checks` maps the names of types to functions that yield further errors.
    """
    start = f"{path}." if path else ""
    for name in schema.get("required", ()):
        if not value.get(name):
            yield required(start + name)
    for check in checks.get(schema.get("x-type", ""), ()):
        yield from check(value, path)
    properties = schema.get("properties", {})
    for name, member in value.items():
        sub = properties.get(name, {})
        if isinstance(member, dict):
            yield from type_errors(member, sub, start + name, checks)
        elif isinstance(member, list):
            yield from _item_errors(member, sub.get("items", {}), start + name, checks)
        elif member or name not in schema.get("required", ()):
            yield from _scalar_errors(member, sub, start + name)


def _item_errors(
    items: list[Any], schema: Schema, path: str, checks: Checks
) -> Iterator[FieldError]:
    if "properties" in schema:
        for index, item in enumerate(items):
            yield from type_errors(item, schema, f"{path}[{index}]", checks)


def _scalar_errors(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(path, value, schema["enum"])
    if "minimum" in schema:
        yield from bounds(value, path, schema["minimum"], schema.get("maximum"))


def bounds(
    number: int, path: str, minimum: int, maximum: int | None = None
) -> Iterator[FieldError]:
    """Yield an error if `number` is out of bounds."""
    if number >= minimum and (maximum is None or number <= maximum):
        return
    if maximum is not None:
        detail = f"must be between {minimum} and {maximum}, inclusive"
    else:
        detail = "must be greater than 0" if minimum else "must be greater than or equal to 0"
    yield invalid_value(path, number, detail)


def one_of(what: str, *fields: str) -> TypeCheck:
    """Return a check that exactly one of `fields` is set. Error messages contain `what`."""

    def check(value: Manifest, path: str) -> Iterator[FieldError]:
        present = [name for name in fields if value.get(name) is not None]
        if not present:
            yield required(path, f"must specify a {what} type")
        for name in present[1:]:
            yield forbidden_value(f"{path}.{name}", f"may not specify more than 1 {what} type")

    return check


def text(field: str, rule: Callable[[str], Iterator[str]]) -> TypeCheck:
    """Return a check of an optional string field by `rule`."""

    def check(value: Manifest, path: str) -> Iterator[FieldError]:
        found = value.get(field, "")
        if found:
            yield from (invalid_value(f"{path}.{field}", found, w) for w in rule(found))

    return check
