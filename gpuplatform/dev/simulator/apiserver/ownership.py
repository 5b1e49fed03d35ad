"""Field ownership: sets of field paths, which are stored in `managedFields`.

A path is a tuple of the elements of `fieldsV1` (`f:spec`, `k:{"name":"a"}`, `v:"x"`); a `.` at
the end represents the object or list item itself. The rules follow structured-merge-diff.
"""

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from gpuplatform.dev.simulator.apiserver.errors import go_json
from gpuplatform.dev.simulator.apiserver.objects import Manifest, now
from gpuplatform.dev.simulator.apiserver.schema import OPAQUE, Schema, child, list_key

Path: TypeAlias = tuple[str, ...]
Fields: TypeAlias = dict[Path, Any]

SELF = "."
_ITEM = object()
_OBJECT = object()
_TEMPLATE = ("f:spec", "f:template")
_IMPLICIT_OBJECTS = (
    *(("f:spec",), ("f:status",), ("f:spec", "f:strategy"), ("f:spec", "f:containers"), _TEMPLATE),
    ("f:spec", "f:names"),
    *((*_TEMPLATE, "f:metadata"), (*_TEMPLATE, "f:spec"), (*_TEMPLATE, "f:spec", "f:containers")),
)
"""Paths of objects that exist in every built-in kind, so their existence has no owner."""
_STRIPPED = {
    *(("f:apiVersion",), ("f:kind",), ("f:metadata", SELF), (SELF,)),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            *("name", "namespace", "uid", "creationTimestamp", "selfLink", "generation"),
            *("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"),
        )
    ),
}
_STRIPPED_FROM_BUILTIN = {*_STRIPPED, *((*path, SELF) for path in _IMPLICIT_OBJECTS), ("f:spec",)}


def fields_of(obj: Manifest, schema: Schema) -> Fields:
    """Return all paths of `obj` with their values. Paths of objects end with `.`."""
    rest = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    found = _walk({**obj, "metadata": rest}, schema, ())
    stripped = _STRIPPED_FROM_BUILTIN if "x-type" in schema else _STRIPPED
    return {path: value for path, value in found if path not in stripped}


def _walk(value: Any, schema: Schema, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value and schema.get("x-kubernetes-map-type") != "atomic":
        yield (*path, SELF), (_ITEM if schema is OPAQUE else _OBJECT)
        for key, member in value.items():
            yield from _walk(member, child(schema, key), (*path, f"f:{key}"))
    elif isinstance(value, list) and value and _is_granular(schema):
        yield (*path, SELF), _OBJECT
        for item in value:
            yield from _walk_item(item, schema, path)
    else:
        yield path, value


def _walk_item(item: Any, schema: Schema, path: Path) -> Iterator[tuple[Path, Any]]:
    here = (*path, item_element(item, schema))
    items = schema.get("items", OPAQUE)
    if not isinstance(item, dict) or items.get("x-kubernetes-map-type") == "atomic":
        yield (*here, SELF), item
        return
    yield (*here, SELF), _ITEM
    for key, member in item.items():
        yield from _walk(member, child(items, key), (*here, f"f:{key}"))


def _is_granular(schema: Schema) -> bool:
    return schema.get("x-kubernetes-list-type") in {"map", "set"}


def item_element(item: object, schema: Schema) -> str:
    """Return the path element of a list item: `k:{...}` if the list has keys, or `v:...`."""
    key = list_key(item, schema)
    return f"k:{go_json(key)}" if isinstance(item, dict) else f"v:{go_json(item)}"


def applied_paths(obj: Manifest, schema: Schema) -> set[Path]:
    """Return the paths of the values and list items that an apply of `obj` owns."""
    return {path for path, value in fields_of(obj, schema).items() if value is not _OBJECT}


@dataclass(frozen=True, slots=True)
class Owner:
    """An entry of `managedFields`."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    paths: frozenset[Path]
    ignored: tuple[str, ...] = ()
    """Fields that the manager cannot write through this endpoint and therefore does not own."""

    def is_same(self, other: "Owner") -> bool:
        """Return whether both entries have the same manager, operation and subresource."""
        mine = (self.manager, self.operation, self.api_version, self.subresource)
        return mine == (other.manager, other.operation, other.api_version, other.subresource)

    def without(self, paths: AbstractSet[Path]) -> "Owner":
        """Return a copy of this entry without `paths`."""
        kept = self.paths - paths
        return self if len(kept) == len(self.paths) else replace(self, paths=kept)


def read_owners(obj: Manifest) -> list[Owner]:
    """Return the owners from `managedFields` of `obj`."""
    return [
        Owner(
            entry.get("manager", ""),
            entry["operation"],
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
            entry.get("time", ""),
            frozenset(_decode(entry.get("fieldsV1", {}), ())),
        )
        for entry in obj["metadata"].get("managedFields", ())
    ]


def write_owners(obj: Manifest, owners: list[Owner]) -> None:
    """Set `managedFields` of `obj`. Owners without fields are omitted."""
    ordered = sorted(owners, key=lambda o: (o.operation, o.time, o.manager, o.subresource))
    entries = [_entry(owner) for owner in ordered if owner.paths]
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def _entry(owner: Owner) -> Manifest:
    return {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": owner.api_version,
        "time": owner.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": _encode(owner.paths),
        **({"subresource": owner.subresource} if owner.subresource else {}),
    }


def _encode(paths: AbstractSet[Path]) -> Manifest:
    root: Manifest = {}
    for path in sorted(paths):
        node = root
        for element in path:
            node = node.setdefault(element, {})
    return _without_lone_members(root)


def _without_lone_members(node: Manifest) -> Manifest:
    """Replace list items without further fields with `v:"x": {}`."""
    return {
        element: {}
        if element[0] in "kv" and element[1:2] == ":" and inner == {SELF: {}}
        else _without_lone_members(inner)
        for element, inner in node.items()
    }


def _decode(node: Manifest, path: Path) -> Iterator[Path]:
    for element, inner in node.items():
        here = (*path, element)
        if inner:
            yield from _decode(inner, here)
        elif element[0] in "kv" and element[1:2] == ":":
            yield (*here, SELF)
        else:
            yield here


def record_update(new: Manifest, old: Manifest | None, schema: Schema, owner: Owner) -> None:
    """Make `owner` the only owner of the fields that differ between `old` and `new`.

    The owners are written to `new`. `owner.paths` must be empty.
    """
    after = fields_of(_part(new, owner), schema)
    before = fields_of(_part(old, owner), schema) if old else {}
    changed = {
        path
        for path, value in after.items()
        if path not in before or _differs(before, path, value)
    }
    removed = before.keys() - after.keys()
    owners = [o.without(changed | removed) for o in (read_owners(old) if old else [])]
    mine = next((o for o in owners if o.is_same(owner)), None)
    if changed:
        kept = (mine.paths if mine else frozenset()) | changed
        grown = replace(owner, paths=kept, time=now())
        owners = [grown if o is mine else o for o in owners] if mine else [*owners, grown]
    write_owners(new, owners)


def _part(obj: Manifest, owner: Owner) -> Manifest:
    """Return the part of `obj` that `owner` can change through its endpoint."""
    if owner.subresource != "status":
        return {name: part for name, part in obj.items() if name not in owner.ignored}
    annotations = obj["metadata"].get("annotations")
    metadata = {"annotations": annotations} if annotations else {}
    return {"metadata": metadata} | ({"status": obj["status"]} if "status" in obj else {})


def _differs(before: Fields, path: Path, value: Any) -> bool:
    old = before[path]
    return type(old) is not type(value) or bool(old != value)


def path_text(path: Path) -> str:
    """Return `path` in the format of conflict messages: `.spec.containers[name="a"].image`."""
    text = ""
    for element in path:
        kind, _, name = element.partition(":")
        if kind == "f":
            text += f".{name}"
        elif kind == "k":
            pairs = json.loads(name).items()
            text += "[" + ",".join(f"{key}={go_json(value)}" for key, value in pairs) + "]"
        elif kind == "v":
            text += f"[={name}]"
    return text
