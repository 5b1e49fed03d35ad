"""Reads fields of raw objects. A field of the wrong type counts as absent. Pure."""

from typing import Any

from gpuplatform.kube.kinds import Manifest


def field(value: Any, *path: str) -> Any:
    """Return the value at `path`, or `None` if an element of the path is absent."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def number(value: Any, *path: str) -> int:
    """Return the integer at `path`, or 0."""
    found = field(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def text(value: Any, *path: str) -> str:
    """Return the string at `path`, or an empty string."""
    found = field(value, *path)
    return found if isinstance(found, str) else ""


def items(value: Any, *path: str) -> list[Any]:
    """Return the list at `path`, or an empty list."""
    found = field(value, *path)
    return found if isinstance(found, list) else []


def condition(value: Manifest, type_: str) -> Manifest:
    """Return the condition of the type, or an empty dict."""
    for found in items(value, "status", "conditions"):
        if field(found, "type") == type_ and isinstance(found, dict):
            return found
    return {}
