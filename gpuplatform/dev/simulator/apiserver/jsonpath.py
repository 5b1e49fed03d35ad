"""The subset of JSONPath that printer columns, scale and selectable fields use."""

import re
from functools import lru_cache
from typing import Any, TypeAlias

Step: TypeAlias = tuple[str, str, str]

_STEP = re.compile(
    r"\.(?P<name>(?:[^.\[\]\\]|\\.)+)"
    r"|\['(?P<quoted>[^']+)'\]"
    r"|\[(?P<index>\d+|\*)\]"
    r"|\[\?\(@\.(?P<field>[\w.]+)\s*==\s*[\"'](?P<value>[^\"']*)[\"']\)\]"
)


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[Step, ...]:
    steps, position = [], 0
    path = path if path.startswith((".", "[")) else f".{path}"
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            msg = f"{path!r} is not a simple JSON path"
            raise ValueError(msg)
        name = match["name"] or match["quoted"] or match["index"] or ""
        kind = "filter" if match["field"] else "index" if match["index"] else "name"
        first = match["field"] or name.replace("\\", "")
        steps.append((kind, first, match["value"] or ""))
        position = match.end()
    return tuple(steps)


def values_at(obj: object, path: str) -> list[Any]:
    """Return all values at `path`, such as `.status.conditions[?(@.type=="Ready")].status`.

    Raises:
        ValueError: If `path` uses unsupported syntax of JSONPath.
    """
    steps = _steps(path)
    if all(kind == "name" for kind, _, _ in steps):
        for _, name, _ in steps:
            if not isinstance(obj, dict) or name not in obj:
                return []
            obj = obj[name]
        return [obj]
    found: list[Any] = [obj]
    for step in steps:
        found = [value for item in found for value in _take(item, step)]
    return found


def value_at(obj: object, path: str) -> Any:
    """Return the first value at `path`, or `None` if no value exists."""
    return next(iter(values_at(obj, path)), None)


def set_at(obj: dict[str, Any], path: str, value: object) -> None:
    """Set `value` at a path of field names, and create missing parent objects."""
    *parents, last = [name for _, name, _ in _steps(path)]
    for name in parents:
        obj = obj.setdefault(name, {})
    obj[last] = value


def _take(item: object, step: Step) -> list[Any]:
    kind, name, desired = step
    if kind == "name":
        return [item[name]] if isinstance(item, dict) and name in item else []
    if not isinstance(item, list):
        return []
    if kind == "filter":
        return [each for each in item if value_at(each, name) == desired]
    return item if name == "*" else item[int(name) : int(name) + 1]
