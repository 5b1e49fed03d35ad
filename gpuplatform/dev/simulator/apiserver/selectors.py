"""Label and field selectors, which are parsed into predicates."""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from gpuplatform.dev.simulator.apiserver.errors import bad_request
from gpuplatform.dev.simulator.apiserver.jsonpath import value_at
from gpuplatform.dev.simulator.apiserver.objects import Manifest

Labels: TypeAlias = Mapping[str, str]
Predicate: TypeAlias = Callable[[Manifest], bool]

_NAME = r"(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9][-A-Za-z0-9_.]*"
_VALUE = r"[-A-Za-z0-9_.]*"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<not>!)\s*(?P<absent>{_NAME})"
    rf"|(?P<key>{_NAME})\s*(?:(?P<set>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})|(?P<order>[<>])\s*(?P<number>-?\d+))?)\s*(?:,|$)"
)
_OPERATORS = {"=": True, "==": True, "!=": False, "in": True, "notin": False}


def labels_match(labels: Labels, selector: Manifest | None) -> bool:
    """Return whether a LabelSelector matches `labels`. `None` matches nothing."""
    if selector is None:
        return False
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    return all(expression_holds(labels, e) for e in selector.get("matchExpressions", ()))


def expression_holds(labels: Labels, expression: Manifest) -> bool:
    """Return whether `labels` satisfy a requirement such as `In`, `NotIn` or `Exists`."""
    key, values = expression["key"], expression.get("values", ())
    operator: str = expression["operator"]
    if operator in {"In", "NotIn"}:
        return (labels.get(key) in values) is (operator == "In")
    if operator in {"Exists", "DoesNotExist"}:
        return (key in labels) is (operator == "Exists")
    number = labels.get(key, "")
    if not number.lstrip("-").isdecimal():
        return False
    return int(number) > int(values[0]) if operator == "Gt" else int(number) < int(values[0])


def label_selector(text: str) -> Predicate:
    """Parse a label selector such as `a=b,c!=d,e in (f,g),!h`.

    Raises:
        ApiError: 400 if the selector is invalid.
    """
    expressions: list[Manifest] = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise bad_request(f'unable to parse requirement: found "{text[position:]}"')
        expressions.append(_expression(match))
        position = match.end()

    def holds(obj: Manifest) -> bool:
        labels = obj["metadata"].get("labels", {})
        return all(expression_holds(labels, e) for e in expressions)

    return holds


def _expression(match: re.Match[str]) -> Manifest:
    if match["absent"]:
        return {"key": match["absent"], "operator": "DoesNotExist"}
    if match["order"]:
        operator = "Gt" if match["order"] == ">" else "Lt"
        return {"key": match["key"], "operator": operator, "values": [match["number"]]}
    word = match["set"] or match["sign"]
    if not word:
        return {"key": match["key"], "operator": "Exists"}
    values = [v.strip() for v in match["values"].split(",")] if match["set"] else [match["value"]]
    return {
        "key": match["key"],
        "operator": "In" if _OPERATORS[word] else "NotIn",
        "values": values,
    }


def field_selector(text: str, supported: tuple[str, ...]) -> Predicate:
    """Parse a field selector such as `metadata.name=x,status.phase!=Failed`.

    Raises:
        ApiError: 400 if the selector is invalid or contains an unsupported field.
    """
    desired: list[tuple[str, bool, str]] = []
    for part in filter(None, text.split(",")):
        found = re.fullmatch(r"\s*([^=!\s]+)\s*(==|=|!=)\s*(.*?)\s*", part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        field, sign, value = found.groups()
        if field not in {"metadata.name", "metadata.namespace", *supported}:
            known = '"metadata.name", "metadata.namespace"'
            unknown = f'"{field}" is not a known field selector: only {known}'
            raise bad_request(f"field label not supported: {field}" if supported else unknown)
        desired.append((field, _OPERATORS[sign], value))

    def holds(obj: Manifest) -> bool:
        return all((_field(obj, f) == value) is equal for f, equal, value in desired)

    return holds


def _field(obj: Manifest, field: str) -> str:
    if field == "source":
        field = "source.component"
    value = value_at(obj, field)
    if isinstance(value, bool) or (value is None and field == "spec.unschedulable"):
        return "true" if value else "false"
    return "" if value is None else str(value)
