"""JSON merge patch (RFC 7386), JSON patch (RFC 6902) and Kubernetes' strategic merge patch."""

from typing import Any

from gpuplatform.dev.simulator.apiserver.errors import ApiError, bad_request
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone, json_type
from gpuplatform.dev.simulator.apiserver.schema import OPAQUE, Schema, child

_ACTIONS = ("delete", "merge", "replace")
_DIRECTIVES = ("$setElementOrder/", "$retainKeys", "$deleteFromPrimitiveList/")


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` merged with `patch`. Null removes a field. `target` is not modified."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Manifest, operations: object) -> Any:
    """Return the result of applying the operations of a JSON patch to `target` in order.

    Raises:
        ApiError: 400 if `operations` is not a list of operations; 422 if one cannot be applied.
    """
    if not isinstance(operations, list):
        detail = f"json: cannot unmarshal {json_type(operations)} into Go value of type"
        raise bad_request(f"error decoding patch: {detail} []handlers.jsonPatchOp")
    document: Any = clone(target)
    for operation in operations:
        try:
            document = _operate(document, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            message = "the server rejected our request due to an error in our request"
            raise ApiError(422, "Invalid", message, {}) from error
    return document


def _operate(document: Any, operation: Manifest) -> Any:
    path = _tokens(operation["path"])
    match operation["op"]:
        case "add":
            return _add(document, path, operation["value"])
        case "replace":
            _take(document, path, remove=False)
            return _add(document, path, operation["value"], replace=True)
        case "remove":
            _take(document, path, remove=True)
        case "test":
            if _take(document, path, remove=False) != operation["value"]:
                raise ValueError(operation["path"])
        case "move" | "copy":
            source = _tokens(operation["from"])
            value = clone(_take(document, source, remove=operation["op"] == "move"))
            return _add(document, path, value)
        case _:
            raise ValueError(operation["op"])
    return document


def _tokens(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(pointer)
    return [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]


def _add(document: Any, path: list[str], value: object, *, replace: bool = False) -> Any:
    if not path:
        return value
    parent = _take(document, path[:-1], remove=False)
    if not isinstance(parent, list):
        parent[path[-1]] = value
    elif replace:
        parent[_index(path[-1], len(parent) - 1)] = value
    else:
        last = len(parent)
        parent.insert(last if path[-1] == "-" else _index(path[-1], last), value)
    return document


def _take(document: Any, path: list[str], *, remove: bool) -> Any:
    parent: Any = None
    key: str | int = ""
    for token in path:
        parent = document
        key = _index(token, len(parent) - 1) if isinstance(parent, list) else token
        document = parent[key]
    if remove:
        del parent[key]
    return document


def _index(token: str, last: int) -> int:
    if not token.isdecimal() or int(token) > last:
        raise IndexError(token)
    return int(token)


def strategic_merge_patch(target: Any, patch: Any, schema: Schema) -> Any:
    """Return the result of a strategic merge patch.

    Lists with a merge key are merged, and other lists are replaced.

    Merged lists keep the order of `target`. New items are appended.

    Raises:
        ApiError: 500 if the patch contains an unknown directive or an item without its merge key.
    """
    if not isinstance(patch, dict):
        return patch
    directive = _directive(patch)
    if directive == "delete":
        return None
    replaces = directive == "replace"
    merged = dict(target) if isinstance(target, dict) and not replaces else {}
    if "$retainKeys" in patch:
        merged = {k: v for k, v in merged.items() if k in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            merged[field] = [item for item in merged.get(field, ()) if item not in value]
        elif key == "$patch" or key.startswith(_DIRECTIVES):
            continue
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = _strategic_value(merged.get(key), value, child(schema, key))
    return {key: value for key, value in merged.items() if value is not None}


def _directive(patch: Manifest) -> str:
    directive = str(patch.get("$patch", "merge"))
    if directive not in _ACTIONS:
        raise ApiError(500, "", f"unknown patch type: {directive} in map")
    return directive


def _strategic_value(old: Any, value: Any, schema: Schema) -> Any:
    if not isinstance(value, list):
        return strategic_merge_patch(old, value, schema)
    if schema.get("x-kubernetes-patch-strategy") != "merge" or not isinstance(old, list):
        return [item for item in value if not _is_directive(item)]
    name = schema.get("x-kubernetes-patch-merge-key")
    if name is None:
        return [*old, *(item for item in value if item not in old)]
    return _merge_items(old, value, name, schema.get("items", OPAQUE))


def _is_directive(item: object) -> bool:
    return isinstance(item, dict) and "$patch" in item


def _merge_items(old: list[Any], patch: list[Any], name: str, schema: Schema) -> list[Any]:
    if any(isinstance(i, dict) and i == {"$patch": "replace"} for i in patch):
        return [item for item in patch if not _is_directive(item)]
    merged = {item.get(name): item for item in old}
    for item in patch:
        if not isinstance(item, dict) or name not in item:
            detail = f"map: {item} does not contain declared merge key: {name}"
            raise ApiError(500, "", detail)
        result = strategic_merge_patch(merged.get(item[name]), item, schema)
        if result is None:
            merged.pop(item[name], None)
        else:
            merged[item[name]] = result
    return list(merged.values())
