"""Reading raw objects. Total: what is malformed reads as if it were not there. Pure."""

from typing import Any

from gpuplatform.kube.kinds import Manifest


def field(value: Any, *path: str) -> Any:
    """Return what stands at `path`, or None where something on the way is no object."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def number(value: Any, *path: str) -> int:
    """Return the number at `path`; 0 where there is none."""
    found = field(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def items(value: Any, *path: str) -> list[Any]:
    """Return the list at `path`; empty where there is none."""
    found = field(value, *path)
    return found if isinstance(found, list) else []


def condition(value: Manifest, type_: str) -> Manifest:
    """Return the condition of that type; empty where there is none."""
    for found in items(value, "status", "conditions"):
        if field(found, "type") == type_ and isinstance(found, dict):
            return found
    return {}
