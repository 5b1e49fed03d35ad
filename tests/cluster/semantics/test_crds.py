"""Custom resources: validation, pruning and defaults by schema; the status subresource."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Manifest, ResourceKind
from tests.cluster.widgets import definition
from tests.cluster.world import APPLY, Reply, World, condition

pytestmark = pytest.mark.cluster


def widget(**spec: Any) -> Manifest:
    return {"metadata": {"name": "one"}, "spec": {"size": 1, **spec}}


def post(world: World, kind: ResourceKind, manifest: Manifest, query: str = "") -> Reply:
    return world.http("POST", world.path(kind) + query, world.placed(kind, manifest))


def test_a_definition_becomes_established(world: World, widgets: ResourceKind) -> None:
    made = world.get(CUSTOM_RESOURCE_DEFINITION, f"widgets.{widgets.group}")

    assert condition(made, "Established")["status"] == "True"
    assert condition(made, "NamesAccepted")["status"] == "True"
    assert made["status"]["acceptedNames"]["kind"] == "Widget"


def test_a_definition_without_schema_is_invalid(world: World) -> None:
    manifest = definition(f"{world.namespace}.example.com")
    del manifest["spec"]["versions"][0]["schema"]

    reply = world.http("POST", CUSTOM_RESOURCE_DEFINITION.path(), manifest)

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert "spec.versions[0].schema.openAPIV3Schema" in reply.fields


def test_a_definition_with_another_name_is_invalid(world: World) -> None:
    manifest = definition(f"{world.namespace}.example.com")
    manifest["metadata"]["name"] = "gadgets.example.com"

    reply = world.http("POST", CUSTOM_RESOURCE_DEFINITION.path(), manifest)

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert "metadata.name" in reply.fields


def test_defaults_are_set(world: World, widgets: ResourceKind) -> None:
    assert world.create(widgets, widget())["spec"] == {"size": 1, "colour": "red"}


def test_unknown_fields_are_pruned(world: World, widgets: ResourceKind) -> None:
    made = world.create(widgets, widget(nonsense=1, free={"any": {"thing": 1}}))

    assert made["spec"] == {"size": 1, "colour": "red", "free": {"any": {"thing": 1}}}


def test_strict_validation_refuses_unknown_fields(world: World, widgets: ResourceKind) -> None:
    reply = post(world, widgets, widget(nonsense=1), "?fieldValidation=Strict")

    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert 'unknown field "spec.nonsense"' in reply.message


def test_applying_an_unknown_field_is_refused(world: World, widgets: ResourceKind) -> None:
    path = world.path(widgets, "one") + "?fieldManager=one"

    reply = world.http("PATCH", path, world.placed(widgets, widget(nonsense=1)), APPLY)

    assert reply.status == 500
    assert ".spec.nonsense: field not declared in schema" in reply.message


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({"size": "1"}, "spec.size", "must be of type integer", id="type"),
        pytest.param({"size": -1}, "spec.size", "greater than or equal to 0", id="minimum"),
        pytest.param(
            {"size": 1, "colour": "green"}, "spec.colour", "Unsupported value", id="enum"
        ),
        pytest.param({"size": 1, "word": "A"}, "spec.word", "should match", id="pattern"),
        pytest.param({"size": 1, "word": "a" * 6}, "spec.word", "Too long", id="length"),
        pytest.param({}, "spec.size", "Required value", id="required"),
        pytest.param(
            {"size": 1, "ports": [{"port": 70000}]},
            "spec.ports[0].port",
            "less than or equal to 65535",
            id="in a list",
        ),
        pytest.param(
            {"size": 1, "ports": [{"name": "a"}]},
            "spec.ports[0].port",
            "Required value",
            id="required in a list",
        ),
        pytest.param(
            {"size": 1, "ports": [{"port": 1}, {"port": 2}, {"port": 3}]},
            "spec.ports",
            "Too many",
            id="too many",
        ),
        pytest.param(
            {"size": 1, "ports": [{"port": 1}, {"port": 1}]},
            "spec.ports[1]",
            "Duplicate value",
            id="duplicate key",
        ),
        pytest.param(
            {"size": 1, "labels": {"a": 1}}, "spec.labels.a", "must be of type string", id="map"
        ),
    ],
)
def test_a_schema_refuses_with_the_path(
    world: World, widgets: ResourceKind, spec: Manifest, field: str, message: str
) -> None:
    reply = post(world, widgets, {"metadata": {"name": "one"}, "spec": spec})

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.fields == [field]
    assert message in reply.message


def test_every_fault_of_an_object_is_named(world: World, widgets: ResourceKind) -> None:
    reply = post(world, widgets, widget(colour="green", ports=[{"port": 0}]))

    assert sorted(reply.fields) == ["spec.colour", "spec.ports[0].port"]


def test_a_new_custom_object_has_no_status(world: World, widgets: ResourceKind) -> None:
    made = world.create(widgets, widget() | {"status": {"phase": "Ready"}})

    assert "status" not in made


def test_custom_status_does_not_change_the_generation(world: World, widgets: ResourceKind) -> None:
    world.create(widgets, widget())
    with_status = world.patch(widgets, "one", {"status": {"phase": "Ready"}}, "status")
    with_spec = world.patch(widgets, "one", {"spec": {"size": 2}})
    with_label = world.patch(widgets, "one", {"metadata": {"labels": {"a": "b"}}})

    numbers = [item["metadata"]["generation"] for item in (with_status, with_spec, with_label)]
    assert numbers == [1, 2, 2]
    assert world.get(widgets, "one")["status"] == {"phase": "Ready"}


def test_custom_status_is_validated(world: World, widgets: ResourceKind) -> None:
    world.create(widgets, widget())
    path = world.path(widgets, "one", "status")

    reply = world.http("PATCH", path, {"status": {"phase": 1}}, "application/merge-patch+json")

    assert (reply.status, reply.fields) == (422, ["status.phase"])


def test_replacing_a_custom_object_needs_a_version(world: World, widgets: ResourceKind) -> None:
    made = world.create(widgets, widget())
    del made["metadata"]["resourceVersion"]

    reply = world.http("PUT", world.path(widgets, "one"), made)

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.fields == ["metadata.resourceVersion"]


def test_a_table_has_the_printer_columns(world: World, widgets: ResourceKind) -> None:
    world.create(widgets, widget(size=7))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"

    table = world.http("GET", world.path(widgets), accept=accept).body

    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    assert table["rows"][0]["cells"] == ["one", 7]


def test_discovery_lists_a_custom_kind(world: World, widgets: ResourceKind) -> None:
    def listed() -> list[dict[str, Any]] | None:
        reply = world.http("GET", f"/apis/{widgets.group}/v1")
        return reply.body["resources"] if reply.status == 200 else None

    resources = {entry["name"]: entry for entry in world.until(listed)}

    assert resources["widgets"]["kind"] == "Widget"
    assert resources["widgets"]["namespaced"] is True
    assert "widgets/status" in resources


def test_deleting_a_definition_deletes_its_objects(world: World) -> None:
    group = f"short.{world.namespace}.example.com"
    kind = ResourceKind(group, "v1", "Widget", "widgets")
    world.cluster.create(CUSTOM_RESOURCE_DEFINITION, definition(group))
    world.until(lambda: world.http("GET", world.path(kind)).status == 200)
    world.create(kind, widget())

    world.cluster.delete(CUSTOM_RESOURCE_DEFINITION, f"widgets.{group}")

    world.gone(CUSTOM_RESOURCE_DEFINITION, f"widgets.{group}")
    world.until(lambda: world.http("GET", world.path(kind, "one")).status == 404)
