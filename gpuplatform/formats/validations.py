"""CEL rules that the API server enforces on custom resources. Pure.

A spec model declares them in `json_schema_extra`. They repeat validations of the model, so that
the API server rejects the same specs as the API. Source: "Common Expression Language in
Kubernetes" and "Validation rules" in the Kubernetes documentation.
"""

from collections.abc import Iterable
from typing import Any, Final

VALIDATIONS: Final = "x-kubernetes-validations"


def cel(rule: str, message: str, *, field_path: str = "") -> dict[str, str]:
    """Return a rule: a CEL expression about `self`, and the message if it is false.

    `field_path` is the invalid field below `self`, such as `.access.primaryPort`.
    """
    found = {"rule": rule, "message": message}
    return found | ({"fieldPath": field_path} if field_path else {})


def validated(*rules: dict[str, str]) -> dict[str, Any]:
    """Return the `json_schema_extra` that contains the rules."""
    return {VALIDATIONS: list(rules)}


def immutable(field: str, *, empty: str = "") -> dict[str, str]:
    """Return the rule for an object that its field `field` cannot be changed.

    The field is required or has a default, unless `empty` is the CEL expression of the value that
    an absent field equals.
    """
    before, after = (
        f"(has({one}.{field}) ? {one}.{field} : {empty})" if empty else f"{one}.{field}"
        for one in ("oldSelf", "self")
    )
    return cel(
        f"{after} == {before}",
        f"{field} cannot be changed.",
        field_path=f".{field}",
    )


def keys_match(pattern: str, max_length: int, message: str, *conditions: str) -> dict[str, str]:
    """Return the rule that each key of an object matches a regular expression completely.

    A structural schema has no keyword for keys. `conditions` are further CEL expressions about
    `key`.
    """
    checks = [f"size(key) <= {max_length}", matches("key", pattern), *conditions]
    return cel(f"self.all(key, {' && '.join(checks)})", message)


def matches(variable: str, pattern: str) -> str:
    """Return the CEL expression that a variable matches a regular expression completely."""
    escaped = pattern.replace("\\", "\\\\").replace("'", "\\'")
    return f"{variable}.matches('^({escaped})$')"


def none_of(values: Iterable[str], prefixes: Iterable[str], message: str) -> dict[str, str]:
    """Return the rule that rejects the strings in `values` and strings with one of `prefixes`."""
    names = ", ".join(f"'{value}'" for value in sorted(values))
    starts = "".join(f" && !self.startsWith('{prefix}')" for prefix in prefixes)
    return cel(f"!(self in [{names}]){starts}", message)
