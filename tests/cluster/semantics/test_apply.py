"""Server-side apply: ownership, conflicts and removal of fields."""

import pytest

from gpuplatform.kube.errors import ClusterConflict
from gpuplatform.kube.kinds import CONFIG_MAP, DEPLOYMENT, Manifest
from tests.cluster.world import APPLY, World, container, deployment

pytestmark = pytest.mark.cluster


def config(**data: str) -> Manifest:
    return {"metadata": {"name": "one"}, "data": data}


def managers(item: Manifest) -> set[tuple[str, str]]:
    return {
        (entry["manager"], entry["operation"])
        for entry in item["metadata"].get("managedFields") or []
    }


def with_envs(**envs: str) -> Manifest:
    entries = [{"name": name, "value": value} for name, value in envs.items()]
    return deployment("web", container(env=entries), replicas=0)


def envs_of(item: Manifest) -> dict[str, str]:
    main = item["spec"]["template"]["spec"]["containers"][0]
    return {entry["name"]: entry["value"] for entry in main["env"]}


def test_applying_an_absent_object_creates_it(world: World) -> None:
    reply = world.http(
        "PATCH",
        world.path(CONFIG_MAP, "one") + "?fieldManager=one",
        world.placed(CONFIG_MAP, config(a="1")),
        APPLY,
    )

    assert reply.status == 201
    assert managers(reply.body) == {("one", "Apply")}


def test_applying_the_same_again_changes_nothing(world: World) -> None:
    first = world.apply(CONFIG_MAP, config(a="1"))
    second = world.apply(CONFIG_MAP, config(a="1"))

    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


def test_applying_another_value_of_an_owned_field_is_a_conflict(world: World) -> None:
    world.apply(CONFIG_MAP, config(a="1"))
    path = world.path(CONFIG_MAP, "one") + "?fieldManager=two"

    reply = world.http("PATCH", path, world.placed(CONFIG_MAP, config(a="2")), APPLY)

    assert (reply.status, reply.reason) == (409, "Conflict")
    assert reply.fields == [".data.a"]
    assert [cause["reason"] for cause in reply.body["details"]["causes"]] == [
        "FieldManagerConflict"
    ]
    assert 'conflict with "one": .data.a' in reply.message


def test_a_forced_apply_changes_the_owner_of_a_field(world: World) -> None:
    world.apply(CONFIG_MAP, config(a="1"))

    world.apply(CONFIG_MAP, config(a="2"), "two", force=True)

    with pytest.raises(ClusterConflict):
        world.apply(CONFIG_MAP, config(a="1"))
    assert world.get(CONFIG_MAP, "one")["data"] == {"a": "2"}


def test_applying_the_same_value_shares_the_field(world: World) -> None:
    world.apply(CONFIG_MAP, config(a="1"))

    shared = world.apply(CONFIG_MAP, config(a="1"), "two")

    assert managers(shared) == {("one", "Apply"), ("two", "Apply")}


def test_a_field_no_longer_applied_is_removed(world: World) -> None:
    world.apply(CONFIG_MAP, config(a="1", b="2"))

    world.apply(CONFIG_MAP, config(a="1"))

    assert world.get(CONFIG_MAP, "one")["data"] == {"a": "1"}


def test_a_shared_field_stays_when_one_owner_stops_applying_it(world: World) -> None:
    world.apply(CONFIG_MAP, config(a="1", b="2"))
    world.apply(CONFIG_MAP, config(b="2"), "two")

    world.apply(CONFIG_MAP, config(a="1"))

    assert world.get(CONFIG_MAP, "one")["data"] == {"a": "1", "b": "2"}


def test_fields_of_other_owners_stay(world: World) -> None:
    world.apply(CONFIG_MAP, config(a="1"))
    world.patch(CONFIG_MAP, "one", {"data": {"theirs": "2"}})

    world.apply(CONFIG_MAP, config(a="3"))

    assert world.get(CONFIG_MAP, "one")["data"] == {"a": "3", "theirs": "2"}


def test_a_patch_owns_the_changed_field(world: World) -> None:
    world.apply(CONFIG_MAP, config(a="1"))
    world.patch(CONFIG_MAP, "one", {"data": {"a": "2"}})

    with pytest.raises(ClusterConflict):
        world.apply(CONFIG_MAP, config(a="1"))


def test_entries_of_a_list_map_are_owned_one_by_one(world: World) -> None:
    world.apply(DEPLOYMENT, with_envs(A="1"))
    world.apply(DEPLOYMENT, with_envs(B="2"), "two")

    both = world.get(DEPLOYMENT, "web")
    world.apply(DEPLOYMENT, with_envs(C="3"))
    after = world.get(DEPLOYMENT, "web")

    assert envs_of(both) == {"A": "1", "B": "2"}
    assert envs_of(after) == {"B": "2", "C": "3"}


def test_a_duplicate_key_in_a_list_map_is_refused(world: World) -> None:
    manifest = deployment(
        "web", container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])
    )
    path = world.path(DEPLOYMENT, "web") + "?fieldManager=one"

    reply = world.http("PATCH", path, world.placed(DEPLOYMENT, manifest), APPLY)

    assert reply.status == 500
    assert "duplicate entries for key" in reply.message


def test_an_unknown_field_is_refused(world: World) -> None:
    manifest = {"metadata": {"name": "one"}, "nonsense": 1}
    path = world.path(CONFIG_MAP, "one") + "?fieldManager=one"

    reply = world.http("PATCH", path, world.placed(CONFIG_MAP, manifest), APPLY)

    assert reply.status == 500
    assert ".nonsense: field not declared in schema" in reply.message


def test_applying_without_a_manager_is_a_bad_request(world: World) -> None:
    body = world.placed(CONFIG_MAP, config(a="1"))

    reply = world.http("PATCH", world.path(CONFIG_MAP, "one"), body, APPLY)

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert "fieldManager" in reply.message


def test_applying_managed_fields_is_a_bad_request(world: World) -> None:
    made = world.apply(CONFIG_MAP, config(a="1"))
    path = world.path(CONFIG_MAP, "one") + "?fieldManager=one"

    reply = world.http("PATCH", path, made, APPLY)

    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert "metadata.managedFields must be nil" in reply.message


def test_applying_an_absent_object_by_uid_is_a_conflict(world: World) -> None:
    manifest = config(a="1")
    manifest["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"

    with pytest.raises(ClusterConflict):
        world.apply(CONFIG_MAP, manifest)

    assert world.find(CONFIG_MAP, "one") is None


def test_applying_an_old_version_is_a_conflict(world: World) -> None:
    manifest = config(a="2")
    manifest["metadata"]["resourceVersion"] = world.apply(CONFIG_MAP, config(a="1"))["metadata"][
        "resourceVersion"
    ]
    world.patch(CONFIG_MAP, "one", {"data": {"b": "1"}})

    with pytest.raises(ClusterConflict):
        world.apply(CONFIG_MAP, manifest)


def test_a_deployment_applied_as_read_back_has_its_defaults(world: World) -> None:
    world.apply(DEPLOYMENT, deployment("web", replicas=0))

    spec = world.get(DEPLOYMENT, "web")["spec"]

    assert spec["progressDeadlineSeconds"] == 600
    assert spec["revisionHistoryLimit"] == 10
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
