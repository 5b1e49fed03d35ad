"""Quotas, limit ranges and role bindings as objects, on every server."""

import pytest

from gpuplatform.kube.errors import ClusterRejected
from gpuplatform.kube.kinds import LIMIT_RANGE, POD, RESOURCE_QUOTA, ROLE_BINDING, Manifest
from tests.cluster.world import World

pytestmark = pytest.mark.cluster

RBAC = "rbac.authorization.k8s.io"


def binding(role: str) -> Manifest:
    return {
        "apiVersion": ROLE_BINDING.api_version,
        "kind": ROLE_BINDING.kind,
        "metadata": {"name": "one"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [
            {"kind": "ServiceAccount", "name": "worker", "namespace": "system"},
            {"kind": "Group", "name": "people"},
        ],
    }


def limits(*items: Manifest) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": LIMIT_RANGE.kind,
        "metadata": {"name": "one"},
        "spec": {"limits": list(items)},
    }


def pod(name: str, **requests: str) -> Manifest:
    container: Manifest = {"name": "main", "image": "one", "resources": {"requests": requests}}
    first = {"name": "first", "image": "one"}
    return {
        "apiVersion": "v1",
        "kind": POD.kind,
        "metadata": {"name": name},
        "spec": {"containers": [container], "initContainers": [first]},
    }


def test_the_groups_of_a_role_binding_are_set(world: World) -> None:
    world.create(ROLE_BINDING, binding("one"))

    account, people = world.get(ROLE_BINDING, "one")["subjects"]

    assert "apiGroup" not in account
    assert people["apiGroup"] == RBAC


def test_the_role_of_a_binding_cannot_change(world: World) -> None:
    world.create(ROLE_BINDING, binding("one"))

    with pytest.raises(ClusterRejected) as caught:
        world.cluster.apply(
            ROLE_BINDING,
            {**binding("two"), "metadata": {"name": "one", "namespace": world.namespace}},
        )

    assert caught.value.status == 422
    assert "cannot change roleRef" in caught.value.detail


def test_a_quota_is_stored(world: World) -> None:
    hard = {"services.nodeports": "0", "requests.nvidia.com/gpu": "8", "requests.memory": "1Gi"}
    quota = {
        "apiVersion": "v1",
        "kind": RESOURCE_QUOTA.kind,
        "metadata": {"name": "one"},
        "spec": {"hard": hard},
    }

    world.create(RESOURCE_QUOTA, quota)

    assert world.get(RESOURCE_QUOTA, "one")["spec"]["hard"] == hard


def test_the_defaults_of_a_limit_range_come_from_the_next_stricter_value(world: World) -> None:
    world.create(
        LIMIT_RANGE,
        limits(
            {"type": "Container", "max": {"memory": "2Gi"}, "min": {"cpu": "1m"}},
            {"type": "Pod", "max": {"memory": "4Gi"}},
        ),
    )

    first, second = world.get(LIMIT_RANGE, "one")["spec"]["limits"]

    assert first["default"] == {"memory": "2Gi"}
    assert first["defaultRequest"] == {"cpu": "1m", "memory": "2Gi"}
    assert second == {"type": "Pod", "max": {"memory": "4Gi"}}


def test_a_limit_range_has_each_type_once(world: World) -> None:
    item = {"type": "Container", "defaultRequest": {"cpu": "0"}}

    with pytest.raises(ClusterRejected) as caught:
        world.create(LIMIT_RANGE, limits(item, item))

    assert (caught.value.status, caught.value.reason) == (422, "Invalid")
    assert "spec.limits[1].type: Duplicate value" in caught.value.detail


def test_containers_get_the_requests_that_they_omit(world: World) -> None:
    zero = {"cpu": "0", "memory": "0"}
    world.create(LIMIT_RANGE, limits({"type": "Container", "defaultRequest": zero}))

    created = world.create(POD, pod("one", memory="1Gi"))

    spec = created["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "0", "memory": "1Gi"}
    assert spec["initContainers"][0]["resources"]["requests"] == zero
    assert created["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container main;"
        " cpu, memory request for init container first"
    )
