"""CEL rules that the API server enforces on custom resources. Pure.

A spec model declares them in `json_schema_extra`; they repeat a check of the same model, so that
`kubectl apply` refuses what the API refuses. Source: "Common Expression Language in Kubernetes"
and "Validation rules" in the Kubernetes documentation.
"""

from collections.abc import Iterable
from typing import Any, Final

VALIDATIONS: Final = "x-kubernetes-validations"


def cel(rule: str, message: str, *, field_path: str = "") -> dict[str, str]:
    """Return one rule: a CEL expression over `self`, and the message of its violation.

    `field_path` names the field below `self` that is at fault, such as `.access.primaryPort`.
    """
    found = {"rule": rule, "message": message}
    return found | ({"fieldPath": field_path} if field_path else {})


def validated(*rules: dict[str, str]) -> dict[str, Any]:
    """Return the rules as an entry of `json_schema_extra`."""
    return {VALIDATIONS: list(rules)}


def immutable(field: str) -> dict[str, str]:
    """Return the rule on an object that the required field `field` keeps its first value."""
    return cel(
        f"self.{field} == oldSelf.{field}",
        f"{field} cannot be changed.",
        field_path=f".{field}",
    )


def none_of(values: Iterable[str], prefixes: Iterable[str], message: str) -> dict[str, str]:
    """Return the rule that excludes strings in `values` and strings with one of `prefixes`."""
    names = ", ".join(f"'{value}'" for value in sorted(values))
    starts = "".join(f" && !self.startsWith('{prefix}')" for prefix in prefixes)
    return cel(f"!(self in [{names}]){starts}", message)
