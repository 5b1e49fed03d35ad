"""Fields of changed variables that a patch has to remove to be valid."""

import copy
from typing import Any

import pytest

from gpuplatform.planning.plan import Absent, Apply, Patch, Present
from gpuplatform.workloads.drift import without_foreign_sources
from gpuplatform.workloads.owner import Children
from inventory.core import manifests
from inventory.core.plan import plan_pool
from inventory.core.view import PoolView
from tests.factories.inventory import POD_SETTINGS, pool_resource

SOURCE = {"secretKeyRef": {"name": "hf", "key": "token"}}
ENVS = [{"name": "TOKEN", "valueFrom": SOURCE}, {"name": "MODEL", "value": "a"}, {"name": "NONE"}]
POOL = pool_resource(template={"command": ["serve"], "envs": ENVS})
WANTED = manifests.deployment(PoolView.parse(POOL), POD_SETTINGS)


def live(**changed: dict[str, Any]) -> dict[str, Any]:
    """Return the Deployment with changes of a user to some of its variables."""
    found = copy.deepcopy(WANTED)
    found["metadata"] |= {"uid": "u-1", "resourceVersion": "7", "generation": 1}
    container = found["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [
        {"name": one["name"], **changed.get(one["name"], one)} for one in container["env"]
    ]
    container["env"].append({"name": "THEIRS", "value": "stays"})
    return found


def env(patch: Patch | None) -> dict[str, dict[str, Any]]:
    assert patch is not None
    [container] = patch.patch["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one for one in container["env"]}


def test_a_deployment_without_drift_is_not_changed() -> None:
    assert without_foreign_sources(live(), WANTED) is None
    assert without_foreign_sources(live(MODEL={"value": "other"}), WANTED) is None
    assert without_foreign_sources(live(NONE={"value": ""}), WANTED) is None


def test_only_unwanted_sources_are_removed_from_this_version() -> None:
    found = live(TOKEN={"value": "x"}, MODEL={"valueFrom": SOURCE}, NONE={"value": "x"})

    patch = without_foreign_sources(found, WANTED)

    left = env(patch)
    assert [left[name] for name in ("TOKEN", "MODEL", "NONE")] == [
        {"name": "TOKEN"},
        {"name": "MODEL"},
        {"name": "NONE"},
    ]
    assert left["THEIRS"] == {"name": "THEIRS", "value": "stays"}
    assert left["SPEC_NAME"]["value"] == "g1.1"
    assert patch is not None
    assert patch.patch["metadata"] == {"uid": "u-1", "resourceVersion": "7"}


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ({"configMapKeyRef": {"name": "a", "key": "b"}}, {"name": "TOKEN"}),
        ({**SOURCE, "fieldRef": {}}, {"name": "TOKEN", "valueFrom": SOURCE}),
    ],
)
def test_another_source_is_removed(found: dict[str, Any], left: dict[str, Any]) -> None:
    patch = without_foreign_sources(live(TOKEN={"valueFrom": found}), WANTED)

    assert env(patch)["TOKEN"] == left


def test_another_handler_and_another_volume_source_are_removed() -> None:
    template = {"command": ["serve"], "ports": [{"name": "http", "port": 80}]}
    wanted = manifests.deployment(PoolView.parse(pool_resource(template=template)), POD_SETTINGS)
    found = copy.deepcopy(wanted)
    found["metadata"] |= {"uid": "u-1", "resourceVersion": "7"}
    pod = found["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "theirs", "configMap": {}}, {"name": "shm", "hostPath": {}}]
    pod["containers"][0]["readinessProbe"] = {"httpGet": {"port": 80}, "periodSeconds": 9}
    assert without_foreign_sources({**wanted, "metadata": found["metadata"]}, wanted) is None

    patch = without_foreign_sources(found, wanted)

    assert patch is not None
    changed = patch.patch["spec"]["template"]["spec"]
    assert changed["volumes"] == [{"name": "theirs", "configMap": {}}, {"name": "shm"}]
    assert changed["containers"][0]["readinessProbe"] == {"periodSeconds": 9}


def test_malformed_containers_are_left_alone() -> None:
    found = live()
    found["spec"]["template"]["spec"]["containers"] = [
        None,
        {"name": "runtime-worker", "env": 3, "readinessProbe": 3},
    ]

    found["spec"]["template"]["spec"]["volumes"] = [None, {"name": "theirs"}]

    assert without_foreign_sources(found, WANTED) is None


def test_the_planner_removes_before_it_applies() -> None:
    found = live(TOKEN={"value": "x"})

    plan = plan_pool(POOL, Children(Present(found), Absent(), Present(()), POD_SETTINGS))

    assert [type(action) for action in plan.actions] == [Patch, Apply]
