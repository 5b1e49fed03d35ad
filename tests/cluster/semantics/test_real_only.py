"""Features of a real control plane that are not simulated."""

import pytest

from gpuplatform.errors import ClusterForbidden
from gpuplatform.kube.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    ResourceKind,
)
from tests.cluster.world import World, condition, container, deployment, gpus, is_ready, pod

pytestmark = pytest.mark.cluster

SERVICE_ACCOUNT = ResourceKind("", "v1", "ServiceAccount", "serviceaccounts")
QUOTA = ResourceKind("", "v1", "ResourceQuota", "resourcequotas")
ROLE = ResourceKind("rbac.authorization.k8s.io", "v1", "Role", "roles")
BINDING = ResourceKind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
RBAC = pytest.mark.real_only(reason="RBAC is not simulated")
QUOTAS = pytest.mark.real_only(reason="ResourceQuota is not simulated")
PREEMPTION = pytest.mark.real_only(reason="preemption is not simulated")


def token_of(world: World, name: str) -> str:
    world.create(SERVICE_ACCOUNT, {"metadata": {"name": name}})
    reply = world.http("POST", world.path(SERVICE_ACCOUNT, name, "token"), {"spec": {}})
    return str(reply.body["status"]["token"])


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


@PREEMPTION
def test_a_pod_preempts_one_with_lower_priority(world: World) -> None:
    name = f"{world.namespace}-high"
    world.cluster.create(
        PRIORITY_CLASS,
        {
            "apiVersion": PRIORITY_CLASS.api_version,
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 1000,
        },
    )
    for number in (1, 2, 3):
        full = pod(f"full-{number}", container(resources=gpus(8)))
        full["spec"]["terminationGracePeriodSeconds"] = 1
        world.create(POD, full)
    world.until(lambda: all(is_ready(item) for item in world.list(POD)))

    world.create(POD, pod("high", container(resources=gpus(8)), priorityClassName=name))

    world.until(lambda: is_ready(world.get(POD, "high")))
    assert len(world.list(POD)) == 3
    world.cluster.delete(PRIORITY_CLASS, name)
