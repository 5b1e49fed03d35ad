"""Owner references: deletion of dependents, and its order."""

import pytest

from gpuplatform.kube.kinds import CONFIG_MAP, NAMESPACE, Manifest
from tests.cluster.world import World

pytestmark = pytest.mark.cluster


def reference(owner: Manifest, *, block: bool = True) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
    }


def owned(
    world: World, name: str, *owners: Manifest, finalizers: tuple[str, ...] = ()
) -> Manifest:
    metadata = {
        "name": name,
        "ownerReferences": [reference(owner) for owner in owners],
        "finalizers": list(finalizers),
    }
    return world.create(CONFIG_MAP, {"metadata": metadata})


def test_background_deletion_removes_the_owner_first(world: World) -> None:
    owner = world.config_map("owner")
    owned(world, "child", owner)

    world.delete(CONFIG_MAP, "owner")

    assert world.find(CONFIG_MAP, "owner") is None
    world.gone(CONFIG_MAP, "child")


def test_deletion_includes_grandchildren(world: World) -> None:
    owner = world.config_map("owner")
    owned(world, "grandchild", owned(world, "child", owner))

    world.delete(CONFIG_MAP, "owner")

    world.gone(CONFIG_MAP, "grandchild")


def test_foreground_deletion_removes_the_owner_last(world: World) -> None:
    owner = world.config_map("owner")
    owned(world, "child", owner, finalizers=("example.com/wait",))

    world.delete(CONFIG_MAP, "owner", "Foreground")
    world.until(lambda: "deletionTimestamp" in world.get(CONFIG_MAP, "child")["metadata"])
    metadata = world.get(CONFIG_MAP, "owner")["metadata"]

    assert metadata["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in metadata
    world.patch(CONFIG_MAP, "child", {"metadata": {"finalizers": None}})
    world.gone(CONFIG_MAP, "owner")


def test_orphaned_dependents_stay_without_owner(world: World) -> None:
    owner = world.config_map("owner")
    owned(world, "child", owner)

    world.delete(CONFIG_MAP, "owner", "Orphan")
    world.gone(CONFIG_MAP, "owner")

    assert not world.get(CONFIG_MAP, "child")["metadata"].get("ownerReferences")


def test_a_dependent_of_two_owners_stays_with_the_second(world: World) -> None:
    first, second = world.config_map("first"), world.config_map("second")
    owned(world, "child", first, second)
    owned(world, "witness", first)

    world.delete(CONFIG_MAP, "first")
    world.gone(CONFIG_MAP, "witness")
    world.until(lambda: len(world.get(CONFIG_MAP, "child")["metadata"]["ownerReferences"]) == 1)

    world.delete(CONFIG_MAP, "second")
    world.gone(CONFIG_MAP, "child")


def test_a_dependent_created_after_the_deletion_of_its_owner_is_collected(world: World) -> None:
    owner = world.config_map("owner")
    world.delete(CONFIG_MAP, "owner")

    owned(world, "late", owner)

    world.gone(CONFIG_MAP, "late")


def test_a_dependent_with_another_owner_uid_is_collected(world: World) -> None:
    owner = world.config_map("owner")
    owner["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"

    owned(world, "child", owner)

    world.gone(CONFIG_MAP, "child")
    assert world.find(CONFIG_MAP, "owner")


def test_deleting_a_namespace_deletes_its_content(world: World) -> None:
    world.config_map("one")

    world.cluster.delete(NAMESPACE, world.namespace)

    world.gone(CONFIG_MAP, "one")
    world.until(lambda: world.cluster.get(NAMESPACE, world.namespace) is None)
