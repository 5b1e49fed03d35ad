"""Server-side apply: merge an applied object into the live one, with field ownership.

Fields that the manager applied before and no longer applies are removed, unless another manager
owns them. A field that another manager owns with another value is a conflict, unless forced.
"""

from dataclasses import replace
from typing import Any

from gpuplatform.dev.simulator.apiserver.errors import ApiError, go_json
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone, json_type, now
from gpuplatform.dev.simulator.apiserver.ownership import (
    Owner,
    Path,
    applied_paths,
    fields_of,
    item_element,
    path_text,
    read_owners,
    write_owners,
)
from gpuplatform.dev.simulator.apiserver.schema import OPAQUE, Schema, child, list_key

_GRANULAR = {"map", "set"}


def apply(
    live: Manifest | None, applied: Manifest, schema: Schema, owner: Owner, *, force: bool
) -> Manifest:
    """Return the result of applying `applied` to `live`, with updated field ownership.

    The arguments are not modified.

    Raises:
        ApiError: 409 if another manager owns a field with a different value and `force` is not
        set.
    """
    base = clone(live) if live else {"metadata": {}}
    owners = read_owners(base)
    previous = next((o for o in owners if o.is_same(owner)), None)
    others = [o for o in owners if o is not previous]
    mine = frozenset(applied_paths(applied, schema))
    merged: Manifest = _merge(base, clone(applied), schema)
    removed = (previous.paths if previous else frozenset()) - mine
    if removed:
        keep = _prefixes(mine) | {p for o in others for p in _prefixes(o.paths)}
        _remove(merged, schema, (), _children(removed), keep)
    before, after = fields_of(base, schema), fields_of(merged, schema)
    changed = {p for p, v in after.items() if p in mine and (p not in before or before[p] != v)}
    if not force:
        _reject_conflicts(others, changed)
    lost = changed | (before.keys() - after.keys())
    unchanged = previous is not None and previous.paths == mine and before == after
    time = previous.time if previous and unchanged else now()
    write_owners(
        merged, [*(o.without(lost) for o in others), replace(owner, paths=mine, time=time)]
    )
    return merged


def _reject_conflicts(others: list[Owner], changed: set[Path]) -> None:
    found = [
        (o, [path_text(p) for p in sorted(o.paths & changed, key=lambda p: (len(p), p))])
        for o in others
    ]
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_owner_text(o)}",
            "field": text,
        }
        for o, texts in found
        for text in texts
    ]
    if not causes:
        return
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        blocks = [
            "\n".join([f"conflicts with {_owner_text(o)}:", *(f"- {text}" for text in texts)])
            for o, texts in found
            if texts
        ]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(blocks)
    raise ApiError(409, "Conflict", message, {"causes": causes})


def _owner_text(owner: Owner) -> str:
    text = f'"{owner.manager}"'
    if owner.subresource:
        text += f' with subresource "{owner.subresource}"'
    if owner.operation == "Update":
        text += f" using {owner.api_version}"
    return text


def _merge(live: Any, applied: Any, schema: Schema) -> Any:
    if isinstance(live, dict) and isinstance(applied, dict):
        if schema.get("x-kubernetes-map-type") == "atomic":
            return applied
        merged = dict(live)
        for key, value in applied.items():
            merged[key] = _merge(live.get(key), value, child(schema, key))
        return merged
    if isinstance(live, list) and isinstance(applied, list):
        kind = schema.get("x-kubernetes-list-type")
        return _merge_list(live, applied, schema) if kind in _GRANULAR else applied
    return applied


def _merge_list(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """Merge list items by key, in the order of `applied`. Other items keep their place."""
    items = schema.get("items", OPAQUE)
    old = {item_element(item, schema): item for item in live}
    new = {item_element(item, schema): item for item in applied}
    merged: dict[str, Any] = {}
    waiting = list(old)
    for element, item in new.items():
        while waiting and (waiting[0] not in new or waiting[0] in merged):
            first = waiting.pop(0)
            merged.setdefault(first, old[first])
        merged[element] = _merge(old[element], item, items) if element in old else item
    for element in waiting:
        merged.setdefault(element, old[element])
    return list(merged.values())


def _prefixes(paths: frozenset[Path]) -> set[Path]:
    return {path[:length] for path in paths for length in range(1, len(path) + 1)}


def _children(paths: frozenset[Path]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in paths:
        node = root
        for element in path:
            node = node.setdefault(element, {})
    return root


def _remove(
    value: Any, schema: Schema, path: Path, removed: dict[str, Any], keep: set[Path]
) -> None:
    """Remove the paths in `removed` from `value`, except paths in `keep`.

    A subtree without kept paths is removed as a whole.
    """
    for element, inner in removed.items():
        here = (*path, element)
        if element == ".":
            continue
        if here not in keep and here != ("f:metadata",):
            _drop_member(value, schema, element)
        elif inner:
            found, sub = _member(value, schema, element)
            if found is not None:
                _remove(found, sub, here, inner, keep)


def _drop_member(value: Any, schema: Schema, element: str) -> None:
    if isinstance(value, dict):
        value.pop(element.removeprefix("f:"), None)
    elif isinstance(value, list):
        value[:] = [item for item in value if item_element(item, schema) != element]


def _member(value: Any, schema: Schema, element: str) -> tuple[Any, Schema]:
    if isinstance(value, dict):
        name = element.removeprefix("f:")
        return value.get(name), child(schema, name)
    items = schema.get("items", OPAQUE)
    found = [item for item in value or () if item_element(item, schema) == element]
    return (found[0] if found else None), items


def typed_error(value: object, schema: Schema, path: str = "") -> str:
    """Return the error message for an undeclared field, a wrong type or a duplicate list item.

    Returns an empty string if `value` can be applied.
    """
    if value is not None and schema.get("type") in _CONTAINERS:
        type_, detail = _CONTAINERS[schema["type"]]
        if not isinstance(value, type_):
            return f"{path}: expected {detail}, got {json_type(value)}"
    if isinstance(value, dict):
        return _object_error(value, schema, path)
    if not isinstance(value, list):
        return _scalar_error(value, schema, path)
    seen: set[str] = set()
    for item in value:
        key = list_key(item, schema)
        here = f"{path}[{_key_text(key)}]" if key is not None else path
        if key is not None and go_json(key) in seen:
            return f"{path}: duplicate entries for key [{_key_text(key)}]"
        seen.add(go_json(key))
        error = typed_error(item, schema.get("items", OPAQUE), here)
        if error:
            return error
    return ""


_CONTAINERS: dict[str, tuple[type, str]] = {"object": (dict, "map"), "array": (list, "list")}
_SCALARS: dict[str | None, tuple[tuple[type, ...], str]] = {
    "integer": ((int, float), "numeric (int or float)"),
    "number": ((int, float), "numeric (int or float)"),
    "boolean": ((bool,), "boolean"),
    "string": ((str,), "string"),
}


def _scalar_error(value: object, schema: Schema, path: str) -> str:
    types, detail = _SCALARS.get(schema.get("type"), ((), ""))
    if value is None or not types or isinstance(value, types):
        return ""
    return f"{path}: expected {detail}, got {json_type(value)}"


def _object_error(value: dict[str, Any], schema: Schema, path: str) -> str:
    declared = schema.get("properties")
    for key, member in value.items():
        if key not in (declared or {}) and declared is not None and not _allows_undeclared(schema):
            return f"{path}.{key}: field not declared in schema"
        error = typed_error(member, child(schema, key), f"{path}.{key}")
        if error:
            return error
    return ""


def _allows_undeclared(schema: Schema) -> bool:
    return bool(
        schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("additionalProperties")
    )


def _key_text(key: object) -> str:
    if isinstance(key, dict):
        return ",".join(f"{name}={go_json(value)}" for name, value in key.items())
    return f"={go_json(key)}"
