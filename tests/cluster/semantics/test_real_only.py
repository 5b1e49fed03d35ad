"""Features of a real control plane that are not simulated."""

import pytest

from gpuplatform.kube.errors import ClusterForbidden, ClusterRejected
from gpuplatform.kube.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    GPU_UNIT,
    POD,
    REPLICA_SET,
    ResourceKind,
)
from tests.cluster.servers import SLICE
from tests.cluster.world import World, condition, container, deployment, gpus, pod

pytestmark = pytest.mark.cluster

SERVICE_ACCOUNT = ResourceKind("", "v1", "ServiceAccount", "serviceaccounts")
QUOTA = ResourceKind("", "v1", "ResourceQuota", "resourcequotas")
ROLE = ResourceKind("rbac.authorization.k8s.io", "v1", "Role", "roles")
BINDING = ResourceKind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
RBAC = pytest.mark.real_only(reason="RBAC is not simulated")
QUOTAS = pytest.mark.real_only(reason="ResourceQuota is not simulated")


def token_of(world: World, name: str) -> str:
    world.create(SERVICE_ACCOUNT, {"metadata": {"name": name}})
    reply = world.http("POST", world.path(SERVICE_ACCOUNT, name, "token"), {"spec": {}})
    return str(reply.body["status"]["token"])


@pytest.mark.real_only(reason="the size of objects is not limited")
def test_an_object_that_is_too_large_for_etcd_is_rejected(installed: World) -> None:
    template = {"args": ["x" * 32_000] * 60}
    unit = {"metadata": {"name": "large"}, "spec": {"specName": "a", "template": template}}

    with pytest.raises(ClusterRejected, match="too large"):
        installed.create(GPU_UNIT, unit)


@RBAC
def test_an_account_without_rights_is_forbidden(world: World) -> None:
    token = token_of(world, "nobody")

    reply = world.http("GET", world.path(CONFIG_MAP), token=token)

    assert (reply.status, reply.reason) == (403, "Forbidden")
    assert f'User "system:serviceaccount:{world.namespace}:nobody" cannot list' in reply.message


@RBAC
def test_a_role_grants_its_rights(world: World) -> None:
    token = token_of(world, "reader")
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    world.create(ROLE, {"metadata": {"name": "reader"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": world.namespace}
    role = {"apiGroup": ROLE.group, "kind": "Role", "name": "reader"}
    world.create(BINDING, {"metadata": {"name": "reader"}, "subjects": [subject], "roleRef": role})

    world.until(lambda: world.http("GET", world.path(CONFIG_MAP), token=token).status == 200)
    refused = world.http(
        "POST", world.path(CONFIG_MAP), {"metadata": {"name": "one"}}, token=token
    )

    assert refused.status == 403


@RBAC
def test_a_bad_token_is_unauthorized(world: World) -> None:
    reply = world.http("GET", world.path(CONFIG_MAP), token="nonsense")

    assert (reply.status, reply.reason) == (401, "Unauthorized")


@QUOTAS
def test_a_pod_over_the_quota_is_forbidden(world: World) -> None:
    hard = {"requests.nvidia.com/gpu": "1"}
    world.create(QUOTA, {"metadata": {"name": "gpus"}, "spec": {"hard": hard}})
    world.until(lambda: (world.get(QUOTA, "gpus").get("status") or {}).get("hard"))

    with pytest.raises(ClusterForbidden) as refusal:
        world.create(POD, pod("one", container(resources=gpus(2))))

    assert "exceeded quota: gpus" in str(refusal.value)


@QUOTAS
def test_each_extended_resource_has_its_own_quota(world: World) -> None:
    hard = {"requests.nvidia.com/gpu": "0", f"requests.{SLICE}": "1"}
    world.create(QUOTA, {"metadata": {"name": "gpus"}, "spec": {"hard": hard}})
    world.until(lambda: (world.get(QUOTA, "gpus").get("status") or {}).get("hard"))

    world.create(POD, pod("one", container(resources={"limits": {SLICE: "1"}})))
    with pytest.raises(ClusterForbidden):
        world.create(POD, pod("two", container(resources={"limits": {SLICE: "1"}})))


@QUOTAS
def test_a_deployment_over_the_quota_has_the_reason_in_its_status(world: World) -> None:
    hard = {"requests.nvidia.com/gpu": "0"}
    world.create(QUOTA, {"metadata": {"name": "gpus"}, "spec": {"hard": hard}})
    world.until(lambda: (world.get(QUOTA, "gpus").get("status") or {}).get("hard"))
    world.create(DEPLOYMENT, deployment("web", container(resources=gpus(1))))

    found = world.until(
        lambda: condition(world.get(DEPLOYMENT, "web"), "ReplicaFailure").get("message")
    )

    assert "exceeded quota: gpus" in found
    assert world.list(REPLICA_SET, "app=web")
