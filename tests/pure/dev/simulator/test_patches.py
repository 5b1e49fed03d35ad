import pytest

from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.patches import (
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from gpuplatform.dev.simulator.apiserver.resources import Registry

DEPLOYMENT = Registry().require("deployments", "apps").schema


def test_a_merge_patch_merges_replaces_and_removes() -> None:
    target = {"a": {"b": 1, "c": 2}, "d": [1, 2], "e": 3}

    merged = merge_patch(target, {"a": {"b": None, "x": {"y": None}}, "d": [3], "f": 4})

    assert merged == {"a": {"c": 2, "x": {}}, "d": [3], "e": 3, "f": 4}
    assert target["a"] == {"b": 1, "c": 2}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/l/1", "value": 9}, {"l": [1, 9, 2], "m": {"a/b": 1}}),
        ({"op": "add", "path": "/l/-", "value": 9}, {"l": [1, 2, 9], "m": {"a/b": 1}}),
        ({"op": "add", "path": "/n", "value": 9}, {"l": [1, 2], "m": {"a/b": 1}, "n": 9}),
        ({"op": "remove", "path": "/m/a~1b"}, {"l": [1, 2], "m": {}}),
        ({"op": "replace", "path": "/l/0", "value": 9}, {"l": [9, 2], "m": {"a/b": 1}}),
        ({"op": "move", "from": "/l", "path": "/k"}, {"k": [1, 2], "m": {"a/b": 1}}),
        ({"op": "copy", "from": "/l/1", "path": "/l/0"}, {"l": [2, 1, 2], "m": {"a/b": 1}}),
        ({"op": "test", "path": "/l/0", "value": 1}, {"l": [1, 2], "m": {"a/b": 1}}),
        ({"op": "replace", "path": "", "value": {}}, {}),
    ],
)
def test_a_json_patch_operation(operation: Manifest, expected: Manifest) -> None:
    assert json_patch({"l": [1, 2], "m": {"a/b": 1}}, [operation]) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "test", "path": "/l/0", "value": 2},
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "l"},
        {"op": "jump", "path": "/l"},
        {"path": "/l"},
        "remove",
    ],
)
def test_an_operation_that_cannot_be_applied_is_refused(operation: object) -> None:
    with pytest.raises(ApiError) as raised:
        json_patch({"l": [1, 2]}, [operation])

    assert raised.value.code == 422


def test_a_json_patch_is_a_list() -> None:
    with pytest.raises(ApiError) as raised:
        json_patch({}, {"op": "add"})

    assert raised.value.code == 400


def containers(*names: str) -> Manifest:
    entries = [{"name": name, "image": "old"} for name in names]
    return {"spec": {"template": {"spec": {"containers": entries}}}}


def patched(target: Manifest, entries: list[Manifest]) -> list[Manifest]:
    patch = {"spec": {"template": {"spec": {"containers": entries}}}}
    merged = strategic_merge_patch(target, patch, DEPLOYMENT)
    found: list[Manifest] = merged["spec"]["template"]["spec"]["containers"]
    return found


def test_a_strategic_patch_merges_a_list_by_its_key() -> None:
    found = patched(containers("a", "b"), [{"name": "b", "image": "new"}, {"name": "c"}])

    assert found == [
        {"name": "a", "image": "old"},
        {"name": "b", "image": "new"},
        {"name": "c"},
    ]


def test_a_strategic_patch_deletes_an_item_by_its_key() -> None:
    found = patched(containers("a", "b"), [{"name": "a", "$patch": "delete"}])

    assert [entry["name"] for entry in found] == ["b"]


def test_a_strategic_patch_can_replace_a_list() -> None:
    found = patched(containers("a", "b"), [{"$patch": "replace"}, {"name": "c"}])

    assert found == [{"name": "c"}]


def test_a_strategic_patch_of_an_item_without_key_is_refused() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        patched(containers("a"), [{"image": "new"}])
