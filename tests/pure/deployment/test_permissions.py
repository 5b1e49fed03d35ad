"""Processes have only the permissions that their calls require."""

from gpuplatform.deployment.permissions import ACCOUNTS, Place
from gpuplatform.kube.kinds import SECRET


def test_no_process_may_list_secrets_or_grant_permissions() -> None:
    permissions = [
        (account.process, permission) for account in ACCOUNTS for permission in account.permissions
    ]
    rules = [permission.rule() for _, permission in permissions]
    secrets = [
        (process, permission) for process, permission in permissions if permission.kind is SECRET
    ]

    assert not any("*" in {*rule["resources"], *rule["verbs"]} for rule in rules)
    assert not any({"escalate", "bind", "impersonate"} & set(rule["verbs"]) for rule in rules)
    assert not any("rbac.authorization.k8s.io" in rule["apiGroups"] for rule in rules)
    # By name, in the namespaces of tenants, for the process that writes them.
    assert all((process, r.place) == ("operations", Place.TENANTS) for process, r in secrets)
    assert not any({"list", "watch"} & set(one.verbs) for _, one in secrets)
