"""Custom resources in discovery, scale, field selectors and tables."""

import json
import threading
from typing import Any

import pytest

from gpuplatform.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Manifest, ResourceKind
from tests.cluster.gadgets import definition
from tests.cluster.world import MERGE, Reply, World

pytestmark = pytest.mark.cluster

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def gadget(name: str = "one", **spec: Any) -> Manifest:
    return {"metadata": {"name": name}, "spec": spec}


def scaled(world: World, kind: ResourceKind, method: str, body: object = None) -> Reply:
    kind_of_body = MERGE if method == "PATCH" else "application/json"
    return world.http(method, world.path(kind, "one", "scale"), body, kind_of_body)


def selected(world: World, kind: ResourceKind, selector: str) -> list[str]:
    reply = world.http("GET", f"{world.path(kind)}?fieldSelector={selector}")
    return [item["metadata"]["name"] for item in reply.body["items"]]


def test_discovery_has_short_names_and_categories(world: World, gadgets: ResourceKind) -> None:
    def listed() -> list[dict[str, Any]] | None:
        reply = world.http("GET", f"/apis/{gadgets.group}/v1")
        return reply.body["resources"] if reply.status == 200 else None

    resources = {entry["name"]: entry for entry in world.until(listed)}

    assert resources["gadgets"]["shortNames"] == ["gd"]
    assert resources["gadgets"]["categories"] == ["features"]
    scale = resources["gadgets/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


def test_scale_has_the_replicas_and_the_selector(world: World, gadgets: ResourceKind) -> None:
    made = world.create(gadgets, gadget(replicas=2))
    status = {"replicas": 1, "selector": "app=one"}
    world.patch(gadgets, "one", {"status": status}, "status")

    scale = scaled(world, gadgets, "GET").body

    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, status)
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]


def test_scale_of_an_object_without_status(world: World, gadgets: ResourceKind) -> None:
    world.create(gadgets, gadget(replicas=0))

    scale = scaled(world, gadgets, "GET").body

    assert (scale["spec"], scale["status"]) == ({}, {"replicas": 0})


def test_scale_of_an_object_without_replicas_is_an_error(
    world: World, gadgets: ResourceKind
) -> None:
    world.create(gadgets, gadget())

    reply = scaled(world, gadgets, "GET")

    assert (reply.status, reply.reason) == (500, "InternalError")


def test_a_patch_of_scale_sets_replicas(world: World, gadgets: ResourceKind) -> None:
    world.create(gadgets, gadget(replicas=2))

    reply = scaled(world, gadgets, "PATCH", {"spec": {"replicas": 5}})

    assert (reply.status, reply.body["spec"]) == (200, {"replicas": 5})
    found = world.get(gadgets, "one")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (5, 2)


def test_a_patch_of_scale_without_replicas_changes_nothing(
    world: World, gadgets: ResourceKind
) -> None:
    world.create(gadgets, gadget(replicas=2))

    reply = scaled(world, gadgets, "PATCH", {"metadata": {"annotations": {"a": "b"}}})

    assert (reply.status, reply.body["spec"]) == (200, {"replicas": 2})
    assert world.get(gadgets, "one")["spec"]["replicas"] == 2


def test_a_replaced_scale_sets_replicas(world: World, gadgets: ResourceKind) -> None:
    world.create(gadgets, gadget(replicas=2))
    scale = scaled(world, gadgets, "GET").body | {"spec": {"replicas": 3}}

    reply = scaled(world, gadgets, "PUT", scale)
    again = scaled(world, gadgets, "PUT", scale)

    assert (reply.status, reply.body["spec"]) == (200, {"replicas": 3})
    assert (again.status, again.reason) == (409, "Conflict")


def test_scale_owns_the_replicas(world: World, gadgets: ResourceKind) -> None:
    world.create(gadgets, gadget(replicas=2))

    world.http(
        "PATCH",
        world.path(gadgets, "one", "scale") + "?fieldManager=scaler",
        {"spec": {"replicas": 3}},
        MERGE,
    )

    entries = world.get(gadgets, "one")["metadata"]["managedFields"]
    entry = next(entry for entry in entries if entry["manager"] == "scaler")
    assert (entry["operation"], entry["subresource"]) == ("Update", "scale")
    assert entry["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


def test_negative_replicas_are_refused(world: World, gadgets: ResourceKind) -> None:
    world.create(gadgets, gadget(replicas=2))

    by_spec = world.http("PATCH", world.path(gadgets, "one"), {"spec": {"replicas": -1}}, MERGE)
    by_scale = scaled(world, gadgets, "PATCH", {"spec": {"replicas": -1}})

    assert (by_spec.status, by_spec.fields) == (422, [".spec.replicas"])
    assert (by_scale.status, by_scale.fields) == (422, [".spec.replicas"])


def test_lists_select_by_declared_fields(world: World, gadgets: ResourceKind) -> None:
    world.create(gadgets, gadget("one", model="large", paused=True, replicas=0))
    world.create(gadgets, gadget("two", model="large", paused=False, replicas=3))
    world.create(gadgets, gadget("three"))
    world.patch(gadgets, "two", {"status": {"phase": "Ready"}}, "status")

    assert selected(world, gadgets, "spec.model=large") == ["one", "two"]
    assert selected(world, gadgets, "spec.model!=large") == ["three"]
    assert selected(world, gadgets, "spec.model=large,spec.paused=true") == ["one"]
    assert selected(world, gadgets, "spec.paused=false") == ["two"]
    assert selected(world, gadgets, "spec.replicas=3") == ["two"]
    assert selected(world, gadgets, "status.phase=Ready") == ["two"]
    assert selected(world, gadgets, "status.phase=") == ["one", "three"]
    assert selected(world, gadgets, "metadata.name=two") == ["two"]


def test_an_undeclared_field_cannot_be_selected(world: World, gadgets: ResourceKind) -> None:
    reply = world.http("GET", f"{world.path(gadgets)}?fieldSelector=spec.low=1")

    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert "field label not supported: spec.low" in reply.message


def test_a_watch_selects_by_declared_fields(world: World, gadgets: ResourceKind) -> None:
    version = world.http("GET", world.path(gadgets)).body["metadata"]["resourceVersion"]
    query = f"?watch=1&timeoutSeconds=4&resourceVersion={version}&fieldSelector=status.phase=Ready"
    replies: list[Reply] = []
    thread = threading.Thread(
        target=lambda: replies.append(world.http("GET", world.path(gadgets) + query))
    )
    thread.start()
    world.create(gadgets, gadget("one"))
    world.patch(gadgets, "one", {"status": {"phase": "Ready"}}, "status")
    world.patch(gadgets, "one", {"status": {"phase": "Failed", "reason": "a"}}, "status")
    thread.join()

    events = [json.loads(line) for line in str(replies[0].body).splitlines()]
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    assert events[0]["object"]["status"]["phase"] == "Ready"


def test_a_table_has_the_priorities_of_the_columns(world: World, gadgets: ResourceKind) -> None:
    world.create(gadgets, gadget(model="large", paused=True, replicas=0))

    table = world.http("GET", world.path(gadgets), accept=TABLE).body

    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert columns == [("Name", 0), ("Model", 0), ("Paused", 1)]
    assert table["rows"][0]["cells"] == ["one", "large", True]


SPEC_FIELDS = "spec.selectableFields[0].jsonPath"
SCALE = "spec.subresources.scale"
VERSIONS: dict[str, tuple[dict[str, Any], str]] = {
    "an undeclared selectable field": (
        {"selectableFields": [{"jsonPath": ".spec.odd"}]},
        SPEC_FIELDS,
    ),
    "a selectable object": ({"selectableFields": [{"jsonPath": ".spec"}]}, SPEC_FIELDS),
    "a selectable number": ({"selectableFields": [{"jsonPath": ".spec.ratio"}]}, SPEC_FIELDS),
    "a selectable field without a path": ({"selectableFields": [{}]}, SPEC_FIELDS),
    "a field that is selectable twice": (
        {"selectableFields": [{"jsonPath": ".spec.model"}] * 2},
        "spec.selectableFields[1].jsonPath",
    ),
    "replicas outside of the spec": (
        {"subresources": {"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".status.a"}}},
        f"{SCALE}.specReplicasPath",
    ),
    "a scale without replicas in the status": (
        {"subresources": {"scale": {"specReplicasPath": ".spec.a"}}},
        f"{SCALE}.statusReplicasPath",
    ),
}


def refused_fields(world: World, change: dict[str, Any], names: dict[str, Any]) -> list[str]:
    manifest = definition(f"{world.namespace}.example.com")
    manifest["spec"]["versions"][0] |= change
    manifest["spec"]["names"] |= names
    reply = world.http("POST", CUSTOM_RESOURCE_DEFINITION.path() + "?dryRun=All", manifest)
    assert reply.status == 422, reply.body
    return reply.fields or [reply.message]


@pytest.mark.parametrize("case", list(VERSIONS))
def test_a_definition_is_refused(world: World, case: str) -> None:
    change, field = VERSIONS[case]

    assert refused_fields(world, change, {}) == [field]


@pytest.mark.parametrize("name", ["shortNames", "categories"])
def test_a_name_with_capitals_is_refused(world: World, name: str) -> None:
    assert refused_fields(world, {}, {name: ["Odd"]}) == [f"spec.names.{name}[0]"]
