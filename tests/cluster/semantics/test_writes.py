"""Create, replace, patch and delete: names, versions, preconditions, errors."""

import pytest

from gpuplatform.kube.errors import ClusterConflict, ClusterRejected
from gpuplatform.kube.kinds import CONFIG_MAP, DEPLOYMENT, LEASE, SECRET, SERVICE
from tests.cluster.world import JSON_PATCH, MERGE, World, deployment

pytestmark = pytest.mark.cluster


def test_a_created_object_has_uid_version_and_time(world: World) -> None:
    made = world.config_map()["metadata"]

    assert len(made["uid"]) == 36
    assert int(made["resourceVersion"]) > 0
    assert made["creationTimestamp"].endswith("Z")


def test_creating_a_name_twice_is_already_exists(world: World) -> None:
    world.config_map()

    with pytest.raises(ClusterConflict) as refusal:
        world.config_map()

    assert refusal.value.reason == "AlreadyExists"
    assert 'configmaps "one" already exists' in str(refusal.value)


def test_string_data_of_a_secret_becomes_data(world: World) -> None:
    data = {"data": {"a": "QQ==", "b": "Qg=="}, "stringData": {"b": "c"}}
    made = world.create(SECRET, {"metadata": {"name": "one"}, **data})
    changed = world.patch(SECRET, "one", {"stringData": {"a": "d"}})

    assert (made["type"], made["data"]) == ("Opaque", {"a": "QQ==", "b": "Yw=="})
    assert changed["data"] == {"a": "ZA==", "b": "Yw=="}
    assert "stringData" not in {**made, **changed}


def test_generated_names_are_distinct(world: World) -> None:
    names = set()
    for _ in range(3):
        reply = world.http("POST", world.path(CONFIG_MAP), {"metadata": {"generateName": "some-"}})
        names.add(reply.body["metadata"]["name"])

    assert len(names) == 3
    assert all(name.startswith("some-") and len(name) == 10 for name in names)


def test_creating_in_a_missing_namespace_is_not_found(world: World) -> None:
    path = CONFIG_MAP.path("there-is-none")

    reply = world.http("POST", path, {"metadata": {"name": "one"}})

    assert (reply.status, reply.reason) == (404, "NotFound")
    assert 'namespaces "there-is-none" not found' in reply.message


def test_a_body_with_another_namespace_is_refused(world: World) -> None:
    body = {"metadata": {"name": "one", "namespace": "default"}}

    reply = world.http("POST", world.path(CONFIG_MAP), body)

    assert (reply.status, reply.reason) == (400, "BadRequest")


def test_a_body_with_another_name_is_refused(world: World) -> None:
    made = world.config_map()
    made["metadata"]["name"] = "other"

    reply = world.http("PUT", world.path(CONFIG_MAP, "one"), made)

    assert (reply.status, reply.reason) == (400, "BadRequest")


def test_a_bad_name_is_invalid_at_metadata_name(world: World) -> None:
    reply = world.http("POST", world.path(CONFIG_MAP), {"metadata": {"name": "Not_A_Name"}})

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.fields == ["metadata.name"]


def test_a_bad_label_is_invalid_at_metadata_labels(world: World) -> None:
    metadata = {"name": "one", "labels": {"app": "has blanks"}}

    reply = world.http("POST", world.path(CONFIG_MAP), {"metadata": metadata})

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.fields == ["metadata.labels"]


def test_replacing_an_old_version_is_a_conflict(world: World) -> None:
    old = world.config_map(key="1")
    world.patch(CONFIG_MAP, "one", {"data": {"key": "2"}})
    old["data"]["key"] = "3"

    with pytest.raises(ClusterConflict) as refusal:
        world.cluster.replace(CONFIG_MAP, old)

    assert refusal.value.reason == "Conflict"
    assert "the object has been modified" in str(refusal.value)


def test_replacing_the_current_version_replaces_every_field(world: World) -> None:
    made = world.config_map(a="1", b="2")
    made["data"] = {"a": "3"}

    world.cluster.replace(CONFIG_MAP, made)

    assert world.get(CONFIG_MAP, "one")["data"] == {"a": "3"}


def test_replacing_a_lease_needs_a_version(world: World) -> None:
    made = world.create(LEASE, {"metadata": {"name": "one"}, "spec": {"holderIdentity": "me"}})
    del made["metadata"]["resourceVersion"]

    with pytest.raises(ClusterRejected) as refusal:
        world.cluster.replace(LEASE, made)

    assert refusal.value.reason == "Invalid"


def test_replacing_an_absent_object_is_not_found(world: World) -> None:
    body = world.placed(CONFIG_MAP, {"metadata": {"name": "none"}})

    reply = world.http("PUT", world.path(CONFIG_MAP, "none"), body)

    assert (reply.status, reply.reason) == (404, "NotFound")


def test_every_change_increases_the_version(world: World) -> None:
    first = world.config_map(key="1")
    second = world.patch(CONFIG_MAP, "one", {"data": {"key": "2"}})

    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


def test_a_patch_that_changes_nothing_keeps_the_version(world: World) -> None:
    first = world.config_map(key="1")
    second = world.patch(CONFIG_MAP, "one", {"data": {"key": "1"}})

    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_merge_patch_with_null_removes_the_field(world: World) -> None:
    world.config_map(a="1", b="2")

    world.patch(CONFIG_MAP, "one", {"data": {"a": None}})

    assert world.get(CONFIG_MAP, "one")["data"] == {"b": "2"}


def test_a_merge_patch_of_an_old_version_is_a_conflict(world: World) -> None:
    old = world.config_map()["metadata"]["resourceVersion"]
    world.patch(CONFIG_MAP, "one", {"data": {"key": "2"}})

    with pytest.raises(ClusterConflict):
        world.patch(
            CONFIG_MAP, "one", {"metadata": {"resourceVersion": old}, "data": {"key": "3"}}
        )


def test_a_merge_patch_of_another_uid_is_a_conflict(world: World) -> None:
    world.config_map()
    patch = {
        "metadata": {"uid": "00000000-0000-0000-0000-000000000000"},
        "data": {"key": "3"},
    }

    with pytest.raises(ClusterConflict):
        world.patch(CONFIG_MAP, "one", patch)


def test_patching_an_absent_object_is_not_found(world: World) -> None:
    with pytest.raises(ClusterRejected) as refusal:
        world.patch(CONFIG_MAP, "none", {"data": {"key": "1"}})

    assert (refusal.value.status, refusal.value.reason) == (404, "NotFound")


def test_a_json_patch_changes_the_object(world: World) -> None:
    world.config_map(a="1")
    patch = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/data/b", "value": "2"},
        {"op": "remove", "path": "/data/a"},
    ]

    reply = world.http("PATCH", world.path(CONFIG_MAP, "one"), patch, JSON_PATCH)

    assert (reply.status, reply.body["data"]) == (200, {"b": "2"})


def test_a_json_patch_whose_test_fails_is_invalid(world: World) -> None:
    world.config_map(a="1")
    patch = [{"op": "test", "path": "/data/a", "value": "2"}]

    reply = world.http("PATCH", world.path(CONFIG_MAP, "one"), patch, JSON_PATCH)

    assert (reply.status, reply.reason) == (422, "Invalid")


def test_a_dry_run_creates_nothing(world: World) -> None:
    path = world.path(CONFIG_MAP) + "?dryRun=All"

    reply = world.http("POST", path, {"metadata": {"name": "one"}})

    assert (reply.status, reply.body["metadata"]["name"]) == (201, "one")
    assert world.find(CONFIG_MAP, "one") is None


def test_deleting_an_absent_object_is_not_found(world: World) -> None:
    reply = world.http("DELETE", world.path(CONFIG_MAP, "none"))

    assert (reply.status, reply.reason) == (404, "NotFound")
    assert world.delete(CONFIG_MAP, "none") is False


def test_deleting_another_uid_is_a_conflict(world: World) -> None:
    world.config_map()
    uid = "00000000-0000-0000-0000-000000000000"

    with pytest.raises(ClusterConflict):
        world.cluster.delete(CONFIG_MAP, "one", namespace=world.namespace, uid=uid)

    assert world.find(CONFIG_MAP, "one")


def test_deleting_an_old_version_is_a_conflict(world: World) -> None:
    old = world.config_map()["metadata"]["resourceVersion"]
    world.patch(CONFIG_MAP, "one", {"data": {"key": "2"}})

    with pytest.raises(ClusterConflict):
        world.cluster.delete(CONFIG_MAP, "one", namespace=world.namespace, resource_version=old)


def test_a_recreated_object_has_another_uid(world: World) -> None:
    first = world.config_map()
    world.delete(CONFIG_MAP, "one")
    second = world.config_map()

    assert first["metadata"]["uid"] != second["metadata"]["uid"]


def test_a_collection_can_be_deleted_by_label(world: World) -> None:
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        world.create(CONFIG_MAP, {"metadata": {"name": name, "labels": {"app": app}}})

    reply = world.http("DELETE", world.path(CONFIG_MAP) + "?labelSelector=app%3Dx")

    assert reply.status == 200
    names = {item["metadata"]["name"] for item in world.list(CONFIG_MAP)}
    assert names & {"a", "b", "c"} == {"c"}


def test_a_finalizer_keeps_a_deleted_object(world: World) -> None:
    finalizers = ["example.com/wait"]
    world.create(CONFIG_MAP, {"metadata": {"name": "one", "finalizers": finalizers}})

    world.delete(CONFIG_MAP, "one")
    first = world.get(CONFIG_MAP, "one")["metadata"]["deletionTimestamp"]
    world.delete(CONFIG_MAP, "one")

    assert world.get(CONFIG_MAP, "one")["metadata"]["deletionTimestamp"] == first


def test_removing_the_last_finalizer_deletes_the_object(world: World) -> None:
    finalizers = ["example.com/wait"]
    world.create(CONFIG_MAP, {"metadata": {"name": "one", "finalizers": finalizers}})
    world.delete(CONFIG_MAP, "one")

    world.patch(CONFIG_MAP, "one", {"metadata": {"finalizers": None}})

    assert world.find(CONFIG_MAP, "one") is None


def test_a_terminating_object_accepts_no_new_finalizer(world: World) -> None:
    finalizers = ["example.com/wait"]
    world.create(CONFIG_MAP, {"metadata": {"name": "one", "finalizers": finalizers}})
    world.delete(CONFIG_MAP, "one")

    with pytest.raises(ClusterRejected) as refusal:
        world.patch(
            CONFIG_MAP, "one", {"metadata": {"finalizers": [*finalizers, "example.com/more"]}}
        )

    assert refusal.value.reason == "Invalid"
    assert "no new finalizers can be added if the object is being deleted" in str(refusal.value)


def test_generation_counts_changes_of_the_spec_only(world: World) -> None:
    made = world.create(DEPLOYMENT, deployment("web", replicas=0))
    labelled = world.patch(DEPLOYMENT, "web", {"metadata": {"labels": {"more": "1"}}})
    scaled = world.patch(DEPLOYMENT, "web", {"spec": {"minReadySeconds": 1}})

    numbers = [item["metadata"]["generation"] for item in (made, labelled, scaled)]
    assert numbers == [1, 1, 2]


def test_status_is_written_through_its_subresource_only(world: World) -> None:
    manifest = deployment("web", replicas=0) | {"status": {"replicas": 7}}
    made = world.create(DEPLOYMENT, manifest)
    patched = world.patch(DEPLOYMENT, "web", {"status": {"replicas": 7}})

    assert [item["status"].get("replicas", 0) for item in (made, patched)] == [0, 0]


def test_the_status_subresource_writes_no_spec(world: World) -> None:
    world.create(DEPLOYMENT, deployment("web", replicas=0))
    patch = {"spec": {"replicas": 3}, "status": {"collisionCount": 5}}

    patched = world.patch(DEPLOYMENT, "web", patch, "status")

    assert patched["spec"]["replicas"] == 0
    assert patched["metadata"]["generation"] == 1


def test_an_immutable_field_is_refused_with_its_path(world: World) -> None:
    world.create(DEPLOYMENT, deployment("web", replicas=0))
    patch = {
        "spec": {
            "selector": {"matchLabels": {"app": "other"}},
            "template": {"metadata": {"labels": {"app": "other"}}},
        }
    }

    reply = world.http("PATCH", world.path(DEPLOYMENT, "web"), patch, MERGE)

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.fields == ["spec.selector"]
    assert "field is immutable" in reply.message


def test_a_service_without_ports_is_invalid(world: World) -> None:
    reply = world.http("POST", world.path(SERVICE), {"metadata": {"name": "web"}, "spec": {}})

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.fields == ["spec.ports"]


def test_bad_json_is_a_bad_request(world: World) -> None:
    reply = world.http("POST", world.path(CONFIG_MAP), b'{"metadata": ')

    assert (reply.status, reply.reason) == (400, "BadRequest")


def test_an_unknown_content_type_is_unsupported(world: World) -> None:
    reply = world.http("POST", world.path(CONFIG_MAP), b"one", "text/plain")

    assert (reply.status, reply.reason) == (415, "UnsupportedMediaType")


def test_a_body_over_three_megabytes_is_too_large(world: World) -> None:
    body = {"metadata": {"name": "one"}, "data": {"key": "x" * (3 * 1024 * 1024 + 1)}}

    reply = world.http("POST", world.path(CONFIG_MAP), body)

    assert (reply.status, reply.reason) == (413, "RequestEntityTooLarge")


def test_an_unknown_resource_is_not_found(world: World) -> None:
    reply = world.http("GET", f"/api/v1/namespaces/{world.namespace}/sprockets")

    assert reply.status == 404
    assert "could not find the requested resource" in reply.message


def test_an_unsupported_method_is_refused(world: World) -> None:
    reply = world.http("PUT", world.path(CONFIG_MAP), {"metadata": {"name": "one"}})

    assert (reply.status, reply.reason) == (405, "MethodNotAllowed")
