"""Validation of the schemas and validation rules of CustomResourceDefinitions."""

import re
from collections.abc import Iterator
from typing import Any

from gpuplatform.dev.simulator.apiserver.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    not_simulated,
    required,
    unsupported,
)
from gpuplatform.dev.simulator.apiserver.expressions import ExpressionError, compiled, type_of
from gpuplatform.dev.simulator.apiserver.rules import REASONS, RULES
from gpuplatform.dev.simulator.apiserver.schema import (
    INT_OR_STRING,
    PRESERVE,
    Schema,
    go_pattern,
    schema_at,
    validate,
)

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_NOT_SIMULATED = {"allOf", "anyOf", "oneOf", "not"}
"""Schema keywords that are not simulated, because the platform's CRDs do not use them."""


def schema_errors(schema: Any, path: str, *, is_root: bool = False) -> Iterator[FieldError]:
    """Yield the errors of a schema and its subschemas, except errors of validation rules.

    Raises:
        ApiError: 501 if the schema has keywords that are not simulated.
    """
    if not isinstance(schema, dict):
        yield invalid_value(path, schema, "must be an object")
        return
    if unheld := sorted(_NOT_SIMULATED & schema.keys()):
        raise not_simulated(f"{unheld[0]} in the schema of a custom resource")
    if "$ref" not in schema:
        yield from _type_errors(schema, path, is_root=is_root)
    yield from _keyword_errors(schema, path)
    yield from _list_errors(schema, path)
    yield from _use_errors(schema, path)
    for name, sub in schema.get("properties", {}).items():
        yield from schema_errors(sub, f"{path}.properties[{name}]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from schema_errors(schema["additionalProperties"], f"{path}.additionalProperties")
    if schema.get("type") == "array":
        if "items" not in schema:
            yield required(f"{path}.items", "must be specified")
        else:
            yield from schema_errors(schema["items"], f"{path}.items")


def _keyword_errors(schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    for word in ("$ref", "patternProperties", "definitions", "dependencies"):
        if word in schema:
            yield forbidden_value(f"{path}.{word}", f"{word} is not supported")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_value(f"{path}.uniqueItems", detail)
    if "properties" in schema and "additionalProperties" in schema:
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden_value(f"{path}.additionalProperties", detail)


def _use_errors(schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    if "default" in schema:
        yield from validate(schema["default"], schema, f"{path}.default")
    try:
        go_pattern(schema.get("pattern", ""))
    except re.error as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        yield invalid_value(f"{path}.pattern", schema["pattern"], detail)


def _type_errors(schema: dict[str, Any], path: str, *, is_root: bool) -> Iterator[FieldError]:
    kind = schema.get("type")
    free = schema.get(PRESERVE) or schema.get(INT_OR_STRING)
    if kind is None and (is_root or not free):
        where = "for the root" if is_root else "for specified object fields"
        yield required(f"{path}.type", f"must not be empty {where}")
    elif kind is not None and kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    elif is_root and kind != "object":
        yield invalid_value(f"{path}.type", kind, "must be object at the root")


def _list_errors(schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {None, "atomic", "set", "map"}:
        yield unsupported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "map", "set"))
    keys = schema.get("x-kubernetes-list-map-keys", [])
    if kind == "map" and not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", detail)
    items = schema.get("items", {})
    for key in keys:
        has_default = "default" in items.get("properties", {}).get(key, {})
        if not has_default and key not in items.get("required", ()):
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be"
                " a required property"
            )
            yield required(f"{path}.items.properties[{key}].default", detail)


def rule_errors(schema: Schema, path: str, within: str = "") -> Iterator[FieldError]:
    """Yield the errors of the validation rules of a schema and its subschemas.

    `within` is the path of the list that contains `schema` if items of the list have no keys.

    Raises:
        ApiError: 501 if a rule uses a function that is not simulated.
    """
    for index, rule in enumerate(schema.get(RULES, ())):
        yield from _one_rule_errors(rule, schema, f"{path}.{RULES}[{index}]", within)
    for name, sub in schema.get("properties", {}).items():
        yield from rule_errors(sub, f"{path}.properties[{name}]", within)
    extra, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(extra, dict):
        yield from rule_errors(extra, f"{path}.additionalProperties", within)
    if isinstance(items, dict):
        is_map = schema.get("x-kubernetes-list-type") == "map"
        yield from rule_errors(items, f"{path}.items", within or ("" if is_map else path))


def _one_rule_errors(
    rule: dict[str, Any], schema: Schema, path: str, within: str
) -> Iterator[FieldError]:
    if rule.get("optionalOldSelf"):
        raise not_simulated("optionalOldSelf of a validation rule")
    field_errors = list(_text_errors(rule, schema, path))
    yield from field_errors
    if field_errors:
        return
    kind, message = type_of(schema), rule.get("messageExpression", "")
    try:
        check = compiled(rule["rule"], kind, "bool")
    except ExpressionError as error:
        yield invalid_value(f"{path}.rule", rule, str(error))
        return
    try:
        if message:
            compiled(message, kind, "string")
    except ExpressionError as error:
        yield invalid_value(f"{path}.messageExpression", rule, f"messageExpression {error}")
    if check.uses_old and within:
        where = f"the uncorrelatable portion of the schema within {within}"
        yield invalid_value(f"{path}.rule", rule["rule"], f"oldSelf cannot be used on {where}")


def _text_errors(rule: dict[str, Any], schema: Schema, path: str) -> Iterator[FieldError]:
    source, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not source:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid_value(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid_value(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in source and not message:
        detail = "message must be specified if rule contains line breaks"
        yield required(f"{path}.message", detail)
    if rule.get("reason", REASONS[0]) not in REASONS:
        yield unsupported(f"{path}.reason", rule["reason"], REASONS)
    place = rule.get("fieldPath", "")
    if place and (not place.startswith(".") or schema_at(schema, place) is None):
        yield invalid_value(f"{path}.fieldPath", place, "must be a valid path")
