from typing import Any

import pytest

from gpuplatform.dev.simulator.apiserver.apply import apply, typed_error
from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.ownership import Owner, record_update

PORTS: Manifest = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {
        "type": "object",
        "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "name": {"type": "string"},
        },
    },
}
SCHEMA: Manifest = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object", "properties": {"labels": {"additionalProperties": {}}}},
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "ports": PORTS,
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {}},
                "args": {"type": "array", "items": {"type": "string"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
    },
}


def owner(manager: str, operation: str = "Apply", time: str = "2026-01-01T00:00:00Z") -> Owner:
    return Owner(manager, operation, "v1", "", time, frozenset())


def applied(
    live: Manifest | None, spec: Manifest, manager: str, *, force: bool = False
) -> Manifest:
    return apply(live, {"metadata": {}, "spec": spec}, SCHEMA, owner(manager), force=force)


def managers(obj: Manifest) -> dict[str, Any]:
    return {e["manager"]: e["fieldsV1"] for e in obj["metadata"].get("managedFields", ())}


def test_an_applied_object_is_owned_value_by_value() -> None:
    obj = applied(None, {"size": 1, "ports": [{"port": 80, "name": "web"}], "tags": ["a"]}, "one")

    item: Manifest = {".": {}, "f:port": {}, "f:name": {}}
    assert managers(obj)["one"]["f:spec"] == {
        "f:size": {},
        "f:ports": {'k:{"port":80,"protocol":"TCP"}': item},
        "f:tags": {'v:"a"': {}},
    }


def test_another_value_of_an_owned_field_is_a_conflict() -> None:
    live = applied(None, {"size": 1}, "one")

    with pytest.raises(ApiError) as raised:
        applied(live, {"size": 2}, "two")

    assert raised.value.code == 409
    assert raised.value.status["message"] == (
        'Apply failed with 1 conflict: conflict with "one": .spec.size'
    )
    assert raised.value.status["details"]["causes"][0]["field"] == ".spec.size"


def test_a_conflict_names_an_item_by_its_keys() -> None:
    live = applied(None, {"ports": [{"port": 80, "name": "web"}]}, "one")

    with pytest.raises(ApiError, match=r'\.spec\.ports\[port=80,protocol="TCP"\]\.name'):
        applied(live, {"ports": [{"port": 80, "name": "other"}]}, "two")


def test_a_forced_apply_changes_the_owner() -> None:
    live = applied(None, {"size": 1, "args": ["x"]}, "one")

    forced = applied(live, {"size": 2}, "two", force=True)

    assert forced["spec"] == {"size": 2, "args": ["x"]}
    assert managers(forced)["one"]["f:spec"] == {"f:args": {}}


def test_the_same_value_is_shared_without_conflict() -> None:
    shared = applied(applied(None, {"size": 1}, "one"), {"size": 1}, "two")

    assert set(managers(shared)) == {"one", "two"}


def test_a_field_that_is_no_longer_applied_is_removed() -> None:
    live = applied(None, {"size": 1, "labels": {"a": "1", "b": "2"}}, "one")

    fewer = applied(live, {"labels": {"b": "2"}}, "one")

    assert fewer["spec"] == {"labels": {"b": "2"}}


def test_a_field_with_another_owner_stays() -> None:
    live = applied(applied(None, {"size": 1}, "one"), {"size": 1}, "two")

    assert applied(live, {}, "one")["spec"] == {"size": 1}


def test_a_removed_item_is_removed_with_its_defaults() -> None:
    live = applied(None, {"ports": [{"port": 80}, {"port": 81}]}, "one")
    for port in live["spec"]["ports"]:
        port["protocol"] = "TCP"

    fewer = applied(live, {"ports": [{"port": 81}]}, "one")

    assert fewer["spec"]["ports"] == [{"port": 81, "protocol": "TCP"}]


def test_items_come_in_the_order_of_the_last_apply() -> None:
    live = applied(None, {"ports": [{"port": 80}, {"port": 81}]}, "one")

    merged = applied(live, {"ports": [{"port": 82}, {"port": 80}]}, "two")

    assert [port["port"] for port in merged["spec"]["ports"]] == [82, 80, 81]


def test_an_atomic_list_is_replaced_whole() -> None:
    live = applied(None, {"args": ["a", "b"]}, "one")

    assert applied(live, {"args": ["c"]}, "one")["spec"]["args"] == ["c"]


def test_applying_the_same_again_keeps_the_time() -> None:
    live = applied(None, {"size": 1}, "one")
    before = live["metadata"]["managedFields"][0]["time"]

    again = apply(live, {"metadata": {}, "spec": {"size": 1}}, SCHEMA, owner("one"), force=False)

    assert again["metadata"]["managedFields"][0]["time"] == before


def test_an_update_owns_the_changed_fields() -> None:
    live = applied(None, {"size": 1, "args": ["a"]}, "one")
    changed = {**live, "metadata": {}, "spec": {"size": 5, "args": ["a"]}}

    record_update(changed, live, SCHEMA, owner("two", "Update"))

    assert managers(changed)["one"]["f:spec"] == {"f:args": {}}
    assert managers(changed)["two"]["f:spec"] == {"f:size": {}}


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        pytest.param({"foo": 1}, ".spec.foo: field not declared in schema", id="unknown field"),
        pytest.param(
            {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]},
            '.spec.ports: duplicate entries for key [port=1,protocol="TCP"]',
            id="same key twice",
        ),
        pytest.param(
            {"size": "x"},
            ".spec.size: expected numeric (int or float), got string",
            id="wrong type",
        ),
        pytest.param({"ports": {}}, ".spec.ports: expected list, got object", id="no list"),
        pytest.param({"size": 1}, "", id="fine"),
    ],
)
def test_an_invalid_field_is_named(spec: Manifest, error: str) -> None:
    assert typed_error({"metadata": {}, "spec": spec}, SCHEMA) == error
