"""Validation by type: walks an object and its type, so a check of a type applies everywhere.

`types.json` declares required fields, enumerations and bounds; other checks are functions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from gpuplatform.dev.simulator.apiserver.errors import (
    Fault,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.schema import Schema

TypeCheck: TypeAlias = Callable[[Manifest, str], Iterator[Fault]]
Checks: TypeAlias = Mapping[str, Sequence[TypeCheck]]


def type_faults(value: Manifest, schema: Schema, path: str, checks: Checks) -> Iterator[Fault]:
    """Yield the faults of `value` and its members; `checks` are functions by type name."""
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
            yield from type_faults(member, sub, start + name, checks)
        elif isinstance(member, list):
            yield from _item_faults(member, sub.get("items", {}), start + name, checks)
        elif member or name not in schema.get("required", ()):
            yield from _scalar_faults(member, sub, start + name)


def _item_faults(items: list[Any], schema: Schema, path: str, checks: Checks) -> Iterator[Fault]:
    if "properties" in schema:
        for index, item in enumerate(items):
            yield from type_faults(item, schema, f"{path}[{index}]", checks)


def _scalar_faults(value: Any, schema: Schema, path: str) -> Iterator[Fault]:
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(path, value, schema["enum"])
    if "minimum" in schema:
        yield from bounds(value, path, schema["minimum"], schema.get("maximum"))


def bounds(number: int, path: str, minimum: int, maximum: int | None = None) -> Iterator[Fault]:
    """Yield a fault when `number` is out of bounds, with the message for these bounds."""
    if number >= minimum and (maximum is None or number <= maximum):
        return
    if maximum is not None:
        detail = f"must be between {minimum} and {maximum}, inclusive"
    else:
        detail = "must be greater than 0" if minimum else "must be greater than or equal to 0"
    yield invalid_value(path, number, detail)


def one_of(what: str, *fields: str) -> TypeCheck:
    """Return the check that exactly one of `fields` is set, the type of `what`."""

    def check(value: Manifest, path: str) -> Iterator[Fault]:
        present = [name for name in fields if value.get(name) is not None]
        if not present:
            yield required(path, f"must specify a {what} type")
        for name in present[1:]:
            yield forbidden_value(f"{path}.{name}", f"may not specify more than 1 {what} type")

    return check


def text(field: str, rule: Callable[[str], Iterator[str]]) -> TypeCheck:
    """Return the check of an optional string field by `rule`."""

    def check(value: Manifest, path: str) -> Iterator[Fault]:
        found = value.get(field, "")
        if found:
            yield from (invalid_value(f"{path}.{field}", found, w) for w in rule(found))

    return check
