"""Validation rules of custom resources (`x-kubernetes-validations`).

The rules of a CustomResourceDefinition are compiled when its kind is registered, and evaluated at
each write. Cost limits and `optionalOldSelf` are not simulated.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gpuplatform.dev.simulator.apiserver.errors import FieldError, go_json
from gpuplatform.dev.simulator.apiserver.expressions import (
    Compiled,
    ExpressionError,
    compiled,
    evaluate,
    type_of,
    value_of,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.schema import ABSENT, Schema, items_by_key, list_key

RULES = "x-kubernetes-validations"
REASONS = (
    *("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"),
)
ROOT = "<nil>"
"""Field path of the whole object in error messages of Kubernetes."""

Pair: TypeAlias = tuple[Any, Any]
"""A tuple of a value and the old value that it replaces."""

_ROOT_PROPERTIES: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}
"""Properties that rules can access in every object, independent of its schema."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule. `place` is its `fieldPath` without the leading dot."""

    check: Compiled
    source: str
    message: str
    message_expression: Compiled | None
    reason: str
    place: str

    @property
    def text(self) -> str:
        """The message of the rule, or its expression if the rule has no message."""
        return self.message or self.source


@dataclass(frozen=True, slots=True)
class RuleTree:
    """The rules of a schema and of its subschemas. Subschemas without rules are omitted."""

    schema: Schema
    rules: tuple[Rule, ...] = ()
    properties: dict[str, "RuleTree"] = field(default_factory=dict)
    extra: "RuleTree | None" = None
    items: "RuleTree | None" = None


def root_schema(schema: Schema) -> Schema:
    """Return the schema of a whole object that rules are compiled against."""
    return {**schema, "properties": {**schema.get("properties", {}), **_ROOT_PROPERTIES}}


def rule_tree(schema: Schema) -> RuleTree | None:
    """Compile the rules of `schema` and its subschemas.

    Returns `None` if the schemas contain no rules.

    Raises:
        ExpressionError: If a rule is invalid.
        ApiError: 501 if a rule uses a function that is not simulated.
    """
    rules = tuple(compile_rule(rule, schema) for rule in schema.get(RULES, ()))
    trees = {name: rule_tree(sub) for name, sub in schema.get("properties", {}).items()}
    properties = {name: tree for name, tree in trees.items() if tree}
    extra, items = schema.get("additionalProperties"), schema.get("items")
    below = rule_tree(extra) if isinstance(extra, dict) else None
    of_items = rule_tree(items) if isinstance(items, dict) else None
    if not (rules or properties or below or of_items):
        return None
    return RuleTree(schema, rules, properties, below, of_items)


def compile_rule(rule: dict[str, Any], schema: Schema) -> Rule:
    """Compile an entry of `x-kubernetes-validations` in `schema`.

    Raises:
        ExpressionError: If the rule is invalid.
        ApiError: 501 if the rule uses a function that is not simulated.
    """
    kind, message = type_of(schema), rule.get("messageExpression", "")
    return Rule(
        check=compiled(rule["rule"], kind, "bool"),
        source=rule["rule"].strip(),
        message=rule.get("message", "").strip(),
        message_expression=compiled(message, kind, "string") if message else None,
        reason=rule.get("reason") or "FieldValueInvalid",
        place=rule.get("fieldPath", "").removeprefix("."),
    )


def rule_errors(tree: RuleTree, obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
    """Yield an error for each violated rule. `old` is the object that `obj` replaces."""
    if old is None:
        yield from _errors(tree, obj, ABSENT, "", None)
    else:
        yield from _errors(tree, obj, old, "", (obj, old))


def _errors(
    tree: RuleTree, value: Any, old: Any, path: str, pair: Pair | None
) -> Iterator[FieldError]:
    """Yield the errors of `value`. `pair` is the nearest enclosing value that has an old value."""
    if tree.rules and value is not None:
        yield from _own_errors(tree, value, old, path, pair)
    for sub, member, before, here in _parts(tree, value, old, path):
        inner = pair if before is ABSENT else (member, before)
        yield from _errors(sub, member, before, here, inner)


def _parts(
    tree: RuleTree, value: Any, old: Any, path: str
) -> Iterator[tuple[RuleTree, Any, Any, str]]:
    """Yield (tree, value, old value, path) for each member of `value` that has rules."""
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, member in value.items():
            if name in tree.properties:
                here = f"{path}.{name}" if path else name
                yield tree.properties[name], member, before.get(name, ABSENT), here
            elif tree.extra:
                yield tree.extra, member, before.get(name, ABSENT), f"{path}[{name}]"
    elif isinstance(value, list) and tree.items:
        olds = items_by_key(old, tree.schema)
        for index, item in enumerate(value):
            before = olds.get(go_json(list_key(item, tree.schema)), ABSENT)
            yield tree.items, item, before, f"{path}[{index}]"


def _own_errors(
    tree: RuleTree, value: Any, old: Any, path: str, pair: Pair | None
) -> Iterator[FieldError]:
    current = value_of(value, tree.schema)
    has_old = old is not ABSENT and old is not None
    before = value_of(old, tree.schema) if has_old else None
    for rule in tree.rules:
        if rule.check.uses_old and not has_old:
            continue
        try:
            if evaluate(rule.check.expression, current, before) is True:
                continue
        except ExpressionError as error:
            kind = go_json(tree.schema.get("type", ""))
            detail = f"Invalid value: {kind}: {error} evaluating rule: {rule.text}"
            yield FieldError("FieldValueInvalid", path or ROOT, detail)
            continue
        # A rule without oldSelf does not reject a value that a write does not change.
        if rule.check.uses_old or pair is None or pair[0] != pair[1]:
            place = ".".join(filter(None, (path, rule.place)))
            message = _message(rule, current, before)
            yield FieldError(rule.reason, place or ROOT, _error_text(rule.reason, value, message))


def _message(rule: Rule, current: Any, before: Any) -> str:
    if rule.message_expression:
        try:
            text = str(evaluate(rule.message_expression.expression, current, before)).strip()
        except ExpressionError:
            text = ""
        if text and "\n" not in text:
            return text
    return rule.message or f"failed rule: {rule.source}"


def _error_text(reason: str, value: Any, message: str) -> str:
    shown = "" if isinstance(value, dict | list) else f": {go_json(value)}"
    match reason:
        case "FieldValueForbidden":
            return f"Forbidden: {message}"
        case "FieldValueRequired":
            return f"Required value: {message}"
        case "FieldValueDuplicate":
            return f"Duplicate value{shown}"
        case _:
            return f"Invalid value{shown}: {message}"
