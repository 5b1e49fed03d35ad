"""Processes have only the permissions that their calls require."""

from gpuplatform.deployment.permissions import ACCOUNTS, Place, namespace_manifests
from gpuplatform.kube.kinds import CLUSTER_ROLE, NAMESPACE, ROLE_BINDING, SECRET

RBAC = "rbac.authorization.k8s.io"


def test_no_process_may_list_secrets_or_grant_permissions() -> None:
    permissions = [
        (account.process, permission) for account in ACCOUNTS for permission in account.permissions
    ]
    rules = [permission.rule() for _, permission in permissions]
    secrets = [
        (process, permission) for process, permission in permissions if permission.kind is SECRET
    ]

    assert not any("*" in {*rule["resources"], *rule["verbs"]} for rule in rules)
    assert not any({"escalate", "impersonate"} & set(rule["verbs"]) for rule in rules)
    # By name, in the namespaces of tenants, for the process that writes them.
    assert all((process, r.place) == ("operations", Place.TENANTS) for process, r in secrets)
    assert not any({"list", "watch"} & set(one.verbs) for _, one in secrets)


def test_only_the_operations_worker_binds_roles_and_only_those_of_a_tenant() -> None:
    granting = [
        (account.process, permission)
        for account in ACCOUNTS
        for permission in account.permissions
        if permission.kind.group == RBAC or permission.kind is NAMESPACE
    ]
    writing = [one for one in granting if set(one[1].verbs) - {"get", "list", "watch"}]
    bound = {one.name for _, one in writing if one.kind is CLUSTER_ROLE}

    assert {(process, one.place) for process, one in writing} == {("operations", Place.TENANCY)}
    assert {one.kind for _, one in writing} == {NAMESPACE, ROLE_BINDING, CLUSTER_ROLE}
    assert all(one.verbs == ("bind",) for _, one in writing if one.kind is CLUSTER_ROLE)
    manifests = [manifest for _, manifest in namespace_manifests("gpu-platform")]
    assert bound == {one["roleRef"]["name"] for one in manifests}
